//! The plan of a study.

use serde::{Deserialize, Serialize};

use super::load::Kind;
use tare_events::Event;
use tare_format::abi::Attr;
use tare_format::abi::bindings::PERF_SAMPLE_STACK_USER;

/// How samples get their call chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CallGraph {
    /// Not at all.
    None,
    /// The kernel follows frame pointers.
    Fp,
    /// A sample holds a copy of the stack.
    Dwarf,
}

impl CallGraph {
    /// Returns how an event's samples get their call chains.
    #[must_use]
    pub fn from_attr(attr: &Attr) -> Self {
        let has_stack = attr.sample_type & u64::from(PERF_SAMPLE_STACK_USER) != 0;
        match (has_stack, attr.has_callchain()) {
            (true, _) => Self::Dwarf,
            (false, true) => Self::Fp,
            (false, false) => Self::None,
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Fp => "fp",
            Self::Dwarf => "dwarf",
        }
    }
}

/// The default rates: those of the published study, and 0.
pub const RATES: [u64; 6] = [0, 100, 500, 2000, 4000, 100_000];

/// The plan of a study.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The event whose samples are measured.
    pub event: Event,
    /// What its samples hold.
    pub call_graph: CallGraph,
    /// Samples a second, ascending: the highest last, as the kernel may lower its limit there.
    pub rates: Vec<u64>,
    /// The CPU that everything happens on; the thread must be pinned to it.
    pub cpu: u32,
    /// Length of a slice.
    pub slice_ns: u64,
    /// Slices of each loop with each profiler, and as many without.
    pub pairs: usize,
    /// The loops.
    pub loads: Vec<Kind>,
    /// Decides the order of slices.
    pub seed: u64,
}

impl Plan {
    /// Slices of each mode of tracing, to measure the handler's cost.
    #[must_use]
    pub fn handler_slices(&self) -> usize {
        (self.pairs / 5 * 4).max(5)
    }

    /// Steps that the whole study takes, for progress bars.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.rates.len() * (2 * self.handler_slices() + self.pairs * self.loads.len())
    }
}
