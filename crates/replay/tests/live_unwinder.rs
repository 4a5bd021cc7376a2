//! Copied stacks that are shortened and unwound while they are recorded.
#![allow(clippy::unwrap_used, reason = "all of this file is tests, the helpers too")]

use tare_format::Endian;
use tare_format::abi::bindings::{
    PERF_CONTEXT_USER, PERF_RECORD_SAMPLE, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_IDENTIFIER,
    PERF_SAMPLE_IP, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{
    FileId, Layout, MISC_TRUNCATED_CHAIN, Mmap, RecordHeader, Records, Sample, SampleId, UserStack,
};
use tare_replay::{LiveUnwinder, StackTrimmer, UnwoundEvent};
use tare_symbols::SymbolOptions;

const ID: u64 = 77;
const TID: u32 = 5;

/// BP, SP and IP (`arch/x86/include/uapi/asm/perf_regs.h`).
const REGISTERS: u64 = 0b111 << 6;

/// Address after the outermost frame.
const BASE: u64 = 0x7000_8000;

/// Bytes that the kernel is asked to copy.
const ROOM: u16 = 16 << 10;

fn attr() -> Attr {
    let fields = PERF_SAMPLE_IDENTIFIER
        | PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_CALLCHAIN
        | PERF_SAMPLE_REGS_USER
        | PERF_SAMPLE_STACK_USER;
    Attr {
        sampling: Sampling::Period(1),
        sample_type: fields.into(),
        sample_regs_user: REGISTERS,
        sample_stack_user: ROOM.into(),
        flags: Flags::SAMPLE_ID_ALL,
        ..Attr::default()
    }
}

/// Code of a just-in-time compiler, which is unwound by frame pointers.
fn code() -> Vec<u8> {
    let mmap = Mmap {
        pid: TID.cast_signed(),
        tid: TID.cast_signed(),
        start: 0x1000,
        len: 0x1000,
        pgoff: 0,
        file: FileId::Inode { major: 0, minor: 0, inode: 0, generation: 0 },
        prot: 5,
        flags: 2,
        path: b"//anon",
        is_data: false,
    };
    let id = SampleId {
        id: Some(ID),
        pid: Some(TID.cast_signed()),
        tid: Some(TID.cast_signed()),
        time_ns: Some(1),
        ..SampleId::default()
    };
    let mut record = Vec::new();
    Encoder::new(&Layout::from(&attr()), &id).mmap(&mut record, &mmap).unwrap();
    record
}

/// A sample with this many frames of 32 bytes below [`BASE`], and `copied` bytes of memory, as far
/// as they have frames.
fn sample(time_ns: u64, frames: u64, copied: usize) -> Vec<u8> {
    let sp = BASE - 32 * frames;
    let frame = |at: u64| match at {
        at if at + 1 == frames => [0, 0, 0, 0],
        at => [sp + 32 * (at + 1), 0x1001 + at, 0, 0],
    };
    let mut copy: Vec<u8> =
        (0..frames).flat_map(frame).flat_map(|word: u64| word.to_ne_bytes()).collect();
    // Other memory is above the stack, and the rest of the room isn't written.
    copy.resize(copied, 0x55);
    copy.resize(ROOM.into(), 0xee);
    let words =
        [ID, 0x1000, u64::from(TID) << 32 | u64::from(TID), time_ns, 2, PERF_CONTEXT_USER, 0x1000];
    let mut body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let registers = [2, sp, sp, 0x1000, u64::from(ROOM)];
    body.extend(registers.iter().flat_map(|word| word.to_ne_bytes()));
    body.extend(&copy);
    body.extend((copied as u64).to_ne_bytes());
    let header = RecordHeader::new(PERF_RECORD_SAMPLE, 2, body.len()).unwrap();
    [&header.encode()[..], &body].concat()
}

fn stream() -> Vec<u8> {
    let event = EventDescription { attr: attr(), ids: vec![ID], name: "cpu-clock".to_owned() };
    Description { events: vec![event], ..Description::default() }.stream_beginning().unwrap()
}

fn unwinder() -> (LiveUnwinder, StackTrimmer) {
    let events = vec![UnwoundEvent { event: 0, keeps_registers: false }];
    let mut unwinder = LiveUnwinder::new(SymbolOptions::default(), events, false);
    let mut trimmer = unwinder.trimmer();
    unwinder.describe(&stream()).unwrap();
    trimmer.describe(&stream()).unwrap();
    (unwinder, trimmer)
}

fn trimmed(trimmer: &mut StackTrimmer, pieces: &[&[u8]]) -> Vec<u8> {
    let mut into = Vec::new();
    trimmer.trim(pieces, &mut into);
    into
}

fn unwound(unwinder: &mut LiveUnwinder, records: &[u8]) -> Vec<u8> {
    let mut into = Vec::new();
    unwinder.unwind(records, false, &mut into);
    into
}

/// The copied stacks in records.
fn stacks(records: &[u8]) -> Vec<(u64, usize)> {
    let samples =
        Records::new(records, Endian::NATIVE).filter(|raw| raw.kind == PERF_RECORD_SAMPLE);
    let layout = Layout::from(&attr());
    samples
        .map(|raw| Sample::decode(&raw, &layout).unwrap().stack_user.unwrap())
        .map(|UserStack { bytes, room }| (room, bytes.len()))
        .collect()
}

#[test]
fn room_that_the_kernel_left_empty_is_not_queued_wherever_a_record_is_split() {
    let records = [code(), sample(2, 9, 1000), sample(3, 20, 640)].concat();
    let whole = trimmed(&mut unwinder().1, &[&records]);
    assert_eq!(stacks(&whole), [(1000, 1000), (640, 640)]);
    for at in (0..records.len()).step_by(3) {
        let (first, rest) = records.split_at(at);
        let (second, third) = rest.split_at(rest.len().min(5));
        assert_eq!(trimmed(&mut unwinder().1, &[first, second, third]), whole, "split at {at}");
    }
    let as_recorded = unwound(&mut unwinder().0, &records);
    assert_eq!(unwound(&mut unwinder().0, &whole), as_recorded);
    assert!(as_recorded.len() < 1000);
}

#[test]
fn memory_above_the_base_of_a_known_stack_is_not_queued() {
    let (mut unwinder, mut trimmer) = unwinder();
    let first = [code(), sample(2, 9, ROOM.into())].concat();
    let unknown = trimmed(&mut trimmer, &[&first]);
    assert_eq!(stacks(&unknown), [(ROOM.into(), ROOM.into())]);
    unwound(&mut unwinder, &unknown);
    assert_eq!(unwinder.counts().whole, 1);
    let second = sample(3, 40, ROOM.into());
    let known = trimmed(&mut trimmer, &[&second]);
    let bytes = stacks(&known)[0].1;
    assert!((40 * 32..1 << 11).contains(&bytes), "{bytes} bytes");
    unwound(&mut unwinder, &known);
    assert_eq!(unwinder.counts().whole, 2, "{:?}", unwinder.counts());
}

#[test]
fn a_chain_that_misses_callers_is_marked_in_its_record() {
    let records = [code(), sample(2, 9, 1000), sample(3, 20, 96)].concat();
    let unwound = unwound(&mut unwinder().0, &records);
    let samples =
        Records::new(&unwound, Endian::NATIVE).filter(|raw| raw.kind == PERF_RECORD_SAMPLE);
    let marks = samples.map(|raw| raw.misc & MISC_TRUNCATED_CHAIN != 0).collect::<Vec<_>>();
    assert_eq!(marks, [false, true]);
}

#[test]
fn damaged_records_are_passed_on() {
    let mut damaged = sample(2, 9, 1000);
    damaged[6..8].copy_from_slice(&3_u16.to_ne_bytes());
    for at in [0, 4, 7, 8, 100] {
        let (first, second) = damaged.split_at(at);
        assert_eq!(trimmed(&mut unwinder().1, &[first, second]), damaged, "split at {at}");
    }
}
