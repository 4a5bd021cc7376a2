//! Published results, to compare a study with.

use serde::Serialize;

/// The result of a published study at one rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedRate {
    /// Samples per second.
    pub hz: f64,
    /// The share of CPU time in perf's handler.
    pub handler: f64,
    /// The share of its passes that a counting loop lost.
    pub counting: f64,
}

/// A Xeon E5530 on bare metal in 2014: `cycles`, whole machine. Method: a script summed trace
/// events at the handler's entry and exit; a counting loop ran 5 times for 10 s at each rate.
pub const XEON_E5530: [PublishedRate; 5] = [
    PublishedRate { hz: 100.0, handler: 0.000_180_35, counting: 0.0067 },
    PublishedRate { hz: 500.0, handler: 0.000_822_545, counting: 0.0073 },
    PublishedRate { hz: 2000.0, handler: 0.003_114_508, counting: 0.01 },
    PublishedRate { hz: 4000.0, handler: 0.005_585_349, counting: 0.0124 },
    PublishedRate { hz: 100_000.0, handler: 0.146_878_577, counting: 0.1421 },
];

/// Cost of a sample in the kernel, relative to one of a user-mode loop, if call chains are
/// recorded: the kernel looks its callers up in tables that are rarely cached.
/// `./x bench overhead-budget` shows both (`docs/overhead.md`).
pub const IN_KERNEL: f64 = 2.0;

/// The typical cost of a sample, for hosts without a measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TypicalCost {
    /// Microseconds per sample.
    pub us: f64,
    /// The source of the figure, as part of a sentence.
    pub source: &'static str,
}

/// Returns the published figure of a machine of this kind: the handler's time of [`XEON_E5530`] at
/// its highest rate, or about the stolen time of the virtual machine of `docs/overhead.md`, where
/// the timer's interrupt causes several VM exits.
#[must_use]
pub fn typical_cost(virtual_machine: bool) -> TypicalCost {
    if virtual_machine {
        TypicalCost { us: 5.4, source: "a virtual machine in docs/overhead.md" }
    } else {
        TypicalCost { us: 1.5, source: "a Xeon E5530 of 2014" }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_typical_cost_is_the_published_one() {
        let [.., PublishedRate { hz, handler, .. }] = XEON_E5530;
        assert!((handler / hz * 1e6 - typical_cost(false).us).abs() < 0.05);
    }
}
