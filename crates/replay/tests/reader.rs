//! Compares reading a large file on its own thread with reading it on the caller's.
#![allow(clippy::unwrap_used, reason = "all of this file is tests, the helpers too")]

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{
    self, Beginning, Ending, EventDescription, FINISHED_INIT, FINISHED_ROUND,
};
use tare_format::record::{Record, RecordHeader, Sample, kind};
use tare_replay::{
    Error, EventFilter, Machine, Recording, Replay, ReplayOptions, Replayed, SampleDetail, Sink,
};

const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const STACK_USER: u64 = 1 << 13;
const IDENTIFIER: u64 = 1 << 16;

/// Steps of a recording, about 3 MiB.
const STEPS: u64 = 60_000;

fn record(into: &mut Vec<u8>, kind: u32, body: &[u64]) {
    let bytes: Vec<u8> = body.iter().flat_map(|word| word.to_ne_bytes()).collect();
    into.extend(RecordHeader::new(kind, 0, bytes.len()).unwrap().encode());
    into.extend(bytes);
}

fn ids(pid: u64, tid: u64) -> u64 {
    let [a, b] = [pid, tid].map(|number| u32::try_from(number).unwrap().to_ne_bytes());
    u64::from_ne_bytes([a, b].concat().try_into().unwrap())
}

fn event(config: u64, ids: &[u64], more: u64) -> EventDescription {
    let attr = Attr {
        config,
        sampling: Sampling::Period(1),
        sample_type: IDENTIFIER | TID | TIME | more,
        sample_stack_user: if more == STACK_USER { 64 } else { 0 },
        flags: Flags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    EventDescription { attr, ids: ids.to_vec(), name: format!("event {config}") }
}

/// Returns rounds of two ring buffers whose times interleave, in which threads start and two events
/// sample them. Halfway a counter is added, and with `stacks` an event that copies stacks.
fn data(description: &writer::Description, stacks: bool) -> Vec<u8> {
    let mut data = FINISHED_INIT.to_vec();
    let mut rings = [Vec::new(), Vec::new()];
    for step in 0..STEPS {
        let time_ns = 1000 + 10 * step;
        let tid = 100 + step / 100;
        let ring = &mut rings[usize::try_from(step * 7 % 3 % 2).unwrap()];
        let trailer = [ids(tid, tid), time_ns, 10];
        match step % 100 {
            0 => {
                let body = [ids(tid, tid - 1), ids(tid, tid - 1), time_ns];
                record(ring, kind::PERF_RECORD_FORK, &[body, trailer].concat());
            }
            1 => {
                let name =
                    u64::from_ne_bytes(format!("t{tid:06}\0").as_bytes().try_into().unwrap());
                let body = [ids(tid, tid), name];
                record(ring, kind::PERF_RECORD_COMM, &[&body[..], &trailer].concat());
            }
            2 => record(ring, kind::PERF_RECORD_LOST, &[&[10, 3][..], &trailer].concat()),
            _ => {
                let id = if step > STEPS / 2 && step % 5 == 0 { 12 } else { 10 + step % 2 };
                record(ring, kind::PERF_RECORD_SAMPLE, &[id, ids(tid, tid), time_ns, 0, 0, 0]);
            }
        }
        if step % 500 == 499 {
            rings.iter_mut().for_each(|ring| data.append(ring));
            data.extend(FINISHED_ROUND);
        }
        if step == STEPS / 2 {
            data.extend(description.stream_ids(&[12]).unwrap());
            if stacks {
                let events = vec![event(7, &[20], STACK_USER)];
                let more = writer::Description { events, ..writer::Description::default() };
                data.extend(more.stream_ids(&[20]).unwrap());
            }
        }
    }
    data
}

fn file(folder: &Path, stacks: bool) -> PathBuf {
    let events = vec![event(1, &[10], 0), event(2, &[11], 0)];
    let description = writer::Description { events, ..writer::Description::default() };
    let Beginning { mut bytes, data_start, .. } = description.beginning(|_| 0, 1).unwrap();
    bytes.extend(data(&description, stacks));
    let Ending { tail, header } = description.ending(&(data_start..bytes.len() as u64)).unwrap();
    bytes[..header.len()].copy_from_slice(&header);
    bytes.extend(tail);
    let path = folder.join("perf.data");
    std::fs::write(&path, bytes).unwrap();
    path
}

/// A sample and the replay's state at its time.
#[derive(Debug, PartialEq)]
struct SeenSample {
    time_ns: u64,
    tid: i32,
    comm: Vec<u8>,
    event: Option<usize>,
    /// Ten times the number of events plus the number of ids.
    known: usize,
}

/// The delivered samples, and the time and kind of other records. Ends the replay after `most`
/// samples, and takes only those of event `only`.
#[derive(Debug, Default, PartialEq)]
struct ReplayedCounts {
    all: Vec<SeenSample>,
    others: Vec<(u64, u32)>,
    most: usize,
    only: Option<usize>,
}

impl Sink for ReplayedCounts {
    type Error = Error;

    fn event_filter(&self) -> Option<EventFilter> {
        self.only.map(|only| EventFilter::new(move |_, event| event == only))
    }

    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        let tid = sample.fields.head.tid.unwrap();
        let comm = machine.comm(tid).unwrap_or(b"?").to_vec();
        let events = sample.description.events();
        let known = events.iter().map(|event| 10 + event.ids.len()).sum();
        let time_ns = sample.time_ns.unwrap_or(0);
        let event = sample.event;
        self.all.push(SeenSample { time_ns, tid, comm, event, known });
        let is_enough = self.all.len() == self.most;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    }

    fn record(
        &mut self,
        _machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Error> {
        self.others.push((record.time_ns.unwrap_or(0), record.raw.kind));
        Ok(ControlFlow::Continue(()))
    }
}

/// Replays without and with a thread that reads ahead. Returns the delivered records and the number
/// of lost ones.
fn both(path: &Path, most: usize, only: Option<usize>) -> [(ReplayedCounts, u64); 2] {
    [false, true].map(|reads_ahead| {
        let options =
            ReplayOptions { detail: SampleDetail::Full, reads_ahead, ..ReplayOptions::default() };
        let mut seen = ReplayedCounts { most, only, ..ReplayedCounts::default() };
        let mut recording = Recording::open(path).unwrap();
        let losses = Replay::new(options).run(&mut recording, &mut seen).unwrap();
        assert!(losses.late_records == 0 && losses.malformed_records == 0, "{losses:?}");
        (seen, losses.lost_records)
    })
}

#[test]
fn a_thread_reads_the_same_as_the_caller() {
    let folder = tempfile::tempdir().unwrap();
    for stacks in [false, true] {
        let path = file(folder.path(), stacks);
        let [(alone, lost), (beside, lost_beside)] = both(&path, usize::MAX, None);
        assert_eq!(alone.all.len() as u64, STEPS / 100 * 97);
        assert!(alone.all.is_sorted_by_key(|seen| seen.time_ns));
        let is_named = |seen: &SeenSample| seen.comm == format!("t{:06}", seen.tid).into_bytes();
        assert!(alone.all.iter().all(is_named));
        let known: Vec<_> =
            [&alone.all[0], alone.all.last().unwrap()].map(|seen| seen.known).into();
        assert_eq!(known, if stacks { [22, 34] } else { [22, 23] });
        assert!(alone == beside, "with stacks: {stacks}");
        assert_eq!((lost, lost_beside), (STEPS / 100 * 3, STEPS / 100 * 3));
    }
}

#[test]
fn a_thread_skips_filtered_events_and_ends_with_its_sink() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), false);
    let [(alone, _), (beside, _)] = both(&path, 2000, Some(1));
    assert_eq!(alone.all.len(), 2000);
    assert!(alone.all.iter().all(|seen| seen.event == Some(1)));
    assert!(alone == beside);
}
