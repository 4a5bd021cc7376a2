//! The budget of sampling: what was asked, what was spent, and when the lowest rate won.

use tare_format::ledger::Ledger;

use super::sampling::percent;
use super::seconds;
use crate::plural::count;

/// The line that tells of it.
pub(super) fn line(ledger: &Ledger) -> Option<String> {
    let budget = ledger.budget.as_ref()?;
    let spent = budget
        .spent
        .map_or_else(|| "nothing".to_owned(), |spent| format!("{}%", percent(spent.value)));
    let asked = percent(budget.asked);
    let changes = count(budget.changes, "change");
    Some(format!(
        "budget: {asked}% of the recorded CPUs' time asked, {spent} spent; {changes} of rate, {} Hz at the end",
        budget.hz
    ))
}

/// A warning where the lowest rate costs more than the budget.
pub(super) fn warning(ledger: &Ledger) -> Option<String> {
    let budget = ledger.budget.as_ref().filter(|budget| budget.floor_ns > 0)?;
    let time = seconds(budget.floor_ns);
    let hz = budget.min_hz;
    Some(format!(
        "budget: the floor won for {time}: {hz} Hz were kept though the budget has no room for them (--min-rate, --max-overhead)"
    ))
}

#[cfg(test)]
mod tests {
    use tare_format::ledger::{Budget, Estimate};

    use super::*;

    #[test]
    fn the_floor_is_told_where_it_won() {
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
                "budget: 1.00% of the recorded CPUs' time asked, 0.61% spent; 3 changes of rate, 197 Hz at the end"
            )
        );
        assert_eq!(warning(&ledger), None);
        ledger.budget = Some(Budget { floor_ns: 2_000_000_000, ..budget });
        assert!(warning(&ledger).unwrap().starts_with("budget: the floor won for 2.000 s: 19 Hz"));
    }
}
