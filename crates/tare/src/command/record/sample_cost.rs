//! Supplies the recorder with the cost of a sample, as measured on this host or published.

use std::time::Duration;

use tare_format::abi::Sampling;
use tare_kernel::host::Host;
use tare_kernel::open::System;
use tare_measure::overhead::predict::Costs;
use tare_record::CostOfSample;
use tare_record::plan::PlannedEvent;

use crate::command::overhead::folder;

/// Longest time for measuring, all events together.
const TIME: Duration = Duration::from_millis(250);
/// Most events that are measured: with less time for each, there would be too few samples.
const EVENTS: usize = 3;

/// Returns the lookup of an event's cost per sample.
pub(crate) fn known(host: Host) -> CostOfSample {
    Box::new(move |planned: &PlannedEvent| {
        if planned.attr.sampling == Sampling::None {
            return None;
        }
        let costs = Costs::new(host.clone(), folder::find().ok().flatten());
        costs.sample_cost(&planned.event.name, &planned.attr, planned.is_interrupt())
    })
}

/// Measures the cost of samples of these events and saves it. Returns `false`, without measuring,
/// if it can't be saved: each recording would measure again.
pub(super) fn measure(host: &Host, events: &[&PlannedEvent]) -> bool {
    let Ok(folder) = folder::make() else { return false };
    let costs = Costs::new(host.clone(), Some(folder));
    let number = u32::try_from(events.len().min(EVENTS)).unwrap_or(1);
    for planned in events.iter().take(EVENTS) {
        // Without a measurement the cost stays an estimate, and the ledger labels it as one.
        let _ = costs.calibrate(&System, &planned.event.name, &planned.attr, TIME / number);
    }
    true
}
