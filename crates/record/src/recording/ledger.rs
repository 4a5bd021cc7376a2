//! Computes the parts of the ledger.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_format::file::note;
use tare_format::file::writer::{Description, Feature};
use tare_format::ledger::{
    Command, Cost, LateClock, Ledger, LedgerEvent, Loss, Output, Rings, UnwoundChains,
};
use tare_kernel::bpf::DeepStackCounts;
use tare_kernel::cgroup::CpuTime;

use super::{Counts, Recording};
use crate::capture::stats::{FileStats, RingStats, SampleCounts, Stats};
use crate::error::RecordError;
use crate::output::{self, Closing, OutputStats};
use crate::session::RecordSession;

/// Due samples, by event and CPU.
type DueSamples = BTreeMap<(usize, u32), u64>;

/// A clock is late if it delivered less than this share of the due samples, and this many fewer.
/// Its period varies by up to 6%.
const LATE_SHARE: f64 = 0.85;
const LATE_SAMPLES: u64 = 20;

/// The counters' values when the current file began.
#[derive(Debug, Default)]
pub(super) struct Baseline {
    /// Lost samples, by event.
    lost: Vec<Option<u64>>,
    due: DueSamples,
    recorded: Duration,
    cpu_ns: u64,
    wake_ups: u64,
    system_calls: u64,
    /// Deep stacks that weren't copied.
    deep: DeepStackCounts,
}

impl Recording {
    /// Returns the ledger of the current file so far, without the cost of sampling and of
    /// completing the file. `until_ns`: the recorder's CPU time when recording ended. The next
    /// ledger counts from here.
    pub(super) fn ledger_of_file(
        &mut self,
        of: &FileStats,
        output: &output::Output,
        until_ns: u64,
    ) -> Ledger {
        let so_far = output.so_far();
        let Counts { wake_ups, system_calls } = self.account.counts;
        let of_readers = self.capture.shared.wake_ups();
        let now = Baseline {
            lost: self.lost(),
            due: self.sources.events.due_samples(),
            recorded: self.account.enabled.so_far(),
            cpu_ns: until_ns,
            wake_ups: wake_ups + of_readers,
            system_calls: system_calls + of_readers + so_far.system_calls,
            deep: of.deep,
        };
        let before = &self.account.before;
        let started_ns =
            if before.cpu_ns == 0 { self.account.enabled.started_cpu_ns } else { before.cpu_ns };
        let deep = now.deep.since(&before.deep);
        let mut ledger = Ledger {
            finished: true,
            events: events(&self.description, of, &lost_since(&now.lost, &before.lost)),
            losses: losses(of),
            gaps: self.watch.hotplug.take_gaps(),
            late_clocks: self.late_clocks(of, &now.due),
            throttled: throttled(of),
            recorded_ns: nanos(now.recorded.saturating_sub(before.recorded)),
            kept_ns: self.account.shortest.map(nanos),
            output: taken_records(&of.rings),
            rings: rings(&of.rings, self.session.options.rings.flush_interval),
            stopped: self.state.stop_reason(),
            unwound: so_far.unwound.clone().map(|unwound| self.with_copies(unwound, deep)),
            cost: Cost {
                start_cpu_ns: if before.cpu_ns == 0 { started_ns } else { 0 },
                recording_cpu_ns: until_ns.saturating_sub(started_ns),
                end_cpu_ns: self.cpu_ns().saturating_sub(until_ns + self.account.calibration_ns),
                calibration_cpu_ns: self.account.calibration_ns,
                wake_ups: now.wake_ups - before.wake_ups,
                system_calls: now.system_calls.saturating_sub(before.system_calls),
                peak_memory_bytes: peak_memory(&self.session),
                readers: self.capture.readers,
            },
            ..self.account.ledger.clone()
        };
        if let Some(off_cpu) = &mut self.sources.off_cpu
            && let Some(event) = ledger.events.last_mut()
        {
            event.samples = std::mem::take(&mut off_cpu.totals.samples);
            ledger.off_cpu = Some(off_cpu.ledger());
        }
        // Includes a helper thread that was started late.
        ledger.recorder.tids.extend(output.threads());
        complete(&mut ledger.output, &so_far);
        ledger.output.written_bytes = output.written();
        self.account.before = now;
        ledger
    }

    /// Adds how much of a stack is copied, how many stacks weren't, and what copying took.
    fn with_copies(&self, unwound: UnwoundChains, deep: DeepStackCounts) -> UnwoundChains {
        let noted = self.account.ledger.unwound.clone().unwrap_or_default();
        let UnwoundChains { copied_bytes, copies_lack, .. } = noted;
        let DeepStackCounts { missing: copies_missed, copies, copying_ns: copies_ns } = deep;
        UnwoundChains { copied_bytes, copies_lack, copies_missed, copies, copies_ns, ..unwound }
    }

    /// Returns the late clocks of the current file, none if it ended early: it then doesn't hold all
    /// that was delivered.
    fn late_clocks(&self, of: &FileStats, due: &DueSamples) -> Vec<LateClock> {
        if self.state.stop_reason().is_some() {
            return Vec::new();
        }
        late_clocks(&self.description, of, &due_since(due, &self.account.before.due))
    }
}

/// Returns the lost samples of each event since `before`, if the kernel counts them.
fn lost_since(now: &[Option<u64>], before: &[Option<u64>]) -> Vec<Option<u64>> {
    let before = |event: usize| before.get(event).copied().flatten().unwrap_or(0);
    now.iter()
        .enumerate()
        .map(|(event, lost)| lost.map(|lost| lost.saturating_sub(before(event))))
        .collect()
}

/// Returns the samples due since `before`.
fn due_since(now: &DueSamples, before: &DueSamples) -> DueSamples {
    let since = |(key, due): (&(usize, u32), &u64)| {
        (*key, due.saturating_sub(before.get(key).copied().unwrap_or(0)))
    };
    now.iter().map(since).collect()
}

/// Returns the CPUs whose clocks delivered far fewer samples than were due. None with a flight
/// recorder, which drops samples.
fn late_clocks(description: &Description, seen: &FileStats, due: &DueSamples) -> Vec<LateClock> {
    if seen.forgotten != Stats::default() {
        return Vec::new();
    }
    let delivered = |event: usize, cpu: u32| -> u64 {
        let of_cpu = seen.rings.iter().filter(|ring| ring.cpu == cpu);
        let of_ring = |ring: &RingStats| {
            let samples = ring.stats.by_event.get(event).map_or(0, |tally| tally.samples);
            samples + ring.stats.lost.map_or(0, |lost| lost.records)
        };
        of_cpu.map(of_ring).sum()
    };
    let clock = |(&(event, cpu), &due): (&(usize, u32), &u64)| {
        let delivered = delivered(event, cpu);
        let is_late = (delivered as f64) < LATE_SHARE * due as f64
            && due.saturating_sub(delivered) >= LATE_SAMPLES;
        let event = description.events.get(event)?.name.clone();
        is_late.then_some(LateClock { event, cpu, due, delivered })
    };
    due.iter().filter_map(clock).collect()
}

pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns the events, each with the samples in the file: counted and not dropped.
fn events(description: &Description, seen: &FileStats, lost: &[Option<u64>]) -> Vec<LedgerEvent> {
    let kept = |number: usize, of: fn(&SampleCounts) -> u64| {
        let sum = |stats: &Stats| stats.by_event.get(number).map_or(0, of);
        seen.rings
            .iter()
            .map(|ring| sum(&ring.stats))
            .sum::<u64>()
            .saturating_sub(sum(&seen.forgotten))
    };
    let event = |(number, name): (usize, &String)| LedgerEvent {
        name: name.clone(),
        samples: kept(number, |tally| tally.samples),
        own: kept(number, |tally| tally.own),
        in_kernel: kept(number, |tally| tally.in_kernel),
        lost: lost.get(number).copied().flatten(),
        ..LedgerEvent::default()
    };
    description.events.iter().map(|event| &event.name).enumerate().map(event).collect()
}

/// Returns the number of `PERF_RECORD_THROTTLE` in the file.
fn throttled(seen: &FileStats) -> u64 {
    let read: u64 = seen.rings.iter().map(|ring| ring.stats.throttled).sum();
    read.saturating_sub(seen.forgotten.throttled)
}

/// Returns the records lost in the kept period. A CPU that came back has one ring per online
/// period, the oldest first, and dropped records are the oldest.
fn losses(seen: &FileStats) -> Vec<Loss> {
    let mut forgotten = seen.forgotten_losses.clone();
    let mut forget = |cpu: Option<u32>, records: u64| {
        let Some(left) = forgotten.get_mut(&cpu) else { return records };
        let gone = records.min(*left);
        *left -= gone;
        records - gone
    };
    let mut of = |ring: &RingStats| {
        let lost = ring.stats.lost?;
        let kept = forget(Some(ring.cpu), lost.records);
        let records = forget(None, kept);
        let is_cut = records < lost.records;
        // The start of a partly dropped loss is only known from the dropped records.
        let from_ns = if is_cut { seen.forgotten.last_ns } else { lost.after_ns };
        (records > 0).then_some(Loss { cpu: ring.cpu, records, from_ns, to_ns: lost.until_ns })
    };
    seen.rings.iter().filter_map(&mut of).collect()
}

fn taken_records(rings: &[RingStats]) -> Output {
    Output { record_bytes: rings.iter().map(|ring| ring.stats.bytes).sum(), ..Output::default() }
}

fn rings(rings: &[RingStats], flush_interval: Duration) -> Rings {
    Rings {
        number: rings.len(),
        bytes: rings.iter().map(|ring| ring.size).min().unwrap_or(0),
        fullest_bytes: rings.iter().map(|ring| ring.stats.fullest).max().unwrap_or(0),
        flush_interval_ms: u64::try_from(flush_interval.as_millis()).unwrap_or(u64::MAX),
    }
}

/// Returns the times of the first and the last sample.
pub(super) fn sample_time(rings: &[RingStats]) -> Option<Feature> {
    let first_ns = rings.iter().filter_map(|ring| ring.stats.first_ns).min()?;
    let last_ns = rings.iter().filter_map(|ring| ring.stats.last_ns).max()?;
    Some(Feature::SampleTime { first_ns, last_ns })
}

pub(super) fn command(used: CpuTime) -> Command {
    Command { user_ns: nanos(used.user), system_ns: nanos(used.system) }
}

/// Returns this process's peak memory (`VmHWM`), in bytes.
fn peak_memory(session: &RecordSession) -> Option<u64> {
    let status = session.backend.host.read("/proc/self/status").ok()?;
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim().strip_suffix(" kB")?;
    kib.parse::<u64>().ok().map(|kib| kib * 1024)
}

/// Returns the note of a ledger, after `before` as the last records of a file. The note states the
/// file's size including itself.
pub(super) fn last_records(
    ledger: &mut Ledger,
    output: &mut output::Output,
    description: &Description,
    before: &[u8],
) -> Result<Vec<u8>, RecordError> {
    loop {
        let mut records = before.to_vec();
        records.extend(note::encode(&ledger.to_note())?);
        let size = output.size_when_finished(&Closing { description, records: &records });
        // The note contains its own size, so it may grow by a digit before the size is right.
        match size.filter(|size| *size > ledger.output.written_bytes) {
            Some(size) => ledger.output.written_bytes = size,
            None => return Ok(records),
        }
    }
}

/// Copies the output's figures into the ledger.
pub(super) fn complete(output: &mut Output, account: &OutputStats) {
    account.path.name().clone_into(&mut output.path);
    output.fallback.clone_from(&account.fallback);
    output.written_bytes = account.bytes;
    output.spills = account.spills;
    output.dropped_bytes = account.dropped_bytes;
    output.queue_bytes = account.queue_bytes;
    output.queue_high_water_bytes = account.queue_high_water;
}

#[cfg(test)]
mod tests {
    use tare_format::abi::Attr;
    use tare_format::file::writer::EventDescription;

    use super::*;
    use crate::capture::stats::LostRecords;

    fn ring(cpu: u32, records: u64) -> RingStats {
        let lost = LostRecords { records, after_ns: Some(1), until_ns: Some(5) };
        RingStats { cpu, size: 4096, stats: Stats { lost: Some(lost), ..Stats::default() } }
    }

    #[test]
    fn a_clock_that_delivers_half_of_the_due_samples_is_late() {
        let event = EventDescription {
            attr: Attr::default(),
            ids: Vec::new(),
            name: "cpu-clock".to_owned(),
        };
        let description = Description { events: vec![event], ..Description::default() };
        let with = |cpu, samples, lost| {
            let tally = SampleCounts { samples, ..SampleCounts::default() };
            let mut ring = ring(cpu, lost);
            ring.stats.by_event = vec![tally];
            ring
        };
        let rings = vec![with(0, 990, 0), with(1, 500, 0), with(2, 500, 480), with(3, 2, 0)];
        let mut seen = FileStats { rings, ..FileStats::default() };
        let before = [((0, 0), 100), ((0, 1), 100), ((0, 2), 100)].into();
        let now = [((0, 0), 1100), ((0, 1), 1100), ((0, 2), 1100), ((0, 3), 5)].into();
        let due = due_since(&now, &before);
        let late = LateClock { event: "cpu-clock".to_owned(), cpu: 1, due: 1000, delivered: 500 };
        assert_eq!(late_clocks(&description, &seen, &due), [late]);
        seen.forgotten.bytes = 1;
        assert_eq!(late_clocks(&description, &seen, &due), []);
    }

    #[test]
    fn dropped_records_are_subtracted_once() {
        let seen = FileStats {
            // The second ring of CPU 1 was opened when it came back.
            rings: vec![ring(0, 4), ring(1, 43), ring(1, 100)],
            forgotten: Stats { last_ns: Some(3), ..Stats::default() },
            forgotten_losses: [(Some(1), 50), (None, 2)].into(),
            deep: DeepStackCounts::default(),
        };
        let loss = |cpu, records, from_ns| Loss { cpu, records, from_ns, to_ns: Some(5) };
        assert_eq!(losses(&seen), [loss(0, 2, Some(3)), loss(1, 93, Some(3))]);
    }
}
