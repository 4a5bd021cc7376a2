//! The cost of sampling to the sampled tasks.

use tare_format::ledger::{Estimate, Ledger, SamplingCost, ShareOf};

use super::Recording;
use crate::options::Target;
use crate::output::Path;
use crate::plan::PlannedEvent;
use crate::session::RecordSession;

/// Adds the cost to a ledger that has its events, its times, and the command's usage.
pub(super) fn complete(ledger: &mut Ledger, session: &RecordSession) {
    for (event, cost) in ledger.events.iter_mut().zip(session.sample_costs()) {
        event.sample_cost.clone_from(cost);
    }
    let of = match session.options.target {
        Target::Command(_) | Target::CommandInCgroup(_) => ShareOf::Command,
        // Samples of whole CPUs include other tasks than the command's.
        Target::CommandOnCpus(_) | Target::Cpus(_) => ShareOf::Cpus,
        Target::Processes(..) | Target::Threads(..) | Target::User(..) | Target::Cgroups { .. } => {
            ShareOf::Tasks
        }
    };
    ledger.sampling = SamplingCost::new(ledger, of, session.number_of_cpus());
}

impl Recording {
    /// Returns the time that samples have taken from the sampled tasks so far, in microseconds,
    /// without lost samples and events of unknown cost; `None` if no event's cost is known.
    #[must_use]
    pub fn cost_of_samples(&self) -> Option<Estimate> {
        let samples = self.capture.shared.samples();
        let known = samples.iter().zip(self.session.sample_costs());
        let costs = known.filter_map(|(seen, cost)| {
            Some(cost.as_ref()?.total_us(seen.samples as f64, seen.in_kernel as f64))
        });
        let sum = |sum: Estimate, cost: Estimate| Estimate {
            value: sum.value + cost.value,
            low: sum.low + cost.low,
            high: sum.high + cost.high,
        };
        let copying_ns = self.capture.shared.deep_stack_counts().copying_ns;
        costs.reduce(sum).map(|cost| sum(cost, Estimate::exact(copying_ns as f64 / 1e3)))
    }

    /// Measures the cost of samples if it is only estimated for this host. Calls `measure` with the
    /// timers and hardware events whose cost isn't exact, one per type and config; if it returns
    /// true, costs are computed again. Does nothing before [`Recording::stop`], so that the ledger
    /// can separate the CPU time; after the recording has stopped by itself; and for a stream or a
    /// sink, whose reader waits for the end.
    pub fn calibrate(&mut self, measure: &mut dyn FnMut(&[&PlannedEvent]) -> bool) {
        let takes_no_wait = matches!(
            self.capture.shared.with_output(|output| output.so_far().path),
            Path::Stream | Path::Sink
        );
        if self.account.until_ns.is_none() || self.is_stopped() || takes_no_wait {
            return;
        }
        let known = self.session.plan.events.iter().zip(self.session.sample_costs());
        let mut unknown: Vec<&PlannedEvent> = Vec::new();
        for (planned, _) in known.filter(|(_, cost)| cost.as_ref().is_some_and(|cost| !cost.exact))
        {
            let is_same = |other: &&PlannedEvent| {
                let key = |planned: &PlannedEvent| (planned.attr.kind, planned.attr.config);
                key(other) == key(planned)
            };
            if planned.is_interrupt() && !unknown.iter().any(is_same) {
                unknown.push(planned);
            }
        }
        if unknown.is_empty() {
            return;
        }
        let before = self.cpu_ns();
        if !measure(&unknown) {
            return;
        }
        self.account.calibration_ns = self.cpu_ns().saturating_sub(before);
        self.session.forget_sample_costs();
    }

    /// Whether any event's samples have call chains.
    #[must_use]
    pub fn has_callchains(&self) -> bool {
        self.session.plan.events.iter().any(|planned| planned.attr.has_callchain())
    }

    /// Whether samples of any event have copied stacks.
    #[must_use]
    pub fn has_copied_stacks(&self) -> bool {
        self.session.plan.events.iter().any(|planned| planned.attr.sample_stack_user > 0)
    }

    /// Number of recorded CPUs.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.session.number_of_cpus()
    }
}
