//! Replays records of ring buffers that are pushed one by one.
#![allow(clippy::unwrap_used, reason = "all of this file is tests, the helpers too")]

use std::ops::ControlFlow;

use tare_format::Endian;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::{Description, Entry, RecordedEvent};
use tare_format::record::{RawRecord, Sample, kind};
use tare_replay::{
    CodeAddress, Error, Machine, ProfileOptions, ProfileSink, Replay, ReplayOptions, Replayed,
    SampleDetail, SampleSink, SampleSinkOptions, Sink,
};

const IP: u64 = 1;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const CALLCHAIN: u64 = 1 << 5;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const BRANCH_STACK: u64 = 1 << 11;

const ENDIAN: Endian = Endian::Little;

#[derive(Clone, Debug)]
struct PushedRecord {
    kind: u32,
    misc: u16,
    body: Vec<u8>,
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn ids(pid: i32, tid: i32) -> u64 {
    u64::from(pid.cast_unsigned()) | u64::from(tid.cast_unsigned()) << 32
}

/// Encodes the end of a record other than a sample: TID, TIME, CPU.
fn trailer(time_ns: u64) -> Vec<u8> {
    words(&[0, time_ns, 0])
}

fn sample(tid: i32, time_ns: u64, cpu: u64, rest: &[u64]) -> PushedRecord {
    let front = words(&[0x1000, ids(tid, tid), time_ns, cpu, 1]);
    PushedRecord { kind: kind::PERF_RECORD_SAMPLE, misc: 2, body: [front, words(rest)].concat() }
}

fn fork(tid: i32, parent: i32, time_ns: u64) -> PushedRecord {
    let body = words(&[ids(tid, parent), ids(tid, parent), time_ns]);
    PushedRecord { kind: kind::PERF_RECORD_FORK, misc: 0, body: [body, trailer(time_ns)].concat() }
}

fn comm(tid: i32, name: &[u8; 8], time_ns: u64) -> PushedRecord {
    let body = [words(&[ids(tid, tid)]), name.to_vec(), trailer(time_ns)].concat();
    PushedRecord { kind: kind::PERF_RECORD_COMM, misc: 1 << 13, body }
}

fn mmap(pid: i32, start: u64, time_ns: u64) -> PushedRecord {
    let body = words(&[ids(pid, pid), start, 0x1000, 0]);
    let body = [body, b"/bin/sh\0".to_vec(), trailer(time_ns)].concat();
    PushedRecord { kind: kind::PERF_RECORD_MMAP, misc: 2, body }
}

fn round() -> PushedRecord {
    PushedRecord { kind: kind::FINISHED_ROUND, misc: 0, body: Vec::new() }
}

fn description(extra: u64, branches: u64) -> Description {
    let attr = Attr {
        sampling: Sampling::Period(1),
        sample_type: IP | TID | TIME | CPU | PERIOD | extra,
        flags: Flags::SAMPLE_ID_ALL,
        branch_sample_type: branches,
        ..Attr::default()
    };
    Description::from_events(ENDIAN, [RecordedEvent { attr, ids: Vec::new(), name: None }])
}

/// The delivered samples: thread, time, thread name, and call chain.
#[derive(Debug, Default)]
struct ReplayedSamples {
    samples: Vec<(i32, u64, Vec<u8>)>,
    chains: Vec<Vec<u64>>,
}

impl Sink for ReplayedSamples {
    type Error = Error;

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        let tid = sample.fields.head.tid.unwrap();
        let comm = machine.comm(tid).unwrap_or(b"?").to_vec();
        self.samples.push((tid, sample.time_ns.unwrap_or(0), comm));
        let mut chain: Vec<CodeAddress> = Vec::new();
        machine.callchain(sample, usize::MAX, &mut chain);
        self.chains.push(chain.iter().map(|at| at.address).collect());
        Ok(ControlFlow::Continue(()))
    }
}

fn replayed(
    detail: SampleDetail,
    description: &Description,
    records: &[PushedRecord],
) -> (ReplayedSamples, Replay) {
    let mut seen = ReplayedSamples::default();
    let replay = replay_into(&mut seen, detail, description, records);
    (seen, replay)
}

fn replay_into(
    seen: &mut impl Sink<Error = Error>,
    detail: SampleDetail,
    description: &Description,
    records: &[PushedRecord],
) -> Replay {
    let mut replay = Replay::new(ReplayOptions { detail, ..ReplayOptions::default() });
    for (offset, PushedRecord { kind, misc, body }) in (0..).zip(records) {
        let record = RawRecord { kind: *kind, misc: *misc, body, endian: ENDIAN };
        let entry = Entry { offset, record, description, payload: None };
        assert!(replay.push(&entry, seen).unwrap().is_continue());
    }
    replay.finish(description, seen).unwrap();
    replay
}

/// Returns the ring buffers of three CPUs, in which threads start, are named and are sampled at
/// different times.
fn rings() -> [Vec<PushedRecord>; 3] {
    let mut rings = [Vec::new(), Vec::new(), Vec::new()];
    for step in 0..300_u64 {
        let time_ns = 10 + 10 * step;
        let tid = 100 + i32::try_from(step / 10).unwrap();
        let record = match step % 10 {
            0 => fork(tid, tid - 1, time_ns),
            1 => comm(tid, format!("t{tid}\0\0\0\0").as_bytes().try_into().unwrap(), time_ns),
            _ => sample(tid, time_ns, step % 3, &[]),
        };
        rings[usize::try_from(step * 7 % 3).unwrap()].push(record);
    }
    rings
}

/// As in perf. A thread that starts with the number of an unnamed one is another thread.
#[test]
fn samples_before_the_first_name_of_a_thread_have_it_too() {
    let name = |name: &[u8; 8], tid, time_ns| comm(tid, name, time_ns);
    let records = [
        sample(7, 1, 0, &[]),
        sample(8, 2, 0, &[]),
        sample(9, 3, 0, &[]),
        name(b"first\0\0\0", 7, 4),
        sample(7, 5, 0, &[]),
        name(b"second\0\0", 7, 6),
        sample(7, 7, 0, &[]),
        fork(8, 7, 8),
        name(b"child\0\0\0", 8, 9),
        round(),
    ];
    let description = description(0, 0);
    let expected = [&b"first"[..], b":8", b":9", b"first", b"second"];
    let mut sink = SampleSink::new(SampleSinkOptions::default(), &description);
    replay_into(&mut sink, SampleDetail::default(), &description, &records);
    let (profile, samples) = sink.tables();
    let task = |sample: tare_profile::StoredSample| samples.task(sample.task).unwrap();
    let names: Vec<_> = samples.iter().map(|sample| profile.string(task(sample).comm)).collect();
    assert_eq!(names, expected);

    let mut sink = ProfileSink::new(&ProfileOptions::default(), &description).unwrap();
    replay_into(&mut sink, SampleDetail::default(), &description, &records);
    let mut names: Vec<_> = sink
        .profile()
        .rows()
        .map(|(row, weight)| (sink.profile().string(row.comm.unwrap()), weight.samples))
        .collect();
    names.sort_unstable();
    assert_eq!(names, [(&b":8"[..], 1), (b":9", 1), (b"first", 2), (b"second", 1)]);
}

/// The kernel numbers all tasks outside of the recorder's pid namespace 0, as it does the idle
/// task.
#[test]
fn tasks_outside_of_the_pid_namespace_lend_each_other_nothing() {
    let kernel = |tid, time_ns, chain: &[u64]| {
        let rest = [&[chain.len() as u64][..], chain].concat();
        PushedRecord { misc: 1, ..sample(tid, time_ns, 0, &rest) }
    };
    const USER: u64 = (-512_i64).cast_unsigned();
    let records = [
        comm(0, b"beta\0\0\0\0", 1),
        mmap(0, 0x1000, 2),
        sample(0, 3, 0, &[0]),
        kernel(0, 4, &[]),
        kernel(0, 5, &[USER, 0x1000]),
        fork(0, 7, 6),
        fork(8, 0, 7),
        sample(8, 8, 0, &[0]),
        round(),
    ];
    let description = description(CALLCHAIN, 0);
    let (seen, replay) = replayed(SampleDetail::default(), &description, &records);
    let unknown = |time_ns| (-1, time_ns, b"?".to_vec());
    let idle = (0, 4, b"swapper".to_vec());
    assert_eq!(seen.samples, [unknown(3), idle, unknown(5), (8, 8, b"?".to_vec())]);
    assert_eq!(replay.losses().foreign_samples, 2);
    assert_eq!(replay.machine().mapping_bytes(tare_replay::CpuMode::User, 0, 0x1000), None);
}

#[test]
fn any_interleaving_of_cpus_gives_the_same_samples() {
    let description = description(0, 0);
    let rings = rings();
    let mut one_by_one: Vec<_> = rings.concat();
    one_by_one.sort_by_key(|record| match record.kind {
        kind::PERF_RECORD_SAMPLE => u64::from_le_bytes(record.body[16..24].try_into().unwrap()),
        _ => u64::from_le_bytes(record.body[record.body.len() - 16..][..8].try_into().unwrap()),
    });
    let (expected, _) = replayed(SampleDetail::Full, &description, &one_by_one);
    assert_eq!(expected.samples.len(), 240);
    assert_eq!(expected.samples[0], (100, 30, b"t100".to_vec()));
    for (order, piece) in [([0, 1, 2], 7), ([2, 0, 1], 13), ([1, 2, 0], 100), ([0, 2, 1], 1)] {
        let mut records = Vec::new();
        let mut rest: Vec<_> = order.iter().map(|cpu| rings[*cpu].chunks(piece)).collect();
        while rest.iter().any(|ring| ring.len() > 0) {
            rest.iter_mut().for_each(|ring| records.extend(ring.next().unwrap_or(&[]).to_vec()));
            records.push(round());
        }
        for detail in [SampleDetail::Full, SampleDetail::Front] {
            let (seen, replay) = replayed(detail, &description, &records);
            assert_eq!(seen.samples, expected.samples, "{order:?} {piece} {detail:?}");
            assert!(replay.losses().is_empty(), "{:?}", replay.losses());
        }
    }
}

#[test]
fn a_branch_stack_of_calls_is_the_user_part_of_the_chain() {
    const USER: u64 = 0xffff_ffff_ffff_fe00;
    const KERNEL: u64 = 0xffff_ffff_ffff_ff80;
    const CALL_STACK: u64 = 1 << 11;
    let rest = [5, KERNEL, 0xffff_ffff_8000_0001, USER, 0x1000, 0x2000];
    let rest = [&rest[..], &[2, 0x500, 0x1000, 0, 0x600, 0x501, 0]].concat();
    let kernel = 0xffff_ffff_8000_0001;
    for (branches, expected) in
        [(0, vec![kernel, 0x1000, 0x2000]), (CALL_STACK, vec![kernel, 0x1000, 0x500, 0x600])]
    {
        let description = description(CALLCHAIN | BRANCH_STACK, branches);
        let (seen, _) = replayed(SampleDetail::Full, &description, &[sample(7, 10, 0, &rest)]);
        assert_eq!(seen.chains, [expected]);
    }
}

#[test]
fn a_long_line_of_forks_costs_each_fork_once() {
    let description = description(0, 0);
    let mut records = vec![comm(1, b"first\0\0\0", 1)];
    for tid in 2..100_000_i32 {
        let time_ns = u64::from(tid.cast_unsigned()) * 10;
        records.push(fork(tid, tid - 1, time_ns));
        records.push(sample(tid, time_ns + 1, 0, &[]));
    }
    let (seen, _) = replayed(SampleDetail::Front, &description, &records);
    assert_eq!(seen.samples.len(), 99_998);
    assert!(seen.samples.iter().all(|(.., comm)| comm == b"first"));
}

/// Forks multiply mappings, and numbers of lost records overflow.
#[test]
fn a_hostile_stream_is_replayed_in_bounded_memory() {
    let description = description(0, 0);
    let mut records = vec![comm(1, b"first\0\0\0", 1)];
    // Many mappings, copied by each of many children.
    for at in 0..20_000 {
        records.push(mmap(1, at * 0x1000, 2));
    }
    for tid in 2..3_000 {
        records.push(fork(tid, 1, 3));
        records.push(mmap(tid, 0x10, 4));
    }
    // Numbers of lost records whose sum overflows.
    for _ in 0..3 {
        let body = [words(&[0, u64::MAX]), trailer(5)].concat();
        records.push(PushedRecord { kind: kind::PERF_RECORD_LOST, misc: 0, body });
    }
    records.push(sample(2_999, 6, 0, &[]));
    let before = resident_bytes();
    let (seen, replay) = replayed(SampleDetail::Full, &description, &records);
    let grown = resident_bytes().saturating_sub(before);
    assert_eq!(seen.samples.len(), 1);
    assert_eq!(replay.losses().lost_records, u64::MAX);
    println!("{} MiB for 60 million copied mappings", grown >> 20);
    assert!(grown < 700 << 20, "{grown} bytes");
}

/// With a changed byte in any record, the sample is delivered or a malformed record is counted.
/// Truncated records don't stop the replay.
#[test]
fn damaged_records_are_counted_and_skipped() {
    let description = description(CALLCHAIN | BRANCH_STACK, 1 << 11);
    let rest = [2, 0xffff_ffff_ffff_fe00, 0x1000, 1, 0x500, 0x1000, 0];
    let whole = [
        comm(1, b"first\0\0\0", 1),
        fork(2, 1, 2),
        mmap(2, 0x1000, 3),
        round(),
        sample(2, 4, 0, &rest),
    ];
    for (at, record) in whole.iter().enumerate() {
        for byte in 0..record.body.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut records = whole.clone();
                records[at].body[byte] = value;
                let (seen, replay) = replayed(SampleDetail::Full, &description, &records);
                let lost = replay.losses().malformed_records;
                assert!(seen.samples.len() as u64 + lost >= 1, "{at} {byte} {value}");
            }
            let mut records = whole.clone();
            records[at].body.truncate(byte);
            for detail in [SampleDetail::Full, SampleDetail::Front] {
                let (seen, _) = replayed(detail, &description, &records);
                assert!(seen.samples.len() <= 1);
            }
        }
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
