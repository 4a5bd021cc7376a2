//! User call chains that the kernel didn't record with the sample: unwound from copied stacks on
//! several threads, or deferred.
#![allow(clippy::unwrap_used, reason = "all of this file is tests, the helpers too")]

use std::num::NonZero;
use std::ops::ControlFlow;
use std::time::Duration;

use tare_format::Endian;
use tare_format::abi::bindings::{PERF_CONTEXT_USER, PERF_CONTEXT_USER_DEFERRED};
use tare_format::abi::{Attr, Flags};
use tare_format::file::writer::{Description as Written, EventDescription};
use tare_format::file::{Description, Entry, RecordedEvent};
use tare_format::record::{RawRecord, RecordHeader, Sample, kind};
use tare_profile::Losses;
use tare_replay::{
    CodeAddress, Error, Live, LiveOptions, Machine, Replay, ReplayOptions, Replayed, SampleSink,
    SampleSinkOptions, Sink,
};
use tare_symbols::SymbolOptions;

const IP_TID_TIME: u64 = 0b111;
const CALLCHAIN: u64 = 1 << 5;
const REGS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
const ENDIAN: Endian = Endian::Little;

/// BP, SP and IP (`arch/x86/include/uapi/asm/perf_regs.h`).
const REGISTERS: u64 = 0b111 << 6;

/// Start and end of the stack's mapping.
const STACK: (u64, u64) = (0x7000_0000, 0x7000_8000);

/// A record: its kind, `misc` and body.
type PushedRecord = (u32, u16, Vec<u8>);

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn ids(pid: u32) -> u64 {
    u64::from(pid) | u64::from(pid) << 32
}

fn mmap(pid: u32, start: u64, end: u64, path: &[u8; 8], time_ns: u64) -> PushedRecord {
    let body = words(&[ids(pid), start, end - start, 0]);
    let trailer = words(&[ids(pid), time_ns]);
    (kind::PERF_RECORD_MMAP, 2, [body, path.to_vec(), trailer].concat())
}

/// Returns a sample of compiled code with frame pointers. Its stack has `frames` frames of 32
/// bytes, of which the copy holds the innermost `copied_frames`.
fn copied(pid: u32, time_ns: u64, frames: u64, copied_frames: u64, chain: &[u64]) -> PushedRecord {
    let sp = STACK.1 - 32 * frames;
    let frame = |at: u64| match at {
        at if at + 1 == frames => [0, 0, 0, 0],
        at => [sp + 32 * (at + 1), 0x1001 + at, 0, 0],
    };
    let copy: Vec<u64> = (0..copied_frames).flat_map(frame).collect();
    let mut body = vec![0x1000, ids(pid), time_ns, chain.len() as u64];
    body.extend(chain);
    body.extend([2, sp, sp, 0x1000, copy.len() as u64 * 8]);
    body.extend(&copy);
    body.push(copy.len() as u64 * 8);
    (kind::PERF_RECORD_SAMPLE, 2, words(&body))
}

fn description(extra: u64, flags: Flags) -> Description {
    let attr = Attr {
        sample_type: IP_TID_TIME | CALLCHAIN | extra,
        sample_regs_user: if extra & REGS_USER == 0 { 0 } else { REGISTERS },
        sample_stack_user: if extra & STACK_USER == 0 { 0 } else { 8192 },
        flags: Flags::SAMPLE_ID_ALL | flags,
        ..Attr::default()
    };
    Description::from_events(ENDIAN, [RecordedEvent { attr, ids: Vec::new(), name: None }])
}

/// The times and call chains of delivered samples.
#[derive(Debug, Default, PartialEq)]
struct ReplayedChains(Vec<(u64, Vec<u64>)>);

impl Sink for ReplayedChains {
    type Error = Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        let mut chain: Vec<CodeAddress> = Vec::new();
        machine.callchain(sample, usize::MAX, &mut chain);
        let chain = chain.iter().map(|at| at.address).collect();
        self.0.push((sample.time_ns.unwrap_or(0), chain));
        Ok(ControlFlow::Continue(()))
    }
}

fn replayed(
    threads: usize,
    description: &Description,
    records: &[PushedRecord],
) -> (ReplayedChains, Losses) {
    let mut replay =
        Replay::new(ReplayOptions { threads: NonZero::new(threads), ..ReplayOptions::default() });
    let mut seen = ReplayedChains::default();
    for (offset, (kind, misc, body)) in (0..).zip(records) {
        let record = RawRecord { kind: *kind, misc: *misc, body, endian: ENDIAN };
        let entry = Entry { offset, record, description, payload: None };
        assert!(replay.push(&entry, &mut seen).unwrap().is_continue());
    }
    replay.finish(description, &mut seen).unwrap();
    (seen, replay.losses())
}

/// Returns samples of two processes whose code moves, in rounds as a recorder writes them.
fn moving() -> Vec<PushedRecord> {
    let mut records = Vec::new();
    for pid in [1, 2] {
        records.push(mmap(pid, STACK.0, STACK.1, b"[stack]\0", 1));
        records.push(mmap(pid, 0x1000, 0x2000, b"//anon\0\0", 1));
    }
    for step in 0..6000_u64 {
        let time_ns = 10 + step;
        let pid = 1 + u32::try_from(step % 2).unwrap();
        records.push(match step % 97 {
            // A missing file replaces the callers' code for a while.
            40 => mmap(pid, 0x1000 + step % 7, 0x2000, b"/bin/x\0\0", time_ns),
            60 => mmap(pid, 0x1000, 0x2000, b"//anon\0\0", time_ns),
            _ => copied(pid, time_ns, 1 + step % 40, 1 + step % 30, &[]),
        });
        if step % 701 == 0 {
            records.push((kind::FINISHED_ROUND, 0, Vec::new()));
        }
    }
    records
}

#[test]
fn unwinding_does_not_depend_on_the_number_of_threads() {
    let description = description(REGS_USER | STACK_USER, Flags::empty());
    let records = moving();
    let (one, losses) = replayed(1, &description, &records);
    let samples = records.iter().filter(|record| record.0 == kind::PERF_RECORD_SAMPLE).count();
    assert_eq!(one.0.len(), samples);
    assert!(one.0.is_sorted_by_key(|(time_ns, _)| *time_ns));
    let unwinding = &losses.unwinding;
    assert_eq!(unwinding.stacks(), samples as u64);
    assert!(unwinding.whole > 1000 && unwinding.truncated_stacks() > 100, "{unwinding:?}");
    assert!(unwinding.failed_stacks() > 100, "{unwinding:?}");
    for threads in [2, 3, 8] {
        let (several, of_several) = replayed(threads, &description, &records);
        assert!(several == one, "{threads} threads");
        assert_eq!(of_several, losses, "{threads} threads");
    }
}

/// Half of the stacks have 40 frames of 32 bytes, of which the copy has 10; the others are whole.
#[test]
fn the_sufficient_size_reaches_the_base_of_the_stack() {
    let description = description(REGS_USER | STACK_USER, Flags::empty());
    let maps =
        [mmap(1, STACK.0, STACK.1, b"[stack]\0", 1), mmap(1, 0x1000, 0x2000, b"//anon\0\0", 1)];
    let short = (0..50).map(|at| copied(1, 10 + at, 40, 10, &[]));
    let whole = (0..50).map(|at| copied(1, 100 + at, 20, 20, &[]));
    let records: Vec<_> = maps.into_iter().chain(short).chain(whole).collect();
    let (_, losses) = replayed(2, &description, &records);
    let sufficient = losses.unwinding.sufficient.unwrap();
    assert_eq!((sufficient.bytes, sufficient.stacks, sufficient.of), (2048, 100, 100));
}

#[test]
fn frame_pointers_continue_where_a_copy_ends() {
    let description = description(REGS_USER | STACK_USER, Flags::empty());
    let maps =
        [mmap(1, STACK.0, STACK.1, b"[stack]\0", 1), mmap(1, 0x1000, 0x2000, b"//anon\0\0", 1)];
    // The kernel's chain: a marker, the sampled address, and return addresses.
    let callers = (0..7).map(|at| 0x1001 + at);
    let chain: Vec<_> = [PERF_CONTEXT_USER, 0x1000].into_iter().chain(callers).collect();
    let records: Vec<_> = maps.into_iter().chain([copied(1, 10, 8, 3, &chain)]).collect();
    let (seen, losses) = replayed(1, &description, &records);
    let whole: Vec<_> = std::iter::once(0x1000).chain((0..7).map(|at| 0x1000 + at)).collect();
    assert_eq!(seen.0, [(10, whole)]);
    assert_eq!(losses.unwinding.spliced, 1);
}

fn deferring(tid: u32, time_ns: u64, chain: &[u64]) -> PushedRecord {
    let front = [0xffff_1000, ids(tid), time_ns, chain.len() as u64];
    (kind::PERF_RECORD_SAMPLE, 1, words(&[&front[..], chain].concat()))
}

fn deferred_chain(tid: u32, time_ns: u64, cookie: u64, chain: &[u64]) -> PushedRecord {
    let front = [cookie, chain.len() as u64];
    let trailer = [ids(tid), time_ns];
    (kind::PERF_RECORD_CALLCHAIN_DEFERRED, 2, words(&[&front[..], chain, &trailer].concat()))
}

/// `PERF_CONTEXT_KERNEL`
const KERNEL: u64 = 128_u64.wrapping_neg();

#[test]
fn deferred_chains_are_joined_by_their_cookies() {
    let description = description(0, Flags::DEFER_CALLCHAIN | Flags::DEFER_OUTPUT);
    let kernel = [KERNEL, 0xffff_1000, 0xffff_2000];
    let waits = |cookie| [&kernel[..], &[PERF_CONTEXT_USER_DEFERRED, cookie]].concat();
    let records = [
        deferring(1, 10, &waits(7)),
        deferring(2, 11, &waits(8)),
        deferring(1, 12, &waits(7)),
        deferring(3, 13, &[PERF_CONTEXT_USER, 0x1000, 0x1101]),
        deferred_chain(1, 14, 7, &[PERF_CONTEXT_USER, 0x5000, 0x5101]),
        deferring(1, 15, &waits(9)),
        deferred_chain(1, 16, 9, &[PERF_CONTEXT_USER, 0x6000]),
    ];
    let (seen, losses) = replayed(1, &description, &records);
    let [of_kernel, first, second]: [&[u64]; 3] = [&kernel[1..], &[0x5000, 0x5101], &[0x6000]];
    let with = |user: &[u64]| [of_kernel, user].concat();
    let expected = [
        (13, vec![0x1000, 0x1101]),
        (10, with(first)),
        (12, with(first)),
        (15, with(second)),
        (11, with(&[])),
    ];
    assert_eq!(seen.0, expected);
    assert_eq!(losses.missing_user_chains, 1, "thread 2 didn't come back");
}

/// More samples than may be held back wait for chains that never come.
#[test]
fn samples_do_not_wait_forever_for_missing_chains() {
    let description = description(0, Flags::DEFER_CALLCHAIN | Flags::DEFER_OUTPUT);
    let many: Vec<_> =
        (0..10_000).map(|at| deferring(1, 10 + at, &[PERF_CONTEXT_USER_DEFERRED, at])).collect();
    let (seen, losses) = replayed(1, &description, &many);
    assert_eq!((seen.0.len(), losses.missing_user_chains), (10_000, 10_000));
}

/// The limit applies to each round.
#[test]
fn copies_above_the_limit_of_a_round_keep_the_recorded_chain_and_are_counted() {
    let description = description(REGS_USER | STACK_USER, Flags::empty());
    let options = ReplayOptions {
        threads: NonZero::new(2),
        most_stacks: Some(30),
        ..ReplayOptions::default()
    };
    let mut replay = Replay::new(options);
    let mut seen = ReplayedChains::default();
    let push =
        |replay: &mut Replay, seen: &mut ReplayedChains, (kind, misc, body): &PushedRecord| {
            let record = RawRecord { kind: *kind, misc: *misc, body, endian: ENDIAN };
            let entry = Entry { offset: 0, record, description: &description, payload: None };
            assert!(replay.push(&entry, seen).unwrap().is_continue());
        };
    for mapping in
        [mmap(1, STACK.0, STACK.1, b"[stack]\0", 1), mmap(1, 0x1000, 0x2000, b"//anon\0\0", 1)]
    {
        push(&mut replay, &mut seen, &mapping);
    }
    // The kernel recorded the address and a caller that the copy doesn't contain.
    let recorded = [PERF_CONTEXT_USER, 0x1000, 0x1fff];
    for round in 0..3_u64 {
        let from_ns = 100 * (round + 1);
        (0..50).for_each(|at| {
            push(&mut replay, &mut seen, &copied(1, from_ns + at, 5, 5, &recorded));
        });
        let flow = replay.complete_before(from_ns + 50, &description, &mut seen).unwrap();
        assert!(flow.is_continue());
    }
    replay.finish(&description, &mut seen).unwrap();
    let unwound: Vec<_> = std::iter::once(0x1000).chain((0..4).map(|at| 0x1000 + at)).collect();
    let chains: Vec<_> = seen.0.iter().map(|(_, chain)| chain.as_slice()).collect();
    for round in chains.chunks(50) {
        let is_unwound: Vec<_> = round.iter().map(|chain| *chain == unwound).collect();
        assert_eq!(is_unwound, [vec![true; 30], vec![false; 20]].concat());
        assert!(round[30..].iter().all(|chain| *chain == &recorded[1..]), "{:x?}", round[30]);
    }
    let unwinding = replay.losses().unwinding;
    assert_eq!((chains.len(), unwinding.whole, unwinding.failed_stacks()), (150, 90, 60));
}

#[test]
fn a_live_replay_unwinds_4096_copies_per_round() {
    let attr = description(REGS_USER | STACK_USER, Flags::empty()).events()[0].attr.clone();
    let event = EventDescription { attr, ids: vec![1], name: "cpu-clock".to_owned() };
    let described = Written { events: vec![event], ..Written::default() };
    let window = Duration::from_secs(10);
    let symbols = SymbolOptions::default();
    let mut live = Live::new(LiveOptions { window, symbols, left_out: None });
    live.describe(&described.stream_beginning().unwrap()).unwrap();
    let mut sink = SampleSink::new(SampleSinkOptions::default(), live.description());
    let maps =
        [mmap(1, STACK.0, STACK.1, b"[stack]\0", 1), mmap(1, 0x1000, 0x2000, b"//anon\0\0", 1)];
    let samples = (0..5000).map(|at| copied(1, 10 + at, 2, 2, &[]));
    let mut records = Vec::new();
    for (kind, misc, body) in maps.into_iter().chain(samples) {
        records.extend(RecordHeader::new(kind, misc, body.len()).unwrap().encode());
        records.extend(body);
    }
    live.push(&records, &mut sink);
    live.drained(1_000_000_000, &mut sink);
    let unwinding = live.losses().unwinding;
    assert_eq!((unwinding.whole, unwinding.failed_stacks()), (4096, 5000 - 4096));
    assert_eq!(sink.tables().1.len(), 5000, "each is shown");
}
