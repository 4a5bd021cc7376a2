//! What was counted in all runs, as lines.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_events::{Event, Unavailable};
use tare_kernel::child::ChildExit;

use super::line::{Line, Value};
use crate::count::{Key, MetricInput, Outcome, RepeatedCounts, RepeatedRow, Row, Subject, metric};
use crate::statistics::Summary;

/// What threads are called, by their id.
pub type ThreadNames = BTreeMap<i32, String>;

/// What results are of.
#[derive(Clone, Debug, Default)]
pub struct Description {
    /// What was counted, in perf's words: `'make -j8'`, `process id '4711'`, `'system wide'`.
    pub target: String,
    /// The words of the command; none without one.
    pub command: Vec<String>,
    /// The command was counted in a cgroup of its own, its execve included.
    pub in_cgroup: bool,
    /// `--exact`: nothing was scaled.
    pub exact: bool,
    /// Several runs were asked for, so that spreads are shown.
    pub repeated: bool,
}

/// What one run counted.
#[derive(Debug)]
pub struct Run {
    /// The sums.
    pub rows: Vec<Row>,
    /// What they count.
    pub subjects: Vec<Subject>,
    /// What the threads are called that have rows of their own.
    pub names: ThreadNames,
    /// The number of the set of `--exact` that was counted; 0 where there is one set.
    pub set: usize,
    /// How the command ended and what it used.
    pub ended: Option<ChildExit>,
    /// From the start to the end.
    pub elapsed: Duration,
    /// For how long events were enabled.
    pub counted: Duration,
}

/// Events without a count, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingEvents {
    /// The reason.
    pub reason: Unavailable,
    /// Their names.
    pub events: Vec<String>,
}

fn thread(key: Key, names: &ThreadNames) -> Option<String> {
    let Key::Thread(tid) = key else { return None };
    Some(format!("{}-{tid}", names.get(&tid).map_or("?", String::as_str)))
}

/// What runs took.
#[derive(Clone, Debug)]
pub struct Times {
    /// Seconds elapsed, of each run.
    pub elapsed: Vec<f64>,
    /// Seconds in user mode, of each run with a command.
    pub user: Vec<f64>,
    /// Seconds in the kernel, of each run with a command.
    pub system: Vec<f64>,
    /// Peak memory in bytes, of each run with a command.
    pub peak_memory: Vec<f64>,
}

/// All runs so far.
#[derive(Debug)]
pub struct Results {
    description: Description,
    names: ThreadNames,
    subjects: Vec<Subject>,
    /// The number of each set's first subject; subjects of a set follow each other.
    first_of_set: Vec<Option<usize>>,
    repeated: RepeatedCounts,
    ended: Vec<ChildExit>,
    elapsed: Vec<f64>,
    counted: Vec<f64>,
    /// The reasons for missing counts that were told.
    told: Vec<Unavailable>,
}

impl Results {
    /// Creates results without a run, for events in this many sets (1, unless `--exact` makes
    /// more).
    #[must_use]
    pub fn new(description: Description, sets: usize) -> Self {
        Self {
            description,
            names: ThreadNames::new(),
            subjects: Vec::new(),
            first_of_set: vec![None; sets],
            repeated: RepeatedCounts::default(),
            ended: Vec::new(),
            elapsed: Vec::new(),
            counted: Vec::new(),
            told: Vec::new(),
        }
    }

    /// Adds a run.
    pub fn add(&mut self, run: Run) {
        let first = *self.first_of_set[run.set].get_or_insert(self.subjects.len());
        if first == self.subjects.len() {
            self.subjects.extend(run.subjects);
        }
        self.repeated.add(&run.rows, |event| first + event);
        self.names.extend(run.names);
        self.ended.extend(run.ended);
        self.elapsed.push(run.elapsed.as_secs_f64());
        self.counted.push(run.counted.as_secs_f64());
    }

    /// Adds the events of a set that no run counted, as there were fewer runs than sets. Returns
    /// them, unless their reason was told before.
    pub fn add_uncounted(&mut self, set: usize, events: &[&Event]) -> Vec<MissingEvents> {
        if self.first_of_set[set].is_some() {
            return Vec::new();
        }
        let first = self.subjects.len();
        let subjects: Vec<Subject> =
            events.iter().map(|&event| Subject { event: event.clone(), cgroup: None }).collect();
        let row = |event| Row {
            key: Key::All,
            locations: 0,
            event,
            outcome: Outcome::Unavailable(Unavailable::NoTurn),
        };
        let rows: Vec<Row> = (0..subjects.len()).map(row).collect();
        self.repeated.add(&rows, |event| first + event);
        let missing = self.newly_missing(&rows, &subjects);
        self.subjects.extend(subjects);
        missing
    }

    /// The sums over all runs.
    #[must_use]
    pub fn rows(&self) -> &[RepeatedRow] {
        self.repeated.rows()
    }

    /// What these are the results of.
    #[must_use]
    pub fn description(&self) -> &Description {
        &self.description
    }

    /// How many runs there were.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.elapsed.len()
    }

    /// The lines over all runs.
    #[must_use]
    pub fn lines(&self) -> Vec<Line> {
        let elapsed = self.counted.iter().sum::<f64>() / self.counted.len().max(1) as f64;
        self.lines_of(self.repeated.rows(), &self.subjects, &self.names, elapsed * 1e9)
    }

    /// The lines of one interval of a run.
    #[must_use]
    pub fn interval(&self, run: &Run) -> Vec<Line> {
        let mut once = RepeatedCounts::default();
        once.add(&run.rows, |event| event);
        self.lines_of(once.rows(), &run.subjects, &run.names, run.counted.as_nanos() as f64)
    }

    fn lines_of(
        &self,
        rows: &[RepeatedRow],
        subjects: &[Subject],
        names: &ThreadNames,
        elapsed_ns: f64,
    ) -> Vec<Line> {
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
                (None, Outcome::Unavailable(Unavailable::NoTurn)) => {
                    Value::NotCounted(Some(Unavailable::NoTurn))
                }
                (None, Outcome::Unavailable(reason)) => Value::NotSupported(reason),
                // The set was planned to fit, but another user took the counter.
                (None, _) => Value::NotCounted(self.description.exact.then_some(Unavailable::Busy)),
            };
            let share = if runs.is_empty() {
                0.0
            } else if row.running_ns >= row.enabled_ns {
                1.0
            } else {
                row.running_ns as f64 / row.enabled_ns as f64
            };
            Line {
                key: row.key,
                thread: thread(row.key, names),
                locations: row.locations,
                event: event.name.clone(),
                cgroup: subject.cgroup.clone(),
                unit: event.unit.clone(),
                scaled_unit: event.scale.fract() != 0.0,
                value,
                running_ns: row.running_ns / (runs.len().max(1) as u64),
                running_share: share,
                metric: metric(subjects, &valued, valued_row, elapsed_ns),
                repeated: self.description.repeated,
                spread: if self.description.repeated { Summary::of_amounts(&runs) } else { None },
                runs,
            }
        };
        rows.iter().zip(&valued).map(line).collect()
    }

    /// The times of all runs.
    #[must_use]
    pub fn times(&self) -> Times {
        let of = |get: fn(&ChildExit) -> f64| self.ended.iter().map(get).collect();
        Times {
            elapsed: self.elapsed.clone(),
            user: of(|ended| ended.user.as_secs_f64()),
            system: of(|ended| ended.system.as_secs_f64()),
            peak_memory: of(|ended| ended.peak_memory as f64),
        }
    }

    /// The events of these rows that have no count, by reason; each reason once over all runs.
    pub fn newly_missing(&mut self, rows: &[Row], subjects: &[Subject]) -> Vec<MissingEvents> {
        let mut missing: Vec<MissingEvents> = Vec::new();
        for row in rows {
            let Outcome::Unavailable(reason) = row.outcome else { continue };
            let name = subjects[row.event].event.name.clone();
            match missing.iter_mut().find(|known| known.reason == reason) {
                Some(known) if known.events.contains(&name) => {}
                Some(known) => known.events.push(name),
                None => missing.push(MissingEvents { reason, events: vec![name] }),
            }
        }
        missing.retain(|missing| !self.told.contains(&missing.reason));
        self.told.extend(missing.iter().map(|missing| missing.reason));
        missing
    }
}
