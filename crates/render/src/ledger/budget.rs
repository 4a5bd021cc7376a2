//! The budget of sampling: what was asked, what was spent, and when the lowest rate won.

use tare_format::ledger::Ledger;

use super::sampling::percent;
use super::{grouped, seconds};

/// The lines that tell of it.
pub(super) fn lines(ledger: &Ledger) -> Vec<String> {
    let Some(budget) = &ledger.budget else { return Vec::new() };
    let spent = budget
        .spent
        .map_or_else(|| "nothing".to_owned(), |spent| format!("{}%", percent(spent.value)));
    let (asked, changes) = (percent(budget.asked), grouped(budget.changes));
    let mut lines = vec![format!(
        "budget: {asked}% of the recorded CPUs' time asked, {spent} spent; {changes} changes of rate, {} Hz at the end",
        budget.hz
    )];
    if budget.floor_ns > 0 {
        let (time, hz) = (seconds(budget.floor_ns), budget.min_hz);
        lines
            .push(format!("budget: the floor won for {time}: {hz} Hz were kept though the budget has no room for them (--min-rate, --max-overhead)"));
    }
    lines
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
            lines(&ledger),
            [
                "budget: 1.00% of the recorded CPUs' time asked, 0.61% spent; 3 changes of rate, 197 Hz at the end"
            ]
        );
        ledger.budget = Some(Budget { floor_ns: 2_000_000_000, ..budget });
        assert!(lines(&ledger)[1].starts_with("budget: the floor won for 2.000 s: 19 Hz"));
    }
}
