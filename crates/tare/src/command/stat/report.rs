//! What was counted, as lines that any output can write.

use std::time::Duration;

use tare_events::Unavailable;
use tare_kernel::child::Ended;
use tare_measure::count::{
    Aggregation, Key, Metric, Outcome, Repeated, RepeatedRow, Row, Subject, Valued, metric,
};
use tare_measure::statistics::Summary;

use super::exact::Turns;
use super::run::{Names, Run};
use crate::cli::resolved::stat::{Stat, Target};
use crate::exit::say;
use tare_format::printable;

fn thread(key: Key, names: &Names) -> Option<String> {
    let Key::Thread(tid) = key else { return None };
    Some(format!("{}-{tid}", names.get(&tid).map_or("?", String::as_str)))
}

/// What came of an event.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value {
    /// A count in the event's unit: one run's, or the mean of several.
    Counted(f64),
    /// Open, but never on a counter, or never its turn.
    NotCounted(Option<Unavailable>),
    /// Not open, and why.
    NotSupported(Unavailable),
}

/// One line of results.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What was summed.
    pub(super) key: Key,
    /// What a thread is called, as `comm-tid`.
    pub(super) thread: Option<String>,
    /// How many CPUs or threads were summed.
    pub(super) places: usize,
    /// The event's name.
    pub(super) event: String,
    /// The cgroup that it counted.
    pub(super) cgroup: Option<String>,
    /// The unit of the value; empty for occurrences.
    pub(super) unit: String,
    /// Whether the value is in another unit than the kernel's, and so has decimals.
    pub(super) scaled_unit: bool,
    /// The count.
    pub(super) value: Value,
    /// Nanoseconds on a counter, a run.
    pub(super) running_ns: u64,
    /// The share of the enabled time on a counter, 0 to 1.
    pub(super) running_share: f64,
    /// The figure derived from it.
    pub(super) metric: Option<Metric>,
    /// Whether several runs were asked for: machine forms then have a column for the spread,
    /// whatever came of the event.
    pub(super) repeated: bool,
    /// Mean, deviation and interval over runs, in the unit; `None` for a single run.
    pub(super) spread: Option<Summary>,
    /// Each run's count, in the unit.
    pub(super) runs: Vec<f64>,
}

/// The time of runs.
#[derive(Clone, Debug)]
pub(super) struct Times {
    /// Seconds elapsed, of each run.
    pub(super) elapsed: Vec<f64>,
    /// Seconds in user mode, of each run with a command.
    pub(super) user: Vec<f64>,
    /// Seconds in the kernel, of each run with a command.
    pub(super) system: Vec<f64>,
    /// Peak memory in bytes, of each run with a command.
    pub(super) peak_memory: Vec<f64>,
}

/// All runs so far.
pub(super) struct Results<'a> {
    stat: &'a Stat,
    names: Names,
    subjects: Vec<Subject>,
    /// The number of each set's first subject, by turn; subjects of a set follow each other.
    first_of_turn: Vec<Option<usize>>,
    repeated: Repeated,
    ended: Vec<Ended>,
    elapsed: Vec<f64>,
    counted: Vec<f64>,
    /// The reasons for missing counts that the user was told.
    said: Vec<Unavailable>,
}

impl<'a> Results<'a> {
    pub(super) fn new(stat: &'a Stat) -> Self {
        let (repeated, names) = (Repeated::default(), Names::new());
        let (subjects, first_of_turn) = (Vec::new(), Vec::new());
        Self {
            stat,
            names,
            subjects,
            first_of_turn,
            repeated,
            ended: Vec::new(),
            elapsed: Vec::new(),
            counted: Vec::new(),
            said: Vec::new(),
        }
    }

    /// Adds a run.
    pub(super) fn add(&mut self, run: Run, turns: &Turns) {
        self.say_what_is_missing(&run.rows, &run.subjects);
        self.first_of_turn.resize(turns.len(), None);
        let first = *self.first_of_turn[run.turn].get_or_insert(self.subjects.len());
        if first == self.subjects.len() {
            self.subjects.extend(run.subjects);
        }
        self.repeated.add(&run.rows, |event| first + event);
        self.names.extend(run.names);
        self.ended.extend(run.ended);
        self.elapsed.push(run.elapsed.as_secs_f64());
        self.counted.push(run.counted.as_secs_f64());
    }

    /// Adds the events of sets that never had a turn, as there were fewer runs than sets.
    pub(super) fn add_missed(&mut self, turns: &Turns) {
        self.first_of_turn.resize(turns.len(), None);
        for turn in (0..turns.len()).filter(|_| !turns.in_time) {
            if self.first_of_turn[turn].is_some() {
                continue;
            }
            let first = self.subjects.len();
            let events = turns.set(turn).iter().flat_map(|&group| &self.stat.groups[group].events);
            let subjects: Vec<Subject> =
                events.map(|event| Subject { event: event.clone(), cgroup: None }).collect();
            let row = |event| Row {
                key: Key::All,
                places: 0,
                event,
                outcome: Outcome::Unavailable(Unavailable::NoTurn),
            };
            let rows: Vec<Row> = (0..subjects.len()).map(row).collect();
            self.say_what_is_missing(&rows, &subjects);
            self.repeated.add(&rows, |event| first + event);
            self.subjects.extend(subjects);
        }
    }

    pub(super) fn rows(&self) -> &[RepeatedRow] {
        self.repeated.rows()
    }

    pub(super) fn stat(&self) -> &Stat {
        self.stat
    }

    /// How many runs there were.
    pub(super) fn runs(&self) -> usize {
        self.elapsed.len()
    }

    /// What was counted, for people: `'make -j8'`, `process 4711`, `the whole machine`.
    pub(super) fn title(&self) -> String {
        let list = |ids: &[i32]| ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let command = self
            .stat
            .command
            .iter()
            .map(|word| word.to_string_lossy())
            .collect::<Vec<_>>()
            .join(" ");
        printable(&match &self.stat.target {
            Target::Command | Target::CommandInCgroup(_) => format!("'{command}'"),
            Target::Processes(pids) => format!("process {}", list(pids)),
            Target::Threads(tids) => format!("thread {}", list(tids)),
            Target::Cpus(cpus) => format!("CPUs {cpus}"),
            Target::Cgroups { names, .. } => format!("cgroup {}", names.join(",")),
        })
        .into_owned()
    }

    /// The lines over all runs.
    pub(super) fn lines(&self) -> Vec<Line> {
        let elapsed = self.counted.iter().sum::<f64>() / self.counted.len().max(1) as f64;
        self.lines_of(self.repeated.rows(), &self.subjects, &self.names, elapsed * 1e9)
    }

    /// The lines of one interval, which ended `at` after the start.
    pub(super) fn interval(&self, run: &Run, at: Duration) -> (Duration, Vec<Line>) {
        let mut once = Repeated::default();
        once.add(&run.rows, |event| event);
        (at, self.lines_of(once.rows(), &run.subjects, &run.names, run.counted.as_nanos() as f64))
    }

    fn lines_of(
        &self,
        rows: &[RepeatedRow],
        subjects: &[Subject],
        names: &Names,
        elapsed_ns: f64,
    ) -> Vec<Line> {
        let mean = |row: &RepeatedRow| Summary::of(&row.values).map(|summary| summary.mean);
        let valued: Vec<Valued> = rows
            .iter()
            .map(|row| Valued { key: row.key, subject: row.subject, value: mean(row) })
            .collect();
        let line = |(row, &valued_row): (&RepeatedRow, &Valued)| {
            let subject = &subjects[row.subject];
            let event = &subject.event;
            let runs: Vec<f64> = row.values.iter().map(|value| value * event.scale).collect();
            let value = match (valued_row.value, row.last) {
                (Some(value), _) => Value::Counted(value * event.scale),
                (None, Outcome::Unavailable(Unavailable::NoTurn)) => {
                    Value::NotCounted(Some(Unavailable::NoTurn))
                }
                (None, Outcome::Unavailable(reason)) => Value::NotSupported(reason),
                // Planned on a counter of its own, which somebody else took.
                (None, _) => Value::NotCounted(self.stat.exact.then_some(Unavailable::Busy)),
            };
            let share = if row.running_ns >= row.enabled_ns {
                1.0
            } else {
                row.running_ns as f64 / row.enabled_ns as f64
            };
            Line {
                key: row.key,
                thread: thread(row.key, names),
                places: row.places,
                event: event.name.clone(),
                cgroup: subject.cgroup.clone(),
                unit: event.unit.clone(),
                scaled_unit: event.scale.fract() != 0.0,
                value,
                running_ns: row.running_ns / (runs.len().max(1) as u64),
                running_share: share,
                metric: metric(subjects, &valued, valued_row, elapsed_ns),
                repeated: self.stat.repeated,
                spread: if self.stat.repeated { Summary::of(&runs) } else { None },
                runs,
            }
        };
        // Events that nobody asked for by name and that this machine lacks are named on stderr, not
        // in the results.
        let shown =
            |row: &RepeatedRow| self.stat.by_name || !matches!(row.last, Outcome::Unavailable(_));
        rows.iter().zip(&valued).filter(|(row, _)| shown(row)).map(line).collect()
    }

    /// The times of all runs.
    pub(super) fn times(&self) -> Times {
        let of = |get: fn(&Ended) -> f64| self.ended.iter().map(get).collect();
        Times {
            elapsed: self.elapsed.clone(),
            user: of(|ended| ended.user.as_secs_f64()),
            system: of(|ended| ended.system.as_secs_f64()),
            peak_memory: of(|ended| ended.peak_memory as f64),
        }
    }

    /// Whether lines have a column for what was summed.
    pub(super) fn shows_keys(&self) -> bool {
        self.stat.aggregation != Aggregation::All
    }

    /// Tells on stderr which events have no count, and why: one line, and only once for each
    /// reason.
    pub(super) fn say_what_is_missing(&mut self, rows: &[Row], subjects: &[Subject]) {
        let mut reasons: Vec<(Unavailable, Vec<&str>)> = Vec::new();
        for row in rows {
            let Outcome::Unavailable(reason) = row.outcome else { continue };
            let name = subjects[row.event].event.name.as_str();
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, names)) if names.contains(&name) => {}
                Some((_, names)) => names.push(name),
                None => reasons.push((reason, vec![name])),
            }
        }
        reasons.retain(|(reason, _)| !self.said.contains(reason));
        self.said.extend(reasons.iter().map(|(reason, _)| reason));
        if !reasons.is_empty() {
            let verb = if self.stat.by_name { "not counted" } else { "left out" };
            let texts: Vec<String> = reasons
                .iter()
                .map(|(reason, names)| format!("{} ({reason})", names.join(", ")))
                .collect();
            say(&format!("{verb}: {}; see `tare doctor`", texts.join("; ")));
        }
    }
}
