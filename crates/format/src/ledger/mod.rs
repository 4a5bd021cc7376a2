//! The ledger of a recording: what was recorded, what was lost, and what recording cost. It is
//! stored in the recording and shown with it. Notes of rate changes are in this module too.
//!
//! The ledger is a note of versioned JSON. A recording begins with one that names the recorder's
//! threads, so that their samples are recognized even if the recorder was killed; the one at the
//! end is complete.

mod budget;
mod estimate;
mod follow;
mod kept_binaries;
mod off_cpu;
mod sampling;
mod unwound_chains;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::file::note;

pub use budget::{Budget, RateChange, SlowRateCause};
pub use estimate::Estimate;
pub use follow::{Coverage, FixedPeriod, Follow, FollowMode};
pub use kept_binaries::KeptBinaries;
pub use off_cpu::OffCpu;
pub use sampling::{CostOrigin, SampleCost, SamplingCost, ShareOf};
pub use unwound_chains::{IncompleteChains, OffCpuReach, UnwoundChains};

/// The version that this program writes. Readers accept any version and use the fields they know.
const VERSION: u32 = 1;

/// The first bytes of a note with a ledger.
const MARK: &[u8] = b"tare ledger ";

/// The contents of a recording, its losses, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ledger {
    /// Version of the layout.
    pub version: u32,
    /// Whether this ledger was written at the end. If not, only `version`, `recorder` and `follow`
    /// are filled in.
    pub finished: bool,
    /// The recorder.
    pub recorder: Recorder,
    /// How the command was followed; `None` without a command, or if the recording isn't limited to
    /// it.
    pub follow: Option<Follow>,
    /// The recorded events.
    pub events: Vec<LedgerEvent>,
    /// Losses by ring.
    pub losses: Vec<Loss>,
    /// CPUs that went offline during the recording.
    pub gaps: Vec<Gap>,
    /// CPUs whose clocks delivered far fewer samples than were due.
    pub late_clocks: Vec<LateClock>,
    /// How often the kernel throttled an event.
    pub throttled: u64,
    /// How long events were enabled, in nanoseconds.
    pub recorded_ns: u64,
    /// With a flight recorder: the shortest time that fitted in memory, in nanoseconds; `None` if
    /// the requested time always fitted.
    pub kept_ns: Option<u64>,
    /// What the recorder used.
    pub cost: Cost,
    /// The cost of sampling; `None` if no event's cost is known.
    pub sampling: Option<SamplingCost>,
    /// The output.
    pub output: Output,
    /// The rings.
    pub rings: Rings,
    /// The sampling budget; `None` without one.
    pub budget: Option<Budget>,
    /// What the command used; `None` without a command, or if it is still running.
    pub command: Option<Command>,
    /// Why the recording ended early.
    pub stopped: Option<String>,
    /// The kept binaries, with `--keep-binaries`.
    pub kept_binaries: Option<KeptBinaries>,
    /// The off-CPU time, with `--off-cpu`.
    pub off_cpu: Option<OffCpu>,
    /// The call chains that the recorder unwound; `None` if it unwound none. In the first note all
    /// numbers are 0.
    pub unwound: Option<UnwoundChains>,
}

/// The recorder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Recorder {
    /// Its process id.
    pub pid: i32,
    /// The ids of its threads.
    pub tids: BTreeSet<i32>,
    /// Whether the user asked for its samples.
    pub included: bool,
}

/// One recorded event.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct LedgerEvent {
    /// Its name.
    pub name: String,
    /// Number of samples in the recording.
    pub samples: u64,
    /// Number of samples of the recorder itself.
    pub own: u64,
    /// Number of samples that interrupted the kernel.
    pub in_kernel: u64,
    /// Number of lost samples; `None` if unknown, as before Linux 6.0 (`PERF_FORMAT_LOST`).
    pub lost: Option<u64>,
    /// The part of the tasks' usage that the samples represent, if a command was followed and the
    /// usage is known.
    pub coverage: Option<Coverage>,
    /// The fixed period that replaced its frequency, so that children start with the same period.
    pub fixed: Option<FixedPeriod>,
    /// The event's count over all tasks, if they inherit it and the count is known.
    pub counted: Option<u64>,
    /// The cost of one sample; `None` if unknown, as for tracepoints.
    pub sample_cost: Option<SampleCost>,
}

/// Losses of a ring.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Loss {
    /// The ring's CPU.
    pub cpu: u32,
    /// Number of lost records of any kind.
    pub records: u64,
    /// The last known time before the first lost record, in nanoseconds of the recording's clock.
    pub from_ns: Option<u64>,
    /// The first known time after the last lost record, in nanoseconds of the recording's clock.
    pub to_ns: Option<u64>,
}

/// A CPU that was offline while it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Gap {
    /// The CPU.
    pub cpu: u32,
    /// When the CPU was seen offline, in nanoseconds of the recording's clock; `None` if that clock
    /// can't be read.
    pub from_ns: Option<u64>,
    /// When its events were open again, in nanoseconds of the recording's clock; `None` if that
    /// didn't happen, or if that clock can't be read.
    pub to_ns: Option<u64>,
}

/// A CPU whose clock delivered fewer samples than were due, though none was lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct LateClock {
    /// The event.
    pub event: String,
    /// The CPU.
    pub cpu: u32,
    /// Number of samples due in the time that the event was on.
    pub due: u64,
    /// Number of samples, with the ring's lost records.
    pub delivered: u64,
}

/// What the recorder used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Cost {
    /// CPU time until events were enabled, in nanoseconds; 0 in later files of a series.
    pub start_cpu_ns: u64,
    /// CPU time from then until the events were stopped or the file ended, in nanoseconds.
    pub recording_cpu_ns: u64,
    /// CPU time from then until this ledger was written, without the calibration, in nanoseconds.
    pub end_cpu_ns: u64,
    /// CPU time of the calibration at the end, in nanoseconds; 0 without one.
    pub calibration_cpu_ns: u64,
    /// Number of times that the threads that read rings were woken.
    pub wake_ups: u64,
    /// Number of system calls to wait and to write, counted by the recorder's own code
    /// (`docs/internals/output-path.md`).
    pub system_calls: u64,
    /// The recorder's peak memory in bytes (`VmHWM`).
    pub peak_memory_bytes: Option<u64>,
    /// Number of threads that read rings.
    pub readers: usize,
}

/// The output.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Output {
    /// `write`, `mmap`, `direct`, `stream` or `sink`.
    pub path: String,
    /// Why the requested output path wasn't used.
    pub fallback: Option<String>,
    /// How often direct writes fell behind, so that data went through the page cache for a while.
    pub spills: u64,
    /// Bytes of the records taken from rings, before compression.
    pub record_bytes: u64,
    /// Bytes in the file, or sent to the stream, when this ledger was written.
    pub written_bytes: u64,
    /// Bytes of records that aren't in the recording because it ended early; a lower bound if this
    /// ledger was written before the end.
    pub dropped_bytes: u64,
    /// The most bytes that waited in the output's queue at once; 0 without a queue.
    pub queue_high_water_bytes: usize,
    /// Capacity of the queue, in bytes; 0 without a queue.
    pub queue_bytes: usize,
}

/// The rings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Rings {
    /// Number of rings.
    pub number: usize,
    /// Bytes of the smallest ring.
    pub bytes: usize,
    /// The most bytes that any ring held when it was read.
    pub fullest_bytes: usize,
    /// The flush interval: the longest time between two reads, in milliseconds.
    pub flush_interval_ms: u64,
}

/// The CPU time of the command and of the children that it waited for.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Command {
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub system_ns: u64,
}

impl LedgerEvent {
    /// Adds the samples and losses of the next file.
    fn and(&self, next: &Self) -> Self {
        let lost = self.lost.into_iter().chain(next.lost).reduce(u64::saturating_add);
        Self {
            name: self.name.clone(),
            samples: self.samples + next.samples,
            own: self.own + next.own,
            in_kernel: self.in_kernel + next.in_kernel,
            lost,
            coverage: None,
            fixed: self.fixed,
            counted: None,
            sample_cost: self.sample_cost.clone(),
        }
    }
}

impl Cost {
    /// Adds the cost of the next file, whose end is also the end of both.
    fn and(&self, next: &Self) -> Self {
        Self {
            start_cpu_ns: self.start_cpu_ns + next.start_cpu_ns,
            recording_cpu_ns: self.recording_cpu_ns + next.recording_cpu_ns,
            wake_ups: self.wake_ups + next.wake_ups,
            system_calls: self.system_calls + next.system_calls,
            ..next.clone()
        }
    }
}

impl Output {
    /// Adds the records of the next file. The other figures are the next file's.
    fn and(&self, next: &Self) -> Self {
        Self { record_bytes: self.record_bytes + next.record_bytes, ..next.clone() }
    }
}

impl Rings {
    /// Takes the higher fill level of both files. The other figures are the next file's.
    fn and(&self, next: &Self) -> Self {
        Self { fullest_bytes: self.fullest_bytes.max(next.fullest_bytes), ..next.clone() }
    }
}

/// Appends the gaps of the next file, which repeats a gap that continues there.
fn combine_gaps(gaps: Vec<Gap>, next: &[Gap]) -> Vec<Gap> {
    let continues =
        |gap: &Gap| next.iter().any(|later| gap.cpu == later.cpu && gap.from_ns == later.from_ns);
    let ended = gaps.into_iter().filter(|gap| !continues(gap));
    ended.chain(next.iter().cloned()).collect()
}

impl Ledger {
    /// Creates the ledger of a recording that begins.
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self { version: VERSION, recorder, ..Self::default() }
    }

    /// Combines this ledger with that of the next file of a series. Fields that don't add up are
    /// the next file's.
    #[must_use]
    pub fn and(self, next: &Self) -> Self {
        let events = self.events.iter().zip(&next.events).map(|(event, more)| event.and(more));
        Self {
            events: events.collect(),
            losses: [self.losses, next.losses.clone()].concat(),
            gaps: combine_gaps(self.gaps, &next.gaps),
            late_clocks: [self.late_clocks, next.late_clocks.clone()].concat(),
            throttled: self.throttled + next.throttled,
            recorded_ns: self.recorded_ns + next.recorded_ns,
            kept_ns: self.kept_ns.into_iter().chain(next.kept_ns).min(),
            cost: self.cost.and(&next.cost),
            output: self.output.and(&next.output),
            rings: self.rings.and(&next.rings),
            unwound: match (&self.unwound, &next.unwound) {
                (Some(earlier), Some(later)) => Some(earlier.and(later)),
                (earlier, later) => later.clone().or(earlier.clone()),
            },
            ..next.clone()
        }
    }

    /// Encodes the ledger as a note.
    #[must_use]
    pub fn to_note(&self) -> Vec<u8> {
        note::to_json(MARK, self)
    }

    /// Decodes a note; `None` for notes of another kind and for damaged ones.
    #[must_use]
    pub fn from_note(note: &[u8]) -> Option<Self> {
        note::from_json(MARK, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let event =
            |samples, lost| LedgerEvent { samples, lost: Some(lost), ..LedgerEvent::default() };
        Ledger {
            events: vec![event(1234, 0), event(5, 7)],
            losses: vec![Loss { cpu: 1, records: 7, ..Loss::default() }],
            throttled: 2,
            recorded_ns: 2_000_000_000,
            cost: Cost { end_cpu_ns: 500_000, system_calls: 30, ..Cost::default() },
            ..Ledger::new(Recorder { pid: 7, ..Recorder::default() })
        }
    }

    #[test]
    fn adds_up_the_ledgers_of_a_series() {
        let both = ledger().and(&ledger());
        assert_eq!(
            (both.events[0].samples, both.events[1].lost, both.throttled, both.losses.len()),
            (2468, Some(14), 4, 2)
        );
        assert_eq!(
            (both.cost.system_calls, both.cost.end_cpu_ns, both.recorded_ns),
            (60, 500_000, 4_000_000_000)
        );
    }

    #[test]
    fn a_gap_that_continues_in_the_next_file_counts_once() {
        let gap = |cpu, to_ns| Gap { cpu, from_ns: Some(5), to_ns };
        let gaps = combine_gaps(vec![gap(1, None), gap(2, Some(7))], &[gap(1, Some(9))]);
        assert_eq!(gaps, [gap(2, Some(7)), gap(1, Some(9))]);
    }

    #[test]
    fn the_fullest_ring_of_a_series_counts() {
        let rings = |fullest_bytes, bytes| Rings { fullest_bytes, bytes, ..Rings::default() };
        assert_eq!(rings(9, 1).and(&rings(4, 2)), rings(9, 2));
    }

    #[test]
    fn decodes_what_it_encoded() {
        assert_eq!(Ledger::from_note(&ledger().to_note()), Some(ledger()));
        assert_eq!(Ledger::from_note(b"tare ledger {"), None);
        assert_eq!(Ledger::from_note(b"something else"), None);
        let of_another_version = br#"tare ledger {"version":9,"unheard_of":[1],"throttled":3}"#;
        assert_eq!(
            Ledger::from_note(of_another_version).map(|ledger| (ledger.version, ledger.throttled)),
            Some((9, 3))
        );
    }
}
