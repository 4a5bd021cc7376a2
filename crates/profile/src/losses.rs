//! What a recording, and the profile made of it, lack.

use crate::unnamed::NamingAdvice;
use crate::unwinding::{FramePointers, Unwinding};

/// What is not in the rows, and why: the one account of what was lost while a recording was made,
/// and while it was read. `tare_render::loss_lines` puts it into words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records that found no room in their ring (`PERF_RECORD_LOST`).
    pub lost_records: u64,
    /// How often the kernel said so.
    pub lost_events: u64,
    /// Samples that were lost before a ring, or that the kernel counted as lost
    /// (`PERF_RECORD_LOST_SAMPLES`).
    pub lost_samples: u64,
    /// How often an event was stopped because it interrupted too often.
    pub throttled: u64,
    /// Samples of the recorder's own threads, which are left out.
    pub own_samples: u64,
    /// Samples of what is not the command's, which are left out: of other tasks, and of its process
    /// before it executed the command.
    pub outside_samples: u64,
    /// Records that are shorter than they should be, or samples of no known event.
    pub malformed_records: u64,
    /// Records that came too late to be put in order.
    pub late_records: u64,
    /// Mappings of address spaces that were left out: more than such a recording can have.
    pub left_out_mappings: u64,
    /// Jitdumps whose clock can't be compared with the recording's: what was compiled last at an
    /// address counts all the time.
    pub untimed_jitdumps: u64,
    /// Copies of user stacks that were unwound.
    pub unwinding: Unwinding,
    /// Call chains that code without frame pointers broke.
    pub frame_pointers: Option<FramePointers>,
    /// What most samples without a function's name lack.
    pub unnamed: Option<NamingAdvice>,
    /// Samples whose user call chain was to come later, and didn't.
    pub missing_user_chains: u64,
    /// How much of the time that tasks were not on a CPU has whole call chains.
    pub off_cpu: OffCpuChains,
    /// Bytes of hardware traces (`PERF_RECORD_AUXTRACE`), which are not decoded.
    pub aux_bytes: u64,
    /// Counts that `perf stat record` wrote (`PERF_RECORD_STAT`): they are no samples.
    pub stat_records: u64,
    /// Parts of the recording that could not be read: the first ones.
    pub gaps: Vec<Gap>,
    /// How many more there are.
    pub more_gaps: u64,
    /// Bytes of all of them.
    pub unread_bytes: u64,
    /// The recorder was ended before it could say how much it had written.
    pub is_unfinished: bool,
}

/// Time that tasks were not on a CPU, with user stacks that were copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCpuChains {
    /// All of it, in nanoseconds.
    pub ns: u64,
    /// Of it, that whose user call chain begins where the thread did.
    pub whole_ns: u64,
}

/// Bytes of a recording that were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Where they begin, in bytes from the start of the recording.
    pub offset: u64,
    /// How many there are; of what a header only promises, how many it promises.
    pub bytes: u64,
    /// Why they were left out, in words.
    pub why: String,
}

impl Losses {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let unwinding = Unwinding { whole: self.unwinding.whole, ..Unwinding::default() };
        let frame_pointers = self.frame_pointers.clone();
        let unnamed = self.unnamed.clone();
        *self
            == Self { unwinding, frame_pointers, unnamed, off_cpu: self.off_cpu, ..Self::default() }
    }
}
