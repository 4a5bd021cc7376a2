//! What sampling costs those who are sampled.

use tare_format::ledger::{Ledger, SamplingCost, ShareOf};

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
