//! The ledger of a recording: what was recorded, what was lost, and what recording cost. It is
//! stored in the recording and shown with it.
//!
//! It is a note of versioned JSON. A recording begins with one that names the recorder's threads,
//! so that their samples are recognized even if the recorder was killed; the one at the end is
//! complete.

mod budget;
mod estimate;
mod follow;
mod kept_binaries;
mod off_cpu;
mod sampling;

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::file::note;

pub use budget::{Budget, RateChange};
pub use estimate::Estimate;
pub use follow::{Coverage, FixedPeriod, Follow, FollowMode};
pub use kept_binaries::KeptBinaries;
pub use off_cpu::OffCpu;
pub use sampling::{CostOrigin, SampleCost, SamplingCost, ShareOf};

/// The version that this program writes. Readers accept any version and use the fields they know.
const VERSION: u32 = 1;

/// The first bytes of a note with a ledger.
const MARK: &[u8] = b"tare ledger ";

/// What a recording holds and what it cost.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Ledger {
    /// Version of the layout.
    pub version: u32,
    /// Whether the recording was ended; else all that follows `recorder` is empty.
    pub finished: bool,
    /// The recorder.
    pub recorder: Recorder,
    /// How the command was followed; `None` without a command, or with other targets.
    pub follow: Option<Follow>,
    /// The recorded events.
    pub events: Vec<Event>,
    /// Losses by ring.
    pub losses: Vec<Loss>,
    /// CPUs that were offline for a while.
    pub gaps: Vec<Gap>,
    /// How often the kernel stopped an event that sampled too often.
    pub throttled: u64,
    /// For how long events were recorded.
    pub recorded_ns: u64,
    /// With a flight recorder: the shortest time that fitted in memory; `None` if all of the
    /// requested time did.
    pub kept_ns: Option<u64>,
    /// What the recorder used.
    pub cost: Cost,
    /// What sampling cost the sampled tasks; `None` if no event's cost is known.
    pub sampling: Option<SamplingCost>,
    /// The output.
    pub output: Output,
    /// The rings.
    pub rings: Rings,
    /// The budget of sampling, where there was one.
    pub budget: Option<Budget>,
    /// What the command used; `None` without a command, or if it is still running.
    pub command: Option<Command>,
    /// Why the recording ended before it was over.
    pub stopped: Option<String>,
    /// The binaries that were kept, where that was asked for.
    pub kept_binaries: Option<KeptBinaries>,
    /// The time that tasks were not on a CPU, where that was asked for.
    pub off_cpu: Option<OffCpu>,
}

/// The recorder.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Recorder {
    /// The process.
    pub pid: i32,
    /// Its threads.
    pub tids: BTreeSet<i32>,
    /// Whether the user asked for its samples.
    pub included: bool,
}

/// One recorded event.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// Samples in the recording.
    pub samples: u64,
    /// Samples made by the recorder itself.
    pub own: u64,
    /// Samples that interrupted the kernel.
    pub in_kernel: u64,
    /// Lost samples; `None` before Linux 6.0, which doesn't count them.
    pub lost: Option<u64>,
    /// What the samples stand for, if a command was followed and that is known.
    pub coverage: Option<Coverage>,
    /// The period that its frequency became, so that children start with it.
    pub fixed: Option<FixedPeriod>,
    /// The event's count over all tasks, if they inherit it and that is known.
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
    /// Records of any kind.
    pub records: u64,
    /// The last time before the first of them, in the recording's clock.
    pub from_ns: Option<u64>,
    /// The first time after the last of them.
    pub to_ns: Option<u64>,
}

/// A CPU that was offline while it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Gap {
    /// The CPU.
    pub cpu: u32,
    /// When the CPU was seen offline, on the recording's clock; `None` if that clock can't be read.
    pub from_ns: Option<u64>,
    /// When its events were open again; `None` if they weren't.
    pub to_ns: Option<u64>,
}

/// What the recorder used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Cost {
    /// CPU time until events were enabled.
    pub start_cpu_ns: u64,
    /// CPU time while they were.
    pub recording_cpu_ns: u64,
    /// CPU time since, until this was written.
    pub end_cpu_ns: u64,
    /// CPU time of the calibration at the end, if there was one.
    pub calibration_cpu_ns: u64,
    /// Wake-ups while events were enabled.
    pub wake_ups: u64,
    /// System calls that it made to wait and to write, as its code counts them
    /// (`docs/internals/output-path.md`).
    pub system_calls: u64,
    /// The most memory that it had, in bytes (`VmHWM`).
    pub peak_memory_bytes: Option<u64>,
    /// Threads that read rings.
    pub readers: usize,
}

/// The output.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Output {
    /// `write`, `mmap`, `direct` or `stream`.
    pub path: String,
    /// Why not as was asked for.
    pub fallback: Option<String>,
    /// Times that more came in than the disk took past the page cache, and went through it for a while.
    pub spills: u64,
    /// Bytes of records.
    pub record_bytes: u64,
    /// Bytes in the recording when this was written.
    pub written_bytes: u64,
    /// Bytes of records that aren't in the recording because it ended early; a lower bound if
    /// written before its end.
    pub dropped_bytes: u64,
    /// The most bytes that waited to be compressed or to be taken from a stream, and how many may.
    pub queue_high_water_bytes: usize,
    /// Capacity in bytes.
    pub queue_bytes: usize,
}

/// The rings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Rings {
    /// Number of threads.
    pub number: usize,
    /// Bytes of the smallest.
    pub bytes: usize,
    /// The most bytes that any of them held when it was read.
    pub fullest_bytes: usize,
    /// Longest time between two reads, in milliseconds.
    pub flush_interval_ms: u64,
}

/// What the command and the children it waited for used.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Command {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub system_ns: u64,
}

impl Event {
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

impl Ledger {
    /// A ledger of a recording that begins.
    #[must_use]
    pub fn new(recorder: Recorder) -> Self {
        Self { version: VERSION, recorder, ..Self::default() }
    }

    /// This ledger and that of the next file, as one. What only the last of them knows is the next
    /// one's.
    #[must_use]
    pub fn and(self, next: &Self) -> Self {
        let events = self.events.iter().zip(&next.events).map(|(event, more)| event.and(more));
        let fullest_bytes = self.rings.fullest_bytes.max(next.rings.fullest_bytes);
        Self {
            events: events.collect(),
            losses: [self.losses, next.losses.clone()].concat(),
            // One that goes on is the next one's, too.
            gaps: self
                .gaps
                .into_iter()
                .filter(|gap| {
                    !next.gaps.iter().any(|also| gap.cpu == also.cpu && gap.from_ns == also.from_ns)
                })
                .chain(next.gaps.iter().cloned())
                .collect(),
            throttled: self.throttled + next.throttled,
            recorded_ns: self.recorded_ns + next.recorded_ns,
            kept_ns: self.kept_ns.into_iter().chain(next.kept_ns).min(),
            cost: Cost {
                start_cpu_ns: self.cost.start_cpu_ns + next.cost.start_cpu_ns,
                recording_cpu_ns: self.cost.recording_cpu_ns + next.cost.recording_cpu_ns,
                end_cpu_ns: next.cost.end_cpu_ns,
                wake_ups: self.cost.wake_ups + next.cost.wake_ups,
                system_calls: self.cost.system_calls + next.cost.system_calls,
                ..next.cost
            },
            output: Output {
                record_bytes: self.output.record_bytes + next.output.record_bytes,
                ..next.output.clone()
            },
            rings: Rings { fullest_bytes, ..next.rings.clone() },
            ..next.clone()
        }
    }

    /// The bytes of a note.
    #[must_use]
    pub fn to_note(&self) -> Vec<u8> {
        note::to_json(MARK, self)
    }

    /// The ledger in a note; `None` where it is another note, or no ledger that can be understood.
    #[must_use]
    pub fn from_note(note: &[u8]) -> Option<Self> {
        note::from_json(MARK, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Ledger {
        let event = |samples, lost| Event { samples, lost: Some(lost), ..Event::default() };
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
    fn ledgers_of_files_become_one() {
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
    fn a_note_comes_back_as_it_went() {
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
