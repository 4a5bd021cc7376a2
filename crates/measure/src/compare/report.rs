//! The result of a comparison, from which the table, JSON and CSV are written.

use std::ffi::OsString;
use std::time::Duration;

use super::pairs::{ComparisonPlan, Stop};
use super::{Condition, Measurement, Metric, MetricVerdict, Pair, Side};

/// What is compared, and how.
#[derive(Clone, Copy, Debug)]
pub struct ComparisonRequest<'a> {
    /// Words of command A.
    pub a: &'a [OsString],
    /// Words of command B.
    pub b: &'a [OsString],
    /// Compared metrics.
    pub metrics: &'a [Metric],
    /// How many pairs are made, and in which order.
    pub plan: &'a ComparisonPlan,
    /// Smallest relevant difference, as a share.
    pub min_effect: f64,
    /// Conditions under which the comparison fails (`--fail-if`).
    pub conditions: &'a [Condition],
}

/// The result of a comparison.
#[derive(Debug)]
pub struct ComparisonReport<'a> {
    /// What was compared.
    pub request: ComparisonRequest<'a>,
    /// All complete pairs of runs.
    pub pairs: Vec<Pair>,
    /// The verdict on each metric.
    pub judged: Vec<MetricVerdict>,
    /// Why no further pair was run.
    pub stop: Stop<String>,
    /// The time that all runs took, with the warm-up and the work between runs.
    pub spent: Duration,
    /// Facts about the counts.
    pub notes: EventNotes,
}

impl ComparisonReport<'_> {
    /// The words of one command.
    pub(super) fn words(&self, side: Side) -> Vec<String> {
        let words = if side == Side::A { self.request.a } else { self.request.b };
        words.iter().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// Returns the runs that exited with another status than 0 (`--ignore-failure`), each with the
    /// number of its pair, from 1, and its command.
    pub(super) fn failed_runs(&self) -> impl Iterator<Item = (usize, Side, &Measurement)> {
        let runs = (1..).zip(&self.pairs).flat_map(|(number, pair)| {
            [Side::A, Side::B].map(|side| (number, side, pair.run(side)))
        });
        runs.filter(|(_, _, run)| run.status != 0)
    }
}

/// Facts about the counts of all runs, for the notes below the table and the JSON document.
#[derive(Debug, Default)]
pub struct EventNotes {
    /// Events without a count.
    pub missing: Vec<MissingEvent>,
    /// Events that count less than requested.
    pub narrowed: Vec<NarrowedEvent>,
    /// The smallest share of its enabled time that a counted event was on a counter in a run;
    /// `None` if all of them were always on one.
    pub least_share: Option<f64>,
}

impl EventNotes {
    /// Takes in the share of its enabled time that an event was on a counter in one run.
    pub fn note_share(&mut self, share: f64) {
        if share < self.least_share.unwrap_or(1.0) {
            self.least_share = Some(share);
        }
    }
}

/// An event without a count.
#[derive(Debug)]
pub struct MissingEvent {
    /// Its name.
    pub event: String,
    /// Why it has no count.
    pub reason: String,
}

/// An event that counts less than the user requested.
#[derive(Debug)]
pub struct NarrowedEvent {
    /// Name of the event as requested.
    pub requested: String,
    /// Name of the event as opened, with the modifiers that narrow it.
    pub opened: String,
}
