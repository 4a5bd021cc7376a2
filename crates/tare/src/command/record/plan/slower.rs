//! Lower rates for a budget: each a further event of the same kind, of which one is on at a time.
//!
//! A clock's samples keep the period that it was opened with, whatever `PERF_EVENT_IOC_PERIOD`
//! makes of its rate (measured on Linux 6.18): their weights would be wrong. Samples of an event
//! that was opened with the lower rate have the right ones, for every reader.

use tare_format::abi::Sampling as Sampled;

use super::PlannedEvent;
use crate::cli::resolved::record::{Budget, Target};
use crate::command::record::cost::interrupts;
use crate::exit::Refusal;

/// Adds lower rates to all events that are sampled.
pub(super) fn add(
    target: &Target,
    budget: Budget,
    events: &mut [PlannedEvent],
) -> Result<(), Refusal> {
    if !target.is_per_cpu() {
        let remedy = "use -a, -G, --follow=cgroup or --follow=system (they need CAP_PERFMON)";
        return Err(Refusal::usage(format!(
            "--max-overhead is for events of whole CPUs and cgroups, and these are of tasks: {remedy}"
        )));
    }
    for planned in events.iter_mut().filter(|planned| planned.attr.sampling != Sampled::None) {
        let name = &planned.event.name;
        let Sampled::Frequency(hz) = planned.attr.sampling else {
            return Err(Refusal::usage(format!(
                "{name}: --max-overhead changes rates, and this one has a period: give it a rate (-F)"
            )));
        };
        if planned.leader.is_some() || !interrupts(planned) {
            let why = "nothing is known of what a sample costs, or it is in a group";
            return Err(Refusal::usage(format!(
                "{name}: --max-overhead can't weigh it ({why}): leave it out, or record without a budget"
            )));
        }
        planned.slower = rates(hz, budget.min_hz);
    }
    Ok(())
}

/// Two thirds, again and again, down to the lowest.
fn rates(hz: u64, min_hz: u64) -> Vec<u64> {
    let next = |hz: &u64| (*hz > min_hz).then(|| (*hz * 2 / 3).max(min_hz));
    std::iter::successors(next(&hz), next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_fall_to_the_floor_and_end_there() {
        assert_eq!(rates(999, 19), [666, 444, 296, 197, 131, 87, 58, 38, 25, 19]);
        assert_eq!(rates(19, 19), [0; 0]);
        assert_eq!(rates(2, 1), [1]);
    }
}
