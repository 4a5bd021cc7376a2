//! Lower rates for a budget. Each rate is a further event of the same kind; one is enabled at a
//! time.
//!
//! The samples of a clock keep the period with which it was opened, even after
//! `PERF_EVENT_IOC_PERIOD` changes its rate (measured on Linux 6.18), so their weights would be
//! wrong. An event opened at the lower rate has samples with the right weights, for every reader.

use tare_format::abi::Sampling as Sampled;

use super::PlannedEvent;
use crate::error::PlanError;
use crate::options::{Budget, Target};

/// Adds lower rates to all sampled events. Fails if a budget isn't possible for the target or for
/// one of them.
pub(super) fn add(
    target: &Target,
    budget: Budget,
    events: &mut [PlannedEvent],
) -> Result<(), PlanError> {
    if !target.is_per_cpu() {
        return Err(PlanError::BudgetOfTasks);
    }
    for planned in events.iter_mut().filter(|planned| planned.attr.sampling != Sampled::None) {
        let event = || planned.event.name.clone();
        let Sampled::Frequency(hz) = planned.attr.sampling else {
            return Err(PlanError::BudgetOfPeriod { event: event() });
        };
        if planned.leader.is_some() || !planned.is_interrupt() {
            return Err(PlanError::BudgetOfUnknown { event: event() });
        }
        planned.slower = rates(hz, budget.min_hz);
    }
    Ok(())
}

/// Returns rates that descend by factors of two thirds to the lowest.
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
