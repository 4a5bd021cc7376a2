//! Two sides compared: what the figures are, in which order they are shown, and their wording.

mod amount;
mod json;
mod table;
mod text;

use std::cmp::Ordering;

use serde::Serialize;
use tare_format::ledger::Estimate;

use crate::samples::Unit;

pub use amount::amount;
pub use json::diff_json;
pub use table::{Cell, cells, titles};
pub use text::diff_text;

/// A comparison. Names are printable.
#[derive(Clone, Debug, Default)]
pub struct Diff {
    /// The recordings of A and of B.
    pub recordings: [Vec<Recording>; 2],
    /// The unit of work: `run`, `s`, or the name of an event.
    pub per: String,
    /// What decides, in words.
    pub method: String,
    /// The familywise error: what a corrected p must not be above.
    pub level: f64,
    /// What the reader must know.
    pub notes: Vec<String>,
    /// The events that both sides have.
    pub events: Vec<EventDiff>,
    /// Conditions that were to hold.
    pub gates: Vec<Gate>,
}

/// A recording that was read.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recording {
    /// What it is called.
    pub name: String,
    /// Samples that were taken.
    pub samples: u64,
    /// What is missing.
    pub losses: Vec<String>,
}

/// An event on both sides.
#[derive(Clone, Debug)]
pub struct EventDiff {
    /// Its name.
    pub name: String,
    /// What weights are.
    pub unit: Unit,
    /// What all samples weigh, per unit of work.
    pub all: Figure,
    /// Functions or stacks.
    pub rows: Vec<DiffRow>,
}

/// A figure on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// The mean over the runs of A.
    pub a: f64,
    /// The mean over the runs of B.
    pub b: f64,
    /// B - A with its 95% interval; `None` where nothing is known of how it varies.
    pub difference: Option<Estimate>,
    /// B / A with its 95% interval.
    pub ratio: Option<Estimate>,
    /// Corrected for all tested figures.
    pub p: Option<f64>,
    /// The smallest difference that such runs would have shown in 4 of 5 comparisons.
    pub detectable: Option<f64>,
    /// Whether a change is shown.
    pub is_shown: bool,
}

impl Figure {
    /// B - A.
    #[must_use]
    pub fn delta(&self) -> f64 {
        self.b - self.a
    }

    /// B / A; infinite where A has nothing and B has something.
    #[must_use]
    pub fn quotient(&self) -> f64 {
        if self.a == self.b { 1.0 } else { self.b / self.a }
    }
}

/// A function or a stack on both sides.
#[derive(Clone, Debug, Default)]
pub struct DiffRow {
    /// The thread's name, if rows distinguish it.
    pub comm: Option<String>,
    /// The file, if rows distinguish it.
    pub dso: Option<String>,
    /// The function, if rows distinguish it.
    pub symbol: Option<String>,
    /// Where the function was, in perf's letter: `.` a program, `k` the kernel.
    pub space: Option<char>,
    /// The functions of the call chain, outermost first, if rows distinguish it.
    pub stack: Option<Vec<String>>,
    /// Samples of all runs, by side.
    pub samples: [u64; 2],
    /// The share of all samples' weight, 0 to 1.
    pub share: Figure,
    /// The weight per unit of work.
    pub weight: Figure,
    /// There are too few samples to judge it.
    pub is_rare: bool,
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffVerdict {
    /// B has more of it per unit of work.
    More,
    /// B has less.
    Less,
    /// A has none of it.
    New,
    /// B has none of it.
    Gone,
    /// Its share is larger in B; of its weight nothing is shown.
    LargerShare,
    /// Its share is smaller in B.
    SmallerShare,
    /// No change is shown.
    NoneShown,
    /// There are too few samples.
    TooFew,
    /// Nothing is known of how runs vary.
    NotJudged,
}

impl DiffVerdict {
    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::New => "new",
            Self::Gone => "gone",
            Self::LargerShare => "larger share",
            Self::SmallerShare => "smaller share",
            Self::NoneShown => "none shown",
            Self::TooFew => "too few",
            Self::NotJudged => "not judged",
        }
    }

    /// Whether a change is shown.
    #[must_use]
    pub fn is_change(self) -> bool {
        !matches!(self, Self::NoneShown | Self::TooFew | Self::NotJudged)
    }
}

impl DiffRow {
    /// Returns the verdict: on the weight if that is significant, else on the share.
    #[must_use]
    pub fn verdict(&self) -> DiffVerdict {
        let weight = &self.weight;
        let share = &self.share;
        let change = if weight.is_shown { weight } else { share };
        match change.delta() {
            _ if self.is_rare => DiffVerdict::TooFew,
            _ if weight.p.is_none() && share.p.is_none() => DiffVerdict::NotJudged,
            _ if !change.is_shown => DiffVerdict::NoneShown,
            _ if change.a == 0.0 => DiffVerdict::New,
            _ if change.b == 0.0 => DiffVerdict::Gone,
            delta if weight.is_shown && delta > 0.0 => DiffVerdict::More,
            _ if weight.is_shown => DiffVerdict::Less,
            delta if delta > 0.0 => DiffVerdict::LargerShare,
            _ => DiffVerdict::SmallerShare,
        }
    }

    /// What tables call it.
    #[must_use]
    pub fn name(&self) -> String {
        match (&self.symbol, &self.stack) {
            (_, Some(stack)) => stack.join(";"),
            (Some(symbol), None) => match self.space {
                Some(space) => format!("[{space}] {symbol}"),
                None => symbol.clone(),
            },
            (None, None) => String::new(),
        }
    }
}

/// A condition, and how it was met.
#[derive(Clone, Debug, Serialize)]
pub struct Gate {
    /// As it was typed.
    pub condition: String,
    /// Whether it failed.
    pub failed: bool,
    /// Why, in words.
    pub why: String,
}

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum DiffOrder {
    /// The share of A.
    Baseline,
    /// The change of the share.
    Delta,
    /// The same, whatever its sign.
    #[default]
    DeltaAbs,
    /// B / A of the weights.
    Ratio,
    /// The weight of B times the second factor, less that of A times the first.
    Weighted(f64, f64),
}

/// What of a comparison is shown, and how.
#[derive(Clone, Debug, Default)]
pub struct DiffView {
    /// What rows are ordered by.
    pub order: DiffOrder,
    /// Rows without a change below this percentage on both sides are hidden.
    pub percent_limit: f64,
    /// Only what A has.
    pub baseline_only: bool,
    /// Also B's weight.
    pub period: bool,
    /// Also p and samples.
    pub verbose: bool,
    /// Only the table.
    pub quiet: bool,
    /// Stands between columns, which are then not aligned.
    pub separator: Option<String>,
}

impl DiffView {
    /// The rows that are shown, in order: those with a change first. And how many are not.
    #[must_use]
    pub fn rows<'a>(&self, event: &'a EventDiff) -> (Vec<&'a DiffRow>, usize) {
        let is_shown = |row: &&DiffRow| {
            let most = 100.0 * row.share.a.max(row.share.b);
            let is_there = !self.baseline_only || row.samples[0] > 0;
            is_there && (row.verdict().is_change() || most >= self.percent_limit)
        };
        let mut rows: Vec<_> = event.rows.iter().filter(is_shown).collect();
        rows.sort_by(|left, right| {
            let changed = |row: &DiffRow| !row.verdict().is_change();
            changed(left)
                .cmp(&changed(right))
                .then_with(|| self.compare(left, right))
                .then_with(|| right.share.a.total_cmp(&left.share.a))
                .then_with(|| left.name().cmp(&right.name()))
        });
        let hidden = event.rows.len() - rows.len();
        (rows, hidden)
    }

    fn compare(&self, left: &DiffRow, right: &DiffRow) -> Ordering {
        let value = |row: &DiffRow| match self.order {
            DiffOrder::Baseline => row.share.a,
            DiffOrder::Delta => row.share.delta(),
            DiffOrder::DeltaAbs => row.share.delta().abs(),
            DiffOrder::Ratio => row.weight.quotient(),
            DiffOrder::Weighted(a, b) => weighted(row, a, b),
        };
        value(right).total_cmp(&value(left))
    }
}

fn weighted(row: &DiffRow, a: f64, b: f64) -> f64 {
    row.weight.b * b - row.weight.a * a
}

#[cfg(test)]
mod tests;
