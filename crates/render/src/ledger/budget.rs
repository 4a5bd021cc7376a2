//! The overhead budget: the allowed and the spent share, and when the lowest rate exceeded it.

use tare_format::ledger::Ledger;

use super::sampling::percent;
use super::seconds;
use crate::plural::count;

/// Returns the line of details.
pub(super) fn line(ledger: &Ledger) -> Option<String> {
    let budget = ledger.budget.as_ref()?;
    let spent = budget
        .spent
        .map_or_else(|| "nothing".to_owned(), |spent| format!("{}%", percent(spent.value)));
    let asked = percent(budget.asked);
    let changes = count(budget.changes, "rate change");
    Some(format!(
        "budget: {asked}% of the recorded CPUs' time allowed, {spent} spent; {changes}, {} Hz at the end",
        budget.hz
    ))
}

/// Returns a warning if the lowest rate cost more than the budget.
pub(super) fn warning(ledger: &Ledger) -> Option<String> {
    let budget = ledger.budget.as_ref().filter(|budget| budget.floor_ns > 0)?;
    let time = seconds(budget.floor_ns);
    let hz = budget.min_hz;
    Some(format!(
        "budget: exceeded for {time}, at the lowest rate of {hz} Hz (lower --min-rate, or raise --max-overhead)"
    ))
}

#[cfg(test)]
mod tests {
    use tare_format::ledger::{Budget, Estimate};

    use super::*;

    #[test]
    fn warns_when_the_lowest_rate_exceeds_the_budget() {
        let budget = Budget {
            asked: 0.01,
            spent: Some(Estimate::exact(0.0061)),
            min_hz: 19,
            hz: 197,
            changes: 3,
            floor_ns: 0,
        };
        let mut ledger = Ledger { budget: Some(budget.clone()), ..Ledger::default() };
        assert_eq!(
            line(&ledger).as_deref(),
            Some(
                "budget: 1.00% of the recorded CPUs' time allowed, 0.61% spent; 3 rate changes, 197 Hz at the end"
            )
        );
        assert_eq!(warning(&ledger), None);
        ledger.budget = Some(Budget { floor_ns: 2_000_000_000, ..budget });
        assert!(
            warning(&ledger)
                .unwrap()
                .starts_with("budget: exceeded for 2.000 s, at the lowest rate of 19 Hz")
        );
    }
}
