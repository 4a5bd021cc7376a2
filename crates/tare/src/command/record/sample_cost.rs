//! What the recorder is told of samples' costs: what a study found on this host, or was published.

use tare_format::abi::bindings::PERF_SAMPLE_STACK_USER;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::ledger::SampleCost;
use tare_kernel::host::Host;
use tare_measure::overhead::plan::CallGraph;
use tare_measure::overhead::published::IN_KERNEL;
use tare_record::CostOfSample;
use tare_record::plan::PlannedEvent;

use crate::command::overhead::predict;

/// What a sample of an event costs, as far as that is known.
pub(crate) fn known(host: Host) -> CostOfSample {
    Box::new(move |planned: &PlannedEvent| {
        let attr = &planned.attr;
        if attr.sampling == Sampling::None {
            return None;
        }
        let (name, interrupts) = (&planned.event.name, planned.interrupts());
        let cost = predict::sample_cost(&host, name, call_graph(attr), interrupts)?;
        let in_kernel = if has_kernel_chains(attr) { IN_KERNEL } else { 1.0 };
        Some(SampleCost { in_kernel, ..cost })
    })
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
