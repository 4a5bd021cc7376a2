//! What sampling costs those who are sampled.

use std::collections::BTreeSet;

use tare_format::abi::bindings::PERF_SAMPLE_STACK_USER;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_measure::overhead::plan::CallGraph;
use tare_measure::overhead::published::IN_KERNEL;

use super::followed::is_clock;
use super::plan::{PlannedEvent, is_software};
use super::session::Session;
use crate::cli::resolved::record::Target;
use crate::command::overhead::predict;
use tare_format::ledger::{Ledger, SampleCost, SamplingCost, ShareOf};

/// What a sample of each event costs, as far as that is known. It is looked up once a recording.
pub(super) fn of_samples<'a>(session: &'a Session<'_>) -> &'a [Option<SampleCost>] {
    let of = |planned: &PlannedEvent| {
        let attr = &planned.attr;
        let known = || {
            predict::sample_cost(
                session.host,
                &planned.event.name,
                call_graph(attr),
                interrupts(planned),
            )
        };
        let cost = (attr.sampling != Sampling::None).then(known)??;
        Some(SampleCost {
            in_kernel: if has_kernel_chains(attr) { IN_KERNEL } else { 1.0 },
            ..cost
        })
    };
    session.sample_costs.get_or_init(|| session.plan.events.iter().map(of).collect())
}

fn call_graph(attr: &Attr) -> CallGraph {
    let has_stack = attr.sample_type & u64::from(PERF_SAMPLE_STACK_USER) != 0;
    match (has_stack, attr.has_callchain()) {
        (true, _) => CallGraph::Dwarf,
        (false, true) => CallGraph::Fp,
        (false, false) => CallGraph::None,
    }
}

/// Whether samples of the kernel hold its part of their call chains.
fn has_kernel_chains(attr: &Attr) -> bool {
    attr.has_callchain() && !attr.flags.contains(Flags::EXCLUDE_CALLCHAIN_KERNEL)
}

/// Whether each sample is an interrupt: of a timer or of a counter.
pub(super) fn interrupts(planned: &PlannedEvent) -> bool {
    is_clock(&planned.attr) || !is_software(&planned.event)
}

/// How many CPUs are recorded.
pub(super) fn cpus(session: &Session<'_>) -> usize {
    session
        .plan
        .events
        .iter()
        .flat_map(|planned| planned.cpus.as_slice())
        .collect::<BTreeSet<_>>()
        .len()
}

/// Completes a ledger that has its events, its times, and what the command used.
pub(super) fn complete(ledger: &mut Ledger, session: &Session<'_>) {
    for (event, cost) in ledger.events.iter_mut().zip(of_samples(session)) {
        event.sample_cost.clone_from(cost);
    }
    let of = match session.record.target {
        Target::Command(_) | Target::CommandInCgroup(_) => ShareOf::Command,
        // Samples of whole CPUs are not the command's alone.
        Target::CommandOnCpus(_) | Target::Cpus(_) => ShareOf::Cpus,
        Target::Processes(..) | Target::Threads(..) | Target::User(..) | Target::Cgroups { .. } => {
            ShareOf::Tasks
        }
    };
    ledger.sampling = SamplingCost::new(ledger, of, cpus(session));
}
