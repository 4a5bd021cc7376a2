//! What others have published, to set a study beside it.

use serde::Serialize;

/// One rate of a published study.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Published {
    /// Samples a second.
    pub hz: f64,
    /// The share of CPU time in perf's handler.
    pub handler: f64,
    /// The share of its passes that a counting loop lost.
    pub counting: f64,
}

/// A Xeon E5530 on bare metal in 2014: `cycles`, whole machine. Its method: trace events at the handler's entry and exit, summed up by a script;
/// a counting loop run 5 times for 10 s at each rate.
pub const XEON_E5530: [Published; 5] = [
    Published { hz: 100.0, handler: 0.000_180_35, counting: 0.0067 },
    Published { hz: 500.0, handler: 0.000_822_545, counting: 0.0073 },
    Published { hz: 2000.0, handler: 0.003_114_508, counting: 0.01 },
    Published { hz: 4000.0, handler: 0.005_585_349, counting: 0.0124 },
    Published { hz: 100_000.0, handler: 0.146_878_577, counting: 0.1421 },
];
