//! The budget of sampling: what was asked, what was spent, and when the lowest rate won.

use serde::{Deserialize, Serialize};
use tare_measure::overhead::Estimate;

use super::Ledger;
use super::sampling::percent;
use super::text::{grouped, seconds};

/// What a note with a change of rates begins with; the change follows as JSON.
const MARK: &[u8] = b"tare rate ";

/// A change of rates. Each is a note in the recording, behind the records that came before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct RateChange {
    /// For how long events had been recorded.
    pub after_ns: u64,
    /// The frequency of each event from then on, in the order of the recording; 0 for events
    /// without one.
    pub hz: Vec<u64>,
}

impl RateChange {
    /// The bytes of a note.
    pub fn to_note(&self) -> Vec<u8> {
        // Numbers always have a JSON form.
        [MARK, &serde_json::to_vec(self).unwrap_or_default()].concat()
    }

    /// The change in a note; `None` where it is another note.
    #[must_use]
    pub fn from_note(note: &[u8]) -> Option<Self> {
        serde_json::from_slice(note.strip_prefix(MARK)?).ok()
    }
}

/// What became of a budget.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Budget {
    /// What was asked for, a share of the recorded CPUs' time.
    pub asked: f64,
    /// What was spent of it by samples and the recorder, start-up and end apart; `None` where
    /// nothing was recorded.
    pub spent: Option<Estimate>,
    /// The lowest rate that was allowed.
    pub min_hz: u64,
    /// The highest frequency of an event at the end.
    pub hz: u64,
    /// How often rates changed.
    pub changes: u64,
    /// For how long the lowest rate was kept though it costs more than was left.
    pub floor_ns: u64,
}

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

    #[test]
    fn a_change_comes_back_as_it_went() {
        let change = RateChange { after_ns: 5, hz: vec![197, 0] };
        assert_eq!(RateChange::from_note(&change.to_note()), Some(change));
        assert_eq!(RateChange::from_note(b"tare ledger {}"), None);
    }
}
