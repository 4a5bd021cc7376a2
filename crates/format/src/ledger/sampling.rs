//! The cost of sampling: samples times the cost of one, plus the recorder's own CPU time.

use serde::{Deserialize, Serialize};

use super::{Estimate, Ledger, LedgerEvent};

/// The source of a sample's cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CostOrigin {
    /// A study of the host, by `tare overhead`.
    Study,
    /// A short measurement at a recording's end.
    Calibration,
    /// Nothing was measured on the host.
    Estimate,
}

/// Time that one sample takes from the program that it interrupts.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SampleCost {
    /// Microseconds.
    pub us: Estimate,
    /// Factor for samples that interrupt the kernel, which looks up its own callers for their call
    /// chains; 1 if the chains have no kernel part.
    #[serde(default = "default_factor")]
    pub in_kernel: f64,
    /// Whether it was measured on the host that recorded; else it is an estimate.
    pub calibrated: bool,
    /// The source; `None` in ledgers without it.
    #[serde(default)]
    pub origin: Option<CostOrigin>,
    /// Whether it was measured with the same kind of call graph.
    #[serde(default)]
    pub exact: bool,
    /// The source in words, as part of a sentence.
    pub source: String,
    /// When it was measured, in seconds since 1970.
    pub time: Option<u64>,
}

/// Returns the factor of ledgers that lack one.
fn default_factor() -> f64 {
    1.0
}

impl SampleCost {
    /// Returns the microseconds of this many samples, of which `in_kernel` interrupted the kernel.
    #[must_use]
    pub fn total_us(&self, samples: f64, in_kernel: f64) -> Estimate {
        self.us.times(samples + (self.in_kernel - 1.0) * in_kernel)
    }
}

/// The CPU time that a share refers to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ShareOf {
    /// The CPU time of the command and its children.
    Command,
    /// The time of the CPUs that were recorded, busy or not.
    Cpus,
    /// Running tasks, whose CPU time isn't known.
    #[default]
    Tasks,
}

/// The cost of sampling, without the recorder's start-up and shutdown.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct SamplingCost {
    /// Nanoseconds that samples took, lost ones included.
    pub samples_ns: Estimate,
    /// The recorder's CPU time while it recorded, in nanoseconds.
    pub recorder_ns: u64,
    /// The sum of both, as a share of `cpu_ns`; `None` if that is unknown.
    pub share: Option<Estimate>,
    /// The CPU time that the share refers to.
    pub of: ShareOf,
    /// That CPU time, in nanoseconds; `None` if unknown.
    pub cpu_ns: Option<u64>,
    /// Whether every known cost of a sample was measured on the host.
    pub calibrated: bool,
}

impl SamplingCost {
    /// Computes the cost of a recording's samples, as a share of this many CPUs or of a command;
    /// `None` if no event's cost is known.
    #[must_use]
    pub fn new(ledger: &Ledger, of: ShareOf, cpus: usize) -> Option<Self> {
        let known =
            || ledger.events.iter().filter_map(|event| Some((event, event.sample_cost.as_ref()?)));
        known().next()?;
        // Measured, and not part of a sample's own cost.
        let copies_ns = ledger.unwound.as_ref().map_or(0, |unwound| unwound.copies_ns);
        let mut samples_ns = Estimate::exact(copies_ns as f64);
        for (event, cost) in known() {
            // Lost samples are assumed to cost as much as the others.
            let all = event.samples.saturating_add(event.lost.unwrap_or(0)) as f64;
            let ns = cost.total_us(all, all * event.share_in_kernel()).times(1e3);
            samples_ns = Estimate {
                value: samples_ns.value + ns.value,
                low: samples_ns.low + ns.low,
                high: samples_ns.high + ns.high,
            };
        }
        let cpu_ns = match of {
            ShareOf::Command => ledger
                .command
                .as_ref()
                .map(|command| command.user_ns.saturating_add(command.system_ns)),
            ShareOf::Cpus => Some(ledger.recorded_ns.saturating_mul(cpus as u64)),
            ShareOf::Tasks => None,
        };
        let recorder_ns = ledger.cost.recording_cpu_ns;
        let share = cpu_ns.filter(|&cpu_ns| cpu_ns > 0).map(|cpu_ns| {
            let of = |ns: f64| (ns.max(0.0) + recorder_ns as f64) / cpu_ns as f64;
            Estimate {
                value: of(samples_ns.value),
                low: of(samples_ns.low),
                high: of(samples_ns.high),
            }
        });
        Some(Self {
            samples_ns,
            recorder_ns,
            share,
            of,
            cpu_ns,
            calibrated: known().all(|(_, cost)| cost.calibrated),
        })
    }
}

impl LedgerEvent {
    /// Returns the share of samples that interrupted the kernel, from 0 to 1; 0 without samples.
    #[must_use]
    pub fn share_in_kernel(&self) -> f64 {
        self.in_kernel as f64 / self.samples.max(1) as f64
    }
}
