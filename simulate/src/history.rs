//! A random history of threads, mappings and samples, written like rings that are drained at
//! different times and then replayed. Each sample must be delivered once, in time order, with the
//! model's name and file.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use fastrand::Rng;
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags};
use tare_format::file::writer::{Description, EventDescription, FINISHED_ROUND};
use tare_format::record::encode::Encoder;
use tare_format::record::{Comm, FileId, Layout, Mmap, RecordHeader, SampleId, Task};
use tare_record::output::{Closing, Destination, Output, OutputOptions};
use tare_replay::{ProfileOptions, Recording, SampleDetail, summarize};

use crate::clock::VirtualClock;
use crate::disk::{Faults, SimulatedDisk};
use crate::failure::Failure;
use crate::replayed::{self, ReplayedSample};

/// The id of the event's only counter.
const ID: u64 = 77;
/// Size limit of a mapping in bytes.
const MAPPED: u64 = 0x4000;

/// A record with its CPU and time.
struct HistoryRecord {
    time_ns: u64,
    cpu: usize,
    bytes: Vec<u8>,
}

/// A mapping.
#[derive(Clone, Debug)]
struct Mapped {
    start: u64,
    end: u64,
    pgoff: u64,
    path: String,
}

/// A simple model of threads and mappings.
#[derive(Default)]
struct Model {
    /// Process and name by thread.
    threads: HashMap<i32, (i32, String)>,
    /// Mappings by process, newest last.
    mappings: HashMap<i32, Vec<Mapped>>,
    samples: Vec<ReplayedSample>,
    live: Vec<i32>,
    last: i32,
    now_ns: u64,
}

fn attr() -> Attr {
    let sample_type = abi::PERF_SAMPLE_IDENTIFIER
        | abi::PERF_SAMPLE_IP
        | abi::PERF_SAMPLE_TID
        | abi::PERF_SAMPLE_TIME;
    let flags = Flags::SAMPLE_ID_ALL | Flags::COMM | Flags::TASK | Flags::MMAP;
    Attr { sample_type: sample_type.into(), flags, ..Attr::default() }
}

impl Model {
    /// Performs one random step and returns its record.
    fn step(&mut self, rng: &mut Rng) -> anyhow::Result<Vec<u8>> {
        self.now_ns += rng.u64(1..1000);
        let tid = rng.choice(&self.live).copied().context("no thread is left")?;
        let pid = self.threads[&tid].0;
        let layout = Layout::from(&attr());
        let id = SampleId {
            pid: Some(pid),
            tid: Some(tid),
            time_ns: Some(self.now_ns),
            id: Some(ID),
            ..SampleId::default()
        };
        let encoder = Encoder::new(&layout, &id);
        let mut bytes = Vec::new();
        match rng.u32(..20) {
            0 | 1 => encoder.fork(&mut bytes, &self.fork(rng, pid, tid), false)?,
            2 => {
                let name = format!("task {}", rng.u32(..1000));
                let comm = Comm { pid, tid, comm: name.as_bytes(), is_exec: rng.bool() };
                encoder.comm(&mut bytes, &comm)?;
                self.threads.insert(tid, (pid, name));
            }
            3..7 => {
                let mapped = self.map(rng, pid);
                let mmap = Mmap {
                    pid,
                    tid,
                    start: mapped.start,
                    len: mapped.end - mapped.start,
                    pgoff: mapped.pgoff,
                    file: FileId::None,
                    prot: 5,
                    flags: 0,
                    path: mapped.path.as_bytes(),
                    is_data: false,
                };
                encoder.mmap(&mut bytes, &mmap)?;
                self.mappings.entry(pid).or_default().push(mapped);
            }
            // The first thread never exits.
            7 if self.live.len() > 1 && tid != 1 => {
                self.live.retain(|one| *one != tid);
                let task = Task { pid, tid, ppid: pid, ptid: tid, time_ns: self.now_ns };
                encoder.exit(&mut bytes, &task)?;
            }
            _ => bytes = self.sample(rng, pid, tid),
        }
        Ok(bytes)
    }

    /// Forks a thread of the same process, or a process with the same mappings.
    fn fork(&mut self, rng: &mut Rng, ppid: i32, ptid: i32) -> Task {
        self.last += 1;
        let tid = self.last;
        let pid = if rng.bool() { tid } else { ppid };
        let name = self.threads[&ptid].1.clone();
        self.threads.insert(tid, (pid, name));
        if pid != ppid {
            let copy = self.mappings.get(&ppid).cloned().unwrap_or_default();
            self.mappings.insert(pid, copy);
        }
        self.live.push(tid);
        Task { pid, tid, ppid, ptid, time_ns: self.now_ns }
    }

    fn map(&self, rng: &mut Rng, pid: i32) -> Mapped {
        // Close together, so that mappings overlap.
        let start = 0x1_0000 + rng.u64(..64) * 0x1000;
        let end = start + (1 + rng.u64(..MAPPED / 0x1000)) * 0x1000;
        let pgoff = rng.u64(..16) * 0x1000;
        Mapped { start, end, pgoff, path: format!("/none/{pid}-{}", rng.u32(..8)) }
    }

    fn sample(&mut self, rng: &mut Rng, pid: i32, tid: i32) -> Vec<u8> {
        let ip = 0x1_0000 + rng.u64(..72 * 0x1000);
        let mappings = self.mappings.get(&pid).map_or(&[][..], Vec::as_slice);
        let found = mappings.iter().rev().find(|one| one.start <= ip && ip < one.end);
        let file = found.map(|one| (one.path.clone(), ip - one.start + one.pgoff));
        let comm = self.threads[&tid].1.clone();
        self.samples.push(ReplayedSample { time_ns: self.now_ns, ip, comm, file });
        let task = [pid, tid].map(i32::to_ne_bytes);
        let body = [
            [ID, ip].map(u64::to_ne_bytes).as_flattened(),
            task.as_flattened(),
            &self.now_ns.to_ne_bytes(),
        ]
        .concat();
        let misc = u16::try_from(abi::PERF_RECORD_MISC_USER).unwrap_or(0);
        let size = u16::try_from(RecordHeader::SIZE + body.len()).unwrap_or(0);
        let header = RecordHeader { kind: abi::PERF_RECORD_SAMPLE, misc, size };
        [&header.encode()[..], &body].concat()
    }
}

/// Runs a seed.
///
/// # Errors
/// A check failed, or the run couldn't be carried out.
pub(crate) fn run(rng: &mut Rng) -> anyhow::Result<()> {
    let mut model = Model { last: 1, live: vec![1], ..Model::default() };
    model.threads.insert(1, (1, "first".to_owned()));
    let cpus = rng.usize(1..5);
    let mut made = vec![first(&model)?];
    for _ in 0..rng.u32(1..2000) {
        let cpu = rng.usize(..cpus);
        let bytes = model.step(rng)?;
        made.push(HistoryRecord { time_ns: model.now_ns, cpu, bytes });
    }
    let folder = tempfile::tempdir()?;
    let path = write(rng, made, cpus, folder.path())?;
    equal(&path, &model.samples)?;
    summed_up(&path, &model.samples)
}

/// The record that names the first thread.
fn first(model: &Model) -> anyhow::Result<HistoryRecord> {
    let id = SampleId { time_ns: Some(0), id: Some(ID), ..SampleId::default() };
    let mut bytes = Vec::new();
    let comm = Comm { pid: 1, tid: 1, comm: model.threads[&1].1.as_bytes(), is_exec: false };
    Encoder::new(&Layout::from(&attr()), &id).comm(&mut bytes, &comm)?;
    Ok(HistoryRecord { time_ns: 0, cpu: 0, bytes })
}

/// Writes records like a recorder that drains one ring after the other, each at its own time in a
/// round.
fn write(
    rng: &mut Rng,
    made: Vec<HistoryRecord>,
    cpus: usize,
    folder: &Path,
) -> anyhow::Result<PathBuf> {
    let clock = Arc::new(VirtualClock::new());
    let faults =
        Faults { room: None, most: usize::MAX, failing: None, takes: Duration::ZERO, cut_at: None };
    let disk = SimulatedDisk::new(faults, Arc::clone(&clock), false);
    let compress = rng.bool().then_some(1);
    let options = OutputOptions { compress, ..OutputOptions::default() };
    let to = Destination::File(PathBuf::from("history"));
    let mut output = Output::open_on(Arc::new(disk.clone()), clock, &to, &options)?;
    let event = EventDescription { attr: attr(), ids: vec![ID], name: "cpu-clock".to_owned() };
    let description = Description { events: vec![event], ..Description::default() };
    output.begin(&description)?;
    let end_ns = made.last().map_or(0, |last| last.time_ns);
    let mut rings: Vec<std::collections::VecDeque<HistoryRecord>> = Vec::new();
    rings.resize_with(cpus, Default::default);
    made.into_iter().for_each(|record| rings[record.cpu].push_back(record));
    let mut began_ns = 0;
    while rings.iter().any(|ring| !ring.is_empty()) {
        // A round begins after the previous one has ended.
        let mut now_ns = began_ns;
        for ring in &mut rings {
            now_ns += rng.u64(..end_ns / 8 + 2);
            let mut batch = Vec::new();
            let due = ring.partition_point(|record| record.time_ns <= now_ns);
            ring.drain(..due).for_each(|record| batch.extend(record.bytes));
            output.append(&[&batch])?;
        }
        output.append(&[&FINISHED_ROUND])?;
        if rng.bool() {
            output.flush()?;
        }
        began_ns = now_ns;
    }
    let finished = output.finish(&Closing { description: &description, records: &[] });
    anyhow::ensure!(finished.stopped.is_none(), "the output stopped: {:?}", finished.stopped);
    let snapshot = disk.snapshot();
    let bytes = snapshot.files.values().next().context("no file")?;
    Ok(crate::files::written(folder, 0, bytes)?)
}

fn equal(path: &Path, expected: &[ReplayedSample]) -> anyhow::Result<()> {
    let samples = replayed::samples(path, SampleDetail::Full)?;
    let differs = expected.iter().zip(&samples).find(|(expected, found)| expected != found);
    if let Some((expected, found)) = differs {
        let expected = format!("{expected:?}");
        let found = format!("{found:?}");
        return Err(Failure::Replayed { expected, found }.into());
    }
    let are = samples.len();
    let should = expected.len();
    if are == should { Ok(()) } else { Err(Failure::ReplayedSamples { are, should }.into()) }
}

fn summed_up(path: &Path, expected: &[ReplayedSample]) -> anyhow::Result<()> {
    let profile = summarize(Recording::open(path)?, &ProfileOptions::default())?.profile;
    let mut by_name: HashMap<String, (u64, u64)> = HashMap::new();
    for sample in expected {
        by_name.entry(sample.comm.clone()).or_default().0 += 1;
    }
    for (row, weight) in profile.rows() {
        let comm = row.comm.map_or(&b""[..], |comm| profile.string(comm));
        let name = String::from_utf8_lossy(comm).into_owned();
        by_name.entry(name).or_default().1 += weight.samples;
    }
    match by_name.into_iter().find(|(_, (expected, found))| expected != found) {
        Some((comm, (should, are))) => Err(Failure::SummedUp { comm, are, should }.into()),
        None => Ok(()),
    }
}
