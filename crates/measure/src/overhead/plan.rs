//! The plan of a study.

use serde::{Deserialize, Serialize};

use super::load::LoadKind;
use tare_events::Event;
use tare_format::abi::bindings::PERF_SAMPLE_STACK_USER;
use tare_format::abi::{Attr, Flags};

/// The kind of call chains in samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallGraph {
    /// No call chains.
    None,
    /// The kernel follows frame pointers.
    Fp,
    /// Samples contain a copy of the stack.
    Dwarf,
    /// Samples contain a copy of the whole stack, and the kernel follows frame pointers: for a
    /// recorder that unwinds.
    Auto,
}

impl CallGraph {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::None, Self::Fp, Self::Dwarf, Self::Auto];

    /// Returns the kind of call chains in an event's samples.
    #[must_use]
    pub fn from_attr(attr: &Attr) -> Self {
        let has_stack = attr.sample_type & u64::from(PERF_SAMPLE_STACK_USER) != 0;
        let follows_user = !attr.flags.contains(Flags::EXCLUDE_CALLCHAIN_USER);
        match (has_stack, attr.has_callchain()) {
            (true, true) if follows_user => Self::Auto,
            (true, _) => Self::Dwarf,
            (false, true) => Self::Fp,
            (false, false) => Self::None,
        }
    }

    /// Whether samples contain copies of the stack.
    #[must_use]
    pub fn has_copies(self) -> bool {
        matches!(self, Self::Dwarf | Self::Auto)
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fp => "fp",
            Self::Dwarf => "dwarf",
            Self::Auto => "auto",
        }
    }
}

/// The default rates in Hz: those of the published study, and 0.
pub const RATES: [u64; 6] = [0, 100, 500, 2000, 4000, 100_000];

/// The plan of a study.
#[derive(Clone, Debug)]
pub struct StudyPlan {
    /// The event whose samples are measured.
    pub event: Event,
    /// The kind of call chains in its samples.
    pub call_graph: CallGraph,
    /// Rates in Hz, ascending: at a high rate the kernel may lower its limit for further ones.
    pub rates: Vec<u64>,
    /// The CPU of the study. The thread must be pinned to it.
    pub cpu: u32,
    /// Length of a slice in nanoseconds.
    pub slice_ns: u64,
    /// Number of rounds for each rate and loop. Each has a slice with the event alone, one with
    /// each profiler, and one without sampling.
    pub pairs: usize,
    /// The loops.
    pub loads: Vec<LoadKind>,
    /// Seed of the order of slices.
    pub seed: u64,
}

impl StudyPlan {
    /// The number of slices of each mode of tracing for each rate, to measure the handler's cost.
    #[must_use]
    pub fn handler_slices(&self) -> usize {
        (self.pairs / 5 * 4).max(5)
    }

    /// The number of steps of the whole study, for progress bars.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.rates.len() * (2 * self.handler_slices() + self.pairs * self.loads.len())
    }
}
