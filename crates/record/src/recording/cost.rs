//! What sampling costs those who are sampled.

use tare_format::ledger::{Estimate, Ledger, SamplingCost, ShareOf};

use super::Recording;
use crate::options::Target;
use crate::session::Session;

/// Completes a ledger that has its events, its times, and what the command used.
pub(super) fn complete(ledger: &mut Ledger, session: &Session) {
    for (event, cost) in ledger.events.iter_mut().zip(session.sample_costs()) {
        event.sample_cost.clone_from(cost);
    }
    let of = match session.options.target {
        Target::Command(_) | Target::CommandInCgroup(_) => ShareOf::Command,
        // Samples of whole CPUs are not the command's alone.
        Target::CommandOnCpus(_) | Target::Cpus(_) => ShareOf::Cpus,
        Target::Processes(..) | Target::Threads(..) | Target::User(..) | Target::Cgroups { .. } => {
            ShareOf::Tasks
        }
    };
    ledger.sampling = SamplingCost::new(ledger, of, session.number_of_cpus());
}

impl Recording {
    /// What samples took so far from those who are sampled, in microseconds; `None` where no event's
    /// cost is known.
    #[must_use]
    pub fn cost_of_samples(&self) -> Option<Estimate> {
        let samples = self.shared.samples();
        let known = samples.iter().zip(self.session.sample_costs());
        let costs = known.filter_map(|(seen, cost)| {
            Some(cost.as_ref()?.of(seen.samples as f64, seen.in_kernel as f64))
        });
        costs.reduce(|sum, cost| Estimate {
            value: sum.value + cost.value,
            low: sum.low + cost.low,
            high: sum.high + cost.high,
        })
    }

    /// Whether any event's samples have call chains.
    #[must_use]
    pub fn has_callchains(&self) -> bool {
        self.session.plan.events.iter().any(|planned| planned.attr.has_callchain())
    }

    /// How many CPUs are recorded.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.session.number_of_cpus()
    }
}
