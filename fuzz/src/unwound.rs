//! Target for stacks that are unwound while they are recorded.

use tare_format::Endian;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription};
use tare_format::record::encode::Encoder;
use tare_format::record::{FileId, Layout, Mmap, RecordHeader, Records, SampleId};
use tare_replay::{LiveUnwinder, UnwoundEvent};
use tare_symbols::SymbolOptions;

const ID: u64 = 77;

/// Fields of a sample: id, address, task, time, call chain, registers and stack.
const FIELDS: u32 = abi::PERF_SAMPLE_IDENTIFIER
    | abi::PERF_SAMPLE_IP
    | abi::PERF_SAMPLE_TID
    | abi::PERF_SAMPLE_TIME
    | abi::PERF_SAMPLE_CALLCHAIN
    | abi::PERF_SAMPLE_REGS_USER
    | abi::PERF_SAMPLE_STACK_USER;

/// The registers that unwinding needs: those of x86-64 without segments.
const REGISTERS: u64 = 0xff_01ff;

fn attr() -> Attr {
    Attr {
        kind: abi::PERF_TYPE_SOFTWARE,
        sampling: Sampling::Period(1),
        sample_type: FIELDS.into(),
        sample_regs_user: REGISTERS,
        sample_stack_user: 64,
        flags: Flags::SAMPLE_ID_ALL,
        ..Attr::default()
    }
}

/// Records of a mapping and of a sample in it.
pub(crate) fn records() -> Vec<Vec<u8>> {
    let layout = Layout::from(&attr());
    let mut records = Vec::new();
    let mmap = Mmap {
        pid: 1,
        tid: 1,
        start: 0x1000,
        len: 0x10_0000,
        pgoff: 0,
        file: FileId::Inode { major: 0, minor: 0, inode: 1, generation: 0 },
        prot: 5,
        flags: 2,
        path: b"/proc/self/exe",
        is_data: false,
    };
    let of_event = SampleId { id: Some(ID), time_ns: Some(1), ..SampleId::default() };
    // A path of a few bytes fits in a record.
    let _ = Encoder::new(&layout, &of_event).mmap(&mut records, &mmap);
    let mut words = vec![ID, 0x2000, 1 << 32 | 1, 2, 2, abi::PERF_CONTEXT_USER, 0x2000, 2];
    words.extend((0..17).map(|register| 0x1000 + register * 8));
    words.push(64);
    words.extend([0x2000; 8]);
    words.push(64);
    let kind = abi::PERF_RECORD_SAMPLE;
    let header = RecordHeader::new(kind, 2, 8 * words.len()).unwrap_or_default();
    records.extend(header.encode());
    words.iter().for_each(|word| records.extend(word.to_ne_bytes()));
    vec![records]
}

/// Unwinds the stacks in records, and checks that whole records come out, and no stack.
pub(crate) fn unwind(input: &[u8]) {
    let name = "cpu-clock".to_owned();
    let events = vec![EventDescription { attr: attr(), ids: vec![ID], name }];
    let described = Description { events, ..Description::default() }.stream_beginning();
    let events = vec![UnwoundEvent { event: 0, keeps_registers: false }];
    let mut unwinder = LiveUnwinder::new(SymbolOptions::default(), events, false);
    let mut trimmer = unwinder.trimmer();
    let is_described = described.is_ok_and(|stream| {
        unwinder.describe(&stream).is_ok() && trimmer.describe(&stream).is_ok()
    });
    assert!(is_described, "one event");
    let mut written = Vec::new();
    let mut trimmed = Vec::new();
    for is_behind in [false, true] {
        unwinder.unwind(input, is_behind, &mut written);
        // Bases are known the second time.
        trimmed.clear();
        let (first, second) = input.split_at(input.len() / 3);
        trimmer.trim(&[first, second], &mut trimmed);
        assert!(trimmed.len() <= input.len(), "trimming makes nothing longer");
    }
    unwinder.unwind(&trimmed, false, &mut written);
    let whole: usize = Records::new(&written, Endian::NATIVE).map(|record| record.size()).sum();
    assert_eq!(whole, written.len(), "whole records");
}
