//! The fast way: samples are summed up by thread, without putting them in order of time.
//!
//! Only what changes a thread's name must be known before a sample can be counted, and that is
//! rare. A round of a recording shows everything that is older than the round's begin, so when
//! round k + 1 ends, all names up to the samples of round k are known. Of a sample wait 40 bytes.
//!
//! ```text
//! round k          | round k + 1      | round k + 2
//! samples wait     | samples wait     | ...
//! names are kept   | names are kept   |
//!                  |  k is counted ---^
//! ```

use std::io::Read;

use tare_format::file::Reader;
use tare_format::record::{RawRecord, SampleHead, kind};
use tare_profile::{Row, Thread, Weight};

use super::FillError;
use super::filling::{Filled, Filling};
use crate::family::Family;

/// Samples of a round that wait at most; more are a round of their own.
const WAITING: usize = 1 << 19;

/// What is kept of a sample until its turn.
struct Digest {
    time_ns: u64,
    period: u64,
    pid: i32,
    tid: i32,
    place: u16,
    cpu: Option<u32>,
}

struct Quick {
    filling: Filling,
    family: Family,
    this_round: Vec<Digest>,
    round_before: Vec<Digest>,
    /// The last sample's time; where samples have none, how many there were.
    clock_ns: u64,
    has_times: bool,
    /// The youngest time that was counted.
    counted_ns: u64,
}

/// Reads a recording to its end.
pub(crate) fn fill<R: Read>(mut reader: Reader<R>, filling: Filling) -> Result<Filled, FillError> {
    let (family, this_round, round_before) = (Family::default(), Vec::new(), Vec::new());
    let mut quick = Quick {
        filling,
        family,
        this_round,
        round_before,
        clock_ns: 0,
        has_times: true,
        counted_ns: 0,
    };
    let swapper = quick.filling.profile.add_string(b"swapper");
    quick.filling.history.name(0, 0, swapper);
    while let Some(entry) = reader.next_record()? {
        let (raw, description) = (entry.record, entry.description);
        match raw.kind {
            kind::PERF_RECORD_SAMPLE => {
                let place = description.lookup().of(&raw);
                let layout = place.and_then(|place| description.lookup().layouts().get(place));
                match (place, layout.map(|layout| SampleHead::decode(&raw, layout))) {
                    (Some(place), Some(Ok(sample))) => quick.sample(&sample, place),
                    _ => quick.filling.profile.loss.malformed_samples += 1,
                }
            }
            kind::FINISHED_ROUND => quick.round(),
            kind::HEADER_ATTR | kind::HEADER_FEATURE | kind::EVENT_UPDATE => {
                quick.filling.learn(description);
            }
            kind::PERF_RECORD_COMM | kind::PERF_RECORD_FORK => {
                quick.task(&raw, description.lookup().time_ns(&raw));
            }
            _ => {
                quick.family.learn(description);
                if let Ok(record) = raw.decode() {
                    quick.filling.notice(&raw, &record, description);
                }
            }
        }
    }
    Ok(quick.finish(&reader))
}

impl Quick {
    fn sample(&mut self, sample: &SampleHead, place: usize) {
        self.has_times = sample.time_ns.is_some();
        self.clock_ns = sample.time_ns.unwrap_or(self.clock_ns.saturating_add(1));
        if !self.filling.takes_time(sample.time_ns) {
            return;
        }
        let (period, cpu) =
            (self.filling.period(sample.period, place), self.filling.cpu(sample.cpu));
        let place = u16::try_from(place).unwrap_or(u16::MAX);
        let (pid, tid) = (sample.pid.unwrap_or(-1), sample.tid.unwrap_or(-1));
        self.this_round.push(Digest { time_ns: self.clock_ns, period, pid, tid, place, cpu });
        if self.this_round.len() >= WAITING {
            self.round();
        }
    }

    fn task(&mut self, raw: &RawRecord<'_>, time_ns: Option<u64>) {
        // What a recorder made up has no time: it holds for all that is still to be counted.
        // Without any times the order is the file's.
        let from_ns =
            time_ns.unwrap_or(if self.has_times { self.counted_ns } else { self.clock_ns + 1 });
        self.filling.profile.loss.late_records += u64::from(from_ns < self.counted_ns);
        if let Ok(record) = raw.decode() {
            self.family.see(&record, from_ns);
            self.filling.see_task(&record, from_ns);
        }
    }

    fn round(&mut self) {
        let due = std::mem::take(&mut self.round_before);
        due.iter().for_each(|digest| self.count(digest));
        self.round_before = std::mem::replace(&mut self.this_round, due);
        self.this_round.clear();
    }

    fn count(&mut self, digest: &Digest) {
        let Digest { time_ns, period, pid, tid, place, cpu } = *digest;
        self.counted_ns = self.counted_ns.max(time_ns);
        let weight = Weight { period, samples: 1 };
        if let Some(row) = self.filling.history.cached((pid, tid), place, cpu, time_ns) {
            self.filling.profile.add_to_row(row, weight);
            return;
        }
        if !self.family.keeps(Some(tid), Some(time_ns)) {
            self.filling.profile.loss.outside_samples += 1;
            return;
        }
        let Some(event) = self.filling.event(place.into()) else { return };
        let Filling { profile, history, .. } = &mut self.filling;
        let comm = history
            .at(tid, time_ns)
            .unwrap_or_else(|| profile.add_string(format!(":{tid}").as_bytes()));
        let thread = Some(profile.add_thread(Thread { pid, tid }));
        let row = profile.add_samples(
            Row { event, thread, comm: Some(comm), cpu, leaf: None, stack: None },
            weight,
        );
        history.cache((pid, tid), place, cpu, time_ns, row);
    }

    fn finish<R: Read>(mut self, reader: &Reader<R>) -> Filled {
        self.round();
        self.round();
        let threads: Vec<_> = self
            .filling
            .profile
            .rows()
            .filter_map(|(row, _)| Some((row.thread?, row.comm?)))
            .collect();
        for (id, comm) in threads {
            let last = self
                .filling
                .profile
                .thread(id)
                .and_then(|thread| self.filling.history.last(thread.tid));
            self.filling.profile.name_thread(id, last.unwrap_or(comm));
        }
        self.filling.finish(reader.description(), reader.losses())
    }
}
