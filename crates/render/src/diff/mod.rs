//! A comparison of two sides, A and B: its figures, order and wording.

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
    pub recordings: [Vec<ComparedRecording>; 2],
    /// The unit of work: `run`, `s`, or the name of an event.
    pub per: String,
    /// The statistical method, in words.
    pub method: String,
    /// The familywise error rate: a change is significant if its corrected p is at most this.
    pub level: f64,
    /// Notes for the reader.
    pub notes: Vec<String>,
    /// The events that both sides have.
    pub events: Vec<EventDiff>,
    /// The conditions of `--fail-if`.
    pub gates: Vec<Gate>,
}

/// A compared recording.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ComparedRecording {
    /// Its name.
    pub name: String,
    /// Its number of samples.
    pub samples: u64,
    /// Its losses, in words.
    pub losses: Vec<String>,
}

/// An event on both sides.
#[derive(Clone, Debug)]
pub struct EventDiff {
    /// Its name.
    pub name: String,
    /// The unit of weights.
    pub unit: Unit,
    /// The weight of all samples, per unit of work.
    pub all: DiffFigure,
    /// A row per function or stack.
    pub rows: Vec<DiffRow>,
}

/// A figure on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct DiffFigure {
    /// The mean over the runs of A.
    pub a: f64,
    /// The mean over the runs of B.
    pub b: f64,
    /// B - A with its 95% interval; `None` if the variation between runs is unknown.
    pub difference: Option<Estimate>,
    /// B / A with its 95% interval; `None` as above.
    pub ratio: Option<Estimate>,
    /// p, corrected for all tested figures; `None` as above.
    pub p: Option<f64>,
    /// The smallest difference that runs with this variation show in 4 of 5 comparisons.
    pub detectable: Option<f64>,
    /// Whether the change is significant.
    #[serde(rename = "is_shown")]
    pub is_significant: bool,
}

impl DiffFigure {
    /// Returns B - A.
    #[must_use]
    pub fn delta(&self) -> f64 {
        self.b - self.a
    }

    /// Returns B / A; infinite if only A is 0.
    #[must_use]
    pub fn quotient(&self) -> f64 {
        if self.a == self.b { 1.0 } else { self.b / self.a }
    }
}

/// A function or a stack on both sides.
#[derive(Clone, Debug, Default)]
pub struct DiffRow {
    /// The thread's name, if rows distinguish names.
    pub comm: Option<String>,
    /// The file, if rows distinguish files.
    pub dso: Option<String>,
    /// The function, if rows distinguish functions.
    pub symbol: Option<String>,
    /// perf's letter for the function's address space: `.` a program, `k` the kernel.
    pub space: Option<char>,
    /// The functions of the call chain, outermost first, if rows distinguish call chains.
    pub stack: Option<Vec<String>>,
    /// Samples of all runs, by side.
    pub samples: [u64; 2],
    /// The share of all samples' weight, 0 to 1.
    pub share: DiffFigure,
    /// The weight per unit of work.
    pub weight: DiffFigure,
    /// It has too few samples for a verdict.
    pub is_rare: bool,
}

/// The verdict on a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DiffVerdict {
    /// Its weight per unit of work is larger in B.
    More,
    /// Its weight per unit of work is smaller in B.
    Less,
    /// It has no weight in A.
    New,
    /// It has no weight in B.
    Gone,
    /// Its share is larger in B, and its weight may have changed as much, though not
    /// significantly.
    LargerShare,
    /// Its share is smaller in B, and its weight may have changed as much, though not
    /// significantly.
    SmallerShare,
    /// Its share changed because the weight of other functions did.
    OthersChanged,
    /// No change is significant.
    NoneShown,
    /// There are too few samples.
    TooFew,
    /// The variation between runs is unknown.
    NotJudged,
}

impl DiffVerdict {
    /// Returns the verdict in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::More => "more",
            Self::Less => "less",
            Self::New => "new",
            Self::Gone => "gone",
            Self::LargerShare => "larger share",
            Self::SmallerShare => "smaller share",
            Self::OthersChanged => "others changed",
            Self::NoneShown => "none shown",
            Self::TooFew => "too few",
            Self::NotJudged => "not judged",
        }
    }

    /// Whether it is a significant change of the function itself.
    #[must_use]
    pub fn is_change(self) -> bool {
        !matches!(self, Self::OthersChanged | Self::NoneShown | Self::TooFew | Self::NotJudged)
    }
}

impl DiffRow {
    /// Returns the verdict: on the weight if that is significant, else on the share.
    #[must_use]
    pub fn verdict(&self) -> DiffVerdict {
        let weight = &self.weight;
        let share = &self.share;
        let change = if weight.is_significant { weight } else { share };
        match change.delta() {
            _ if self.is_rare => DiffVerdict::TooFew,
            _ if weight.p.is_none() && share.p.is_none() => DiffVerdict::NotJudged,
            _ if !change.is_significant => DiffVerdict::NoneShown,
            _ if change.a == 0.0 => DiffVerdict::New,
            _ if change.b == 0.0 => DiffVerdict::Gone,
            delta if weight.is_significant && delta > 0.0 => DiffVerdict::More,
            _ if weight.is_significant => DiffVerdict::Less,
            _ if !self.can_explain_share() => DiffVerdict::OthersChanged,
            delta if delta > 0.0 => DiffVerdict::LargerShare,
            _ => DiffVerdict::SmallerShare,
        }
    }

    /// Whether its weight may have changed by the factor of its share: the interval of the
    /// weight's ratio contains that factor. Without an interval, its weight must have changed at
    /// least halfway there.
    fn can_explain_share(&self) -> bool {
        let share = self.share.quotient();
        match &self.weight.ratio {
            Some(ratio) if share > 1.0 => ratio.high >= share,
            Some(ratio) => ratio.low <= share,
            None if share > 1.0 => self.weight.quotient().ln() >= share.ln() / 2.0,
            None => self.weight.quotient().ln() <= share.ln() / 2.0,
        }
    }

    /// Returns its name in tables.
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

/// A condition of `--fail-if`, and its result.
#[derive(Clone, Debug, Serialize)]
pub struct Gate {
    /// The condition as typed.
    pub condition: String,
    /// Whether the comparison fails.
    pub failed: bool,
    /// Why, in words.
    pub why: String,
}

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum DiffOrder {
    /// The share of A.
    Baseline,
    /// The change of the share.
    Delta,
    /// The change of the share, without its sign.
    #[default]
    DeltaAbs,
    /// B / A of the weights.
    Ratio,
    /// The weight of B times the second factor, minus the weight of A times the first.
    Weighted(f64, f64),
}

/// Which parts of a comparison are shown, and how.
#[derive(Clone, Debug, Default)]
pub struct DiffView {
    /// The order of rows.
    pub order: DiffOrder,
    /// Rows without a change below this percentage on both sides are hidden.
    pub percent_limit: f64,
    /// Only rows with samples in A.
    pub baseline_only: bool,
    /// Show B's weight too.
    pub period: bool,
    /// Show p and numbers of samples too.
    pub verbose: bool,
    /// Print only the table.
    pub quiet: bool,
    /// The text between columns, which then aren't aligned.
    pub separator: Option<String>,
}

impl DiffView {
    /// Returns the displayed rows in order, those with a significant change first, and the number
    /// of hidden rows.
    #[must_use]
    pub fn rows<'a>(&self, event: &'a EventDiff) -> (Vec<&'a DiffRow>, usize) {
        let is_displayed = |row: &&DiffRow| {
            let most = 100.0 * row.share.a.max(row.share.b);
            let is_candidate = !self.baseline_only || row.samples[0] > 0;
            is_candidate && (row.verdict().is_change() || most >= self.percent_limit)
        };
        let mut rows: Vec<_> = event.rows.iter().filter(is_displayed).collect();
        rows.sort_by(|left, right| {
            let is_unchanged = |row: &DiffRow| !row.verdict().is_change();
            is_unchanged(left)
                .cmp(&is_unchanged(right))
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
