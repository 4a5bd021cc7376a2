//! Writes a large recording with known content, in the order in which a recorder with two rings
//! writes.

use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use tare_format::abi::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_SAMPLE_CPU, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,
    PERF_SAMPLE_PERIOD, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{Description, EventDescription, FINISHED_ROUND};
use tare_format::record::encode::Encoder;
use tare_format::record::kind::PERF_RECORD_SAMPLE;
use tare_format::record::{Comm, Layout, RecordHeader, SampleId};

/// Threads, each with a name of its own.
const THREADS: u32 = 60;

/// Samples per CPU between two FINISHED_ROUND records.
const ROUND: u64 = 2000;

/// Sampling period in nanoseconds.
const PERIOD: u64 = 250_000;

/// Size of a sample in bytes: header, words, and raw data with its length.
const SAMPLE_SIZE: u16 = 8 + 6 * 8 + 4 + RAW_SIZE;

const RAW_SIZE: u16 = 44;

/// A sample of user code (`PERF_RECORD_MISC_USER`).
const HEADER: RecordHeader = RecordHeader { kind: PERF_RECORD_SAMPLE, misc: 2, size: SAMPLE_SIZE };

/// Writes a recording of `cpu-clock` with `samples` samples, rounded up to whole rounds, and
/// returns its size in bytes.
///
/// # Errors
/// Errors of the file system.
pub(super) fn write(path: &Path, samples: u64) -> anyhow::Result<u64> {
    let bits = PERF_SAMPLE_IDENTIFIER
        | PERF_SAMPLE_IP
        | PERF_SAMPLE_TID
        | PERF_SAMPLE_TIME
        | PERF_SAMPLE_CPU
        | PERF_SAMPLE_PERIOD
        | PERF_SAMPLE_RAW;
    let attr = Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        sampling: Sampling::Period(PERIOD),
        sample_type: u64::from(bits),
        flags: Flags::SAMPLE_ID_ALL | Flags::COMM | Flags::TASK,
        ..Attr::default()
    };
    let layout = Layout::from(&attr);
    let description = Description {
        events: vec![EventDescription { attr, ids: vec![1, 2], name: "cpu-clock".to_owned() }],
        ..Description::default()
    };
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut beginning = description.beginning(|_| 0, 1)?.bytes;
    let start = beginning.len() as u64;
    for thread in 0..THREADS {
        comm(&mut beginning, &layout, thread)?;
    }
    file.write_all(&beginning)?;
    let mut end = beginning.len() as u64;
    let mut random = fastrand::Rng::with_seed(1);
    let mut record = Vec::with_capacity(SAMPLE_SIZE.into());
    for round in 0..samples.div_ceil(2 * ROUND) {
        for cpu in 0..2 {
            for at in 0..ROUND {
                sample(
                    &mut record,
                    cpu,
                    (round * ROUND + at) * PERIOD + u64::from(cpu) * 1000 + 1_000_000,
                    &mut random,
                );
                file.write_all(&record)?;
            }
        }
        file.write_all(&FINISHED_ROUND)?;
        end += 2 * ROUND * u64::from(SAMPLE_SIZE) + FINISHED_ROUND.len() as u64;
    }
    let ending = description.ending(&(start..end))?;
    file.write_all(&ending.tail)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&ending.header)?;
    file.into_inner()?.sync_all()?;
    Ok(end + ending.tail.len() as u64)
}

fn comm(into: &mut Vec<u8>, layout: &Layout, thread: u32) -> anyhow::Result<()> {
    let tid = tid(thread)?;
    let id = SampleId {
        pid: Some(tid),
        tid: Some(tid),
        time_ns: Some(1),
        id: Some(1),
        cpu: Some(0),
        ..SampleId::default()
    };
    let name = format!("worker-{thread}");
    Ok(Encoder::new(layout, &id)
        .comm(into, &Comm { pid: tid, tid, comm: name.as_bytes(), is_exec: false })?)
}

fn tid(thread: u32) -> anyhow::Result<i32> {
    Ok(i32::try_from(thread)? + 1000)
}

fn sample(record: &mut Vec<u8>, cpu: u32, time_ns: u64, random: &mut fastrand::Rng) {
    // The minimum of two random numbers gives threads different shares.
    let tid = 1000 + random.u32(..THREADS).min(random.u32(..THREADS));
    record.clear();
    record.extend(HEADER.encode());
    record.extend(u64::from(cpu + 1).to_ne_bytes());
    record.extend((0x40_0000 + u64::from(random.u16(..))).to_ne_bytes());
    record.extend([tid, tid].map(u32::to_ne_bytes).as_flattened());
    record.extend(time_ns.to_ne_bytes());
    record.extend([cpu, 0].map(u32::to_ne_bytes).as_flattened());
    record.extend(PERIOD.to_ne_bytes());
    record.extend(u32::from(RAW_SIZE).to_ne_bytes());
    record.extend([0; RAW_SIZE as usize]);
}
