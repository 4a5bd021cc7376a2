//! The account of data that a recording or a profile lacks.

use crate::unnamed::NamingAdvice;
use crate::unwinding::{FramePointers, TruncatedChains, Unwinding};

/// The account of data that the rows lack: lost while recording, or left out while reading.
/// `tare_render::loss_lines` words it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records dropped because their ring buffer was full (`PERF_RECORD_LOST`).
    pub lost_records: u64,
    /// Number of reports of such drops.
    pub lost_events: u64,
    /// Samples lost before a ring buffer, or counted as lost by the kernel
    /// (`PERF_RECORD_LOST_SAMPLES`).
    pub lost_samples: u64,
    /// Times that the kernel throttled an event.
    pub throttled: u64,
    /// Samples of the recorder's own threads, left out.
    pub own_samples: u64,
    /// Samples of tasks outside of the command, and of its process before execve; left out.
    pub outside_samples: u64,
    /// Samples of tasks outside of the recorder's pid namespace, which the kernel doesn't tell
    /// apart.
    pub foreign_samples: u64,
    /// Records that can't be decoded, such as truncated ones, and samples of unknown events.
    pub malformed_records: u64,
    /// Records that arrived too late to be put in time order.
    pub late_records: u64,
    /// Counts in samples of groups that were lower than the previous ones, although counts only
    /// grow. They have no period.
    pub decreased_counts: u64,
    /// Mappings above the limits for an address space and for all together, left out.
    pub left_out_mappings: u64,
    /// Jitdumps whose times can't be converted to the recording's clock, so that the code compiled
    /// last at an address is assumed for all samples there.
    pub untimed_jitdumps: u64,
    /// Results of unwinding copied user stacks.
    pub unwinding: Unwinding,
    /// Call chains that the kernel cut at its limit of frames.
    pub truncated_chains: TruncatedChains,
    /// Call chains broken by code without frame pointers.
    pub frame_pointers: Option<FramePointers>,
    /// The missing source of symbols that would name the largest share of an event's samples;
    /// `None` below 5%.
    pub unnamed: Option<NamingAdvice>,
    /// A function that keeps step with the sampling period.
    pub in_step: Option<InStep>,
    /// Samples whose deferred user call chain never arrived.
    pub missing_user_chains: u64,
    /// The share of off-CPU time with complete call chains.
    pub off_cpu: OffCpuChains,
    /// Bytes of hardware traces (`PERF_RECORD_AUXTRACE`), which tare doesn't decode.
    pub aux_bytes: u64,
    /// Counts written by `perf stat record` (`PERF_RECORD_STAT`), which aren't samples.
    pub stat_records: u64,
    /// The first unreadable parts of the recording.
    pub gaps: Vec<Gap>,
    /// Number of unreadable parts that are not in `gaps`.
    pub more_gaps: u64,
    /// Bytes of all unreadable parts.
    pub unread_bytes: u64,
    /// Whether the recorder was killed before it wrote the size of the data.
    pub is_unfinished: bool,
}

/// A function that repeats itself with the sampling period of a clock, or a part or multiple of
/// it. Its share may depend on the sampling rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InStep {
    /// The function.
    pub function: String,
    /// The command of the thread that ran it.
    pub command: String,
    /// The thread's id.
    pub tid: i32,
    /// The sampling period in nanoseconds.
    pub period_ns: u64,
}

/// Off-CPU time with copied user stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpuChains {
    /// The time in nanoseconds.
    pub ns: u64,
    /// The part whose user call chain reaches the thread's first function, in nanoseconds.
    pub whole_ns: u64,
}

/// An unreadable part of a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Its start, in bytes from the start of its file.
    pub offset: u64,
    /// Its length in bytes, as stated by a header if the data is missing.
    pub bytes: u64,
    /// The reason, in words.
    pub why: String,
}

impl Losses {
    /// Whether nothing is missing. Chains that lack frame pointers, samples without a function,
    /// functions in step with the period, off-CPU time, and stacks that were unwound completely
    /// don't count.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let unwinding = Unwinding {
            whole: self.unwinding.whole,
            by_recorder: self.unwinding.by_recorder,
            ..Unwinding::default()
        };
        let truncated_chains =
            TruncatedChains { stacks: self.truncated_chains.stacks, ..TruncatedChains::default() };
        let frame_pointers = self.frame_pointers.clone();
        let unnamed = self.unnamed.clone();
        let in_step = self.in_step.clone();
        *self
            == Self {
                unwinding,
                truncated_chains,
                frame_pointers,
                unnamed,
                in_step,
                off_cpu: self.off_cpu,
                ..Self::default()
            }
    }
}
