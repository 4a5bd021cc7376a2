//! What the recorder is told of samples' costs: what was measured on this host, or published.

use std::time::Duration;

use tare_format::abi::Sampling;
use tare_kernel::host::Host;
use tare_kernel::open::System;
use tare_measure::overhead::predict::Costs;
use tare_record::CostOfSample;
use tare_record::plan::PlannedEvent;

use crate::command::overhead::folder;

/// How long measuring takes at most, of all events together.
const TIME: Duration = Duration::from_millis(250);
/// Of so many events: with less time for each, too few samples would be seen.
const EVENTS: usize = 3;

/// What a sample of an event costs, as far as that is known.
pub(crate) fn known(host: Host) -> CostOfSample {
    Box::new(move |planned: &PlannedEvent| {
        if planned.attr.sampling == Sampling::None {
            return None;
        }
        let costs = Costs::new(host.clone(), folder::find().ok().flatten());
        costs.sample_cost(&planned.event.name, &planned.attr, planned.interrupts())
    })
}

/// Measures what samples of these events cost, and keeps it. Where it can't be kept nothing is
/// measured, as each recording would do so again: then this is false.
pub(super) fn measure(host: &Host, events: &[&PlannedEvent]) -> bool {
    let Ok(folder) = folder::make() else { return false };
    let costs = Costs::new(host.clone(), Some(folder));
    let number = u32::try_from(events.len().min(EVENTS)).unwrap_or(1);
    for planned in events.iter().take(EVENTS) {
        // What can't be measured stays an estimate, which the ledger says.
        let _ = costs.calibrate(&System, &planned.event.name, &planned.attr, TIME / number);
    }
    true
}
