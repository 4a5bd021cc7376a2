//! Merges the counts of all runs into lines.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_events::{Event, Unavailable};

use super::line::{StatLine, Value};
use super::runs::{RunEnd, Runs, Times};
use crate::count::{
    CountOutcome, CountRow, Key, Metric, MetricInput, NamedFigure, RepeatedCounts, RepeatedRow,
    Subject, derive_metric,
};
use crate::statistics::Summary;

/// The names of threads, by their ids.
pub type ThreadNames = BTreeMap<i32, String>;

/// The description of a measurement.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// The target, in perf's words: `'make -j8'`, `process id '4711'`, `'system wide'`.
    pub target: String,
    /// The words of the command; empty without a command.
    pub command: Vec<String>,
    /// Whether the command was counted in a cgroup of its own, so that counts include its execve.
    pub in_cgroup: bool,
    /// Whether `--exact` was requested, so that nothing is scaled.
    pub exact: bool,
    /// Whether several runs were requested, so that spreads are shown.
    pub repeated: bool,
    /// Names of the derived figures to show; empty for all.
    pub metrics: Vec<String>,
}

impl Description {
    fn shows(&self, metric: &Metric) -> bool {
        let is_named = |figure: &NamedFigure| self.metrics.iter().any(|name| *name == figure.name);
        self.metrics.is_empty() || metric.named.as_ref().is_some_and(is_named)
    }
}

/// The counts of a run, or of an interval of one.
#[derive(Debug)]
pub struct CountedRun {
    /// The sums.
    pub rows: Vec<CountRow>,
    /// The events and cgroups of the rows.
    pub subjects: Vec<Subject>,
    /// The names of the threads that have rows of their own.
    pub names: ThreadNames,
    /// The index of the set of `--exact` that was counted; 0 if there is one set.
    pub set: usize,
    /// How the command ended; `None` for an interval or without a command.
    pub ended: Option<RunEnd>,
    /// Time from the start of the run to its end, or to that of the interval.
    pub elapsed: Duration,
    /// Time that events were enabled, in the run or the interval.
    pub counted: Duration,
}

/// Events that have no count for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingEvents {
    /// The reason.
    pub reason: Unavailable,
    /// Their names.
    pub events: Vec<String>,
}

/// Formats a thread's name as `comm-tid`; `None` for other keys.
fn thread_name(key: Key, names: &ThreadNames) -> Option<String> {
    let Key::Thread(tid) = key else { return None };
    Some(format!("{}-{tid}", names.get(&tid).map_or("?", String::as_str)))
}

/// The results of all runs so far.
#[derive(Debug)]
pub struct Results {
    description: Description,
    names: ThreadNames,
    subjects: Vec<Subject>,
    /// The index of each set's first subject. The subjects of a set are consecutive.
    first_of_set: Vec<Option<usize>>,
    repeated: RepeatedCounts,
    runs: Runs,
    /// The reasons for missing counts that were already reported.
    reported: Vec<Unavailable>,
}

impl Results {
    /// Creates results without runs. `sets` is the number of sets of `--exact`; 1 without it.
    #[must_use]
    pub fn new(description: Description, sets: usize) -> Self {
        Self {
            description,
            names: ThreadNames::new(),
            subjects: Vec::new(),
            first_of_set: vec![None; sets],
            repeated: RepeatedCounts::default(),
            runs: Runs::default(),
            reported: Vec::new(),
        }
    }

    /// Adds a run.
    pub fn add(&mut self, run: CountedRun) {
        let first = *self.first_of_set[run.set].get_or_insert(self.subjects.len());
        if first == self.subjects.len() {
            self.subjects.extend(run.subjects);
        }
        self.repeated.add(&run.rows, |event| first + event);
        self.names.extend(run.names);
        self.runs.add(run.ended, run.elapsed, run.counted);
    }

    /// Adds a run that a signal cut short: its counts only if there are no others.
    pub fn add_interrupted(&mut self, run: CountedRun) {
        if self.runs.interrupt().is_counted {
            self.add(run);
        }
    }

    /// Adds the events of a set that no run counted because there were fewer runs than sets; does
    /// nothing for a set that was counted. Returns the events, unless this reason was already
    /// reported.
    pub fn add_uncounted(&mut self, set: usize, events: &[&Event]) -> Vec<MissingEvents> {
        if self.first_of_set[set].is_some() {
            return Vec::new();
        }
        let first = self.subjects.len();
        let subjects: Vec<Subject> =
            events.iter().map(|&event| Subject { event: event.clone(), cgroup: None }).collect();
        let row = |event| CountRow {
            key: Key::All,
            locations: 0,
            event,
            outcome: CountOutcome::Unavailable(Unavailable::NoTurn),
        };
        let rows: Vec<CountRow> = (0..subjects.len()).map(row).collect();
        self.repeated.add(&rows, |event| first + event);
        let missing = self.take_missing(&rows, &subjects);
        self.subjects.extend(subjects);
        missing
    }

    /// The merged rows of all runs.
    #[must_use]
    pub fn rows(&self) -> &[RepeatedRow] {
        self.repeated.rows()
    }

    /// The description of the measurement.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// The runs.
    #[must_use]
    pub fn runs(&self) -> &Runs {
        &self.runs
    }

    /// Returns one sentence each about failed runs and about an interrupted one.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.runs.notes(self.description.repeated)
    }

    /// Returns the lines of all runs together.
    #[must_use]
    pub fn lines(&self) -> Vec<StatLine> {
        let elapsed_ns = self.runs.mean_counted() * 1e9;
        self.build_lines(self.repeated.rows(), &self.subjects, &self.names, elapsed_ns)
    }

    /// Returns the lines of an interval.
    #[must_use]
    pub fn interval_lines(&self, run: &CountedRun) -> Vec<StatLine> {
        let mut once = RepeatedCounts::default();
        once.add(&run.rows, |event| event);
        self.build_lines(once.rows(), &run.subjects, &run.names, run.counted.as_nanos() as f64)
    }

    fn build_lines(
        &self,
        rows: &[RepeatedRow],
        subjects: &[Subject],
        names: &ThreadNames,
        elapsed_ns: f64,
    ) -> Vec<StatLine> {
        let mean =
            |row: &RepeatedRow| Summary::from_values(&row.values).map(|summary| summary.mean);
        let valued: Vec<MetricInput> = rows
            .iter()
            .map(|row| MetricInput { key: row.key, subject: row.subject, value: mean(row) })
            .collect();
        let line = |(row, &valued_row): (&RepeatedRow, &MetricInput)| {
            let subject = &subjects[row.subject];
            let event = &subject.event;
            let runs: Vec<f64> = row.values.iter().map(|value| value * event.scale).collect();
            let value = match (valued_row.value, row.last) {
                (Some(value), _) => Value::Counted(value * event.scale),
                (None, CountOutcome::Unavailable(Unavailable::NoTurn)) => {
                    Value::NotCounted(Some(Unavailable::NoTurn))
                }
                (None, CountOutcome::Unavailable(reason)) => Value::NotSupported(reason),
                // With `--exact` a set was planned to fit: another user of the PMU took the
                // counter, or a single group doesn't fit.
                (None, _) => Value::NotCounted(self.description.exact.then_some(Unavailable::Busy)),
            };
            let share = if runs.is_empty() {
                0.0
            } else if row.running_ns >= row.enabled_ns {
                1.0
            } else {
                row.running_ns as f64 / row.enabled_ns as f64
            };
            StatLine {
                key: row.key,
                thread: thread_name(row.key, names),
                locations: row.locations,
                event: event.name.clone(),
                cgroup: subject.cgroup.clone(),
                unit: event.unit.clone(),
                scaled_unit: event.scale.fract() != 0.0,
                value,
                running_ns: row.running_ns / (runs.len().max(1) as u64),
                running_share: share,
                metric: derive_metric(subjects, &valued, valued_row, elapsed_ns)
                    .filter(|metric| self.description.shows(metric)),
                repeated: self.description.repeated,
                spread: if self.description.repeated { Summary::from_amounts(&runs) } else { None },
                runs,
            }
        };
        rows.iter().zip(&valued).map(line).collect()
    }

    /// The times of all runs.
    #[must_use]
    pub fn times(&self) -> Times {
        self.runs.times()
    }

    /// Returns the events of these rows that are unavailable, by reason. A reason that was already
    /// reported, by an earlier run for example, is left out.
    pub fn take_missing(&mut self, rows: &[CountRow], subjects: &[Subject]) -> Vec<MissingEvents> {
        let mut missing: Vec<MissingEvents> = Vec::new();
        for row in rows {
            let CountOutcome::Unavailable(reason) = row.outcome else { continue };
            let name = subjects[row.event].event.name.clone();
            match missing.iter_mut().find(|known| known.reason == reason) {
                Some(known) if known.events.contains(&name) => {}
                Some(known) => known.events.push(name),
                None => missing.push(MissingEvents { reason, events: vec![name] }),
            }
        }
        missing.retain(|missing| !self.reported.contains(&missing.reason));
        self.reported.extend(missing.iter().map(|missing| missing.reason));
        missing
    }
}
