//! The figures of all runs of a command, in little memory.

use std::time::Duration;

use tare_kernel::child::ChildExit;

use crate::compare::Metric;
use crate::statistics::median;

/// Figures that every run has.
const FIXED: usize = 6;

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunFigures {
    /// How it exited and what it used.
    pub exit: ChildExit,
    /// Counts of the events that the series counts, in their order; `None` if not counted.
    pub counts: Vec<Option<f64>>,
    /// When it was started, since the start of the series.
    pub began: Duration,
}

/// When a run was made, and how it ended: 12 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
struct RunMark {
    round: u32,
    began_ms: u32,
    status: u8,
    signal: u8,
}

/// All counted runs of a command, in their order: 60 bytes a run without events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommandRuns {
    /// Figures of all runs, one after the other: elapsed, user and system time in seconds, peak
    /// memory in bytes, page faults, context switches, events. NaN: not known.
    values: Vec<f64>,
    marks: Vec<RunMark>,
    /// Number of counted events.
    events: usize,
    /// Seconds of user time, system time and time that are subtracted as those of the shell.
    shell: [f64; 3],
}

/// Lists the metrics of a series that counts these events besides what the kernel accounts for
/// every process.
#[must_use]
pub fn series_metrics(events: &[&str]) -> Vec<Metric> {
    let event = |index: usize, name: &str, unit: &str, step: f64| Metric::Event {
        index,
        name: name.to_owned(),
        unit: unit.to_owned(),
        step,
    };
    let mut metrics = vec![
        Metric::Time,
        Metric::CpuTime,
        event(1, "user-time", "s", 1e-6),
        event(2, "system-time", "s", 1e-6),
        Metric::PeakMemory,
        event(4, "page-faults", "", 1.0),
        event(5, "context-switches", "", 1.0),
    ];
    metrics.extend((FIXED..).zip(events).map(|(index, name)| event(index, name, "", 1.0)));
    metrics
}

impl CommandRuns {
    /// No runs yet, with this number of events.
    #[must_use]
    pub fn new(events: usize) -> Self {
        Self { events, ..Self::default() }
    }

    /// Takes in a run of a round.
    pub fn add(&mut self, round: u32, run: &RunFigures) {
        let known = |count: Option<f64>| count.unwrap_or(f64::NAN);
        let exit = &run.exit;
        self.values.extend([
            exit.elapsed.as_secs_f64(),
            exit.user.as_secs_f64(),
            exit.system.as_secs_f64(),
            known(exit.peak_memory.map(|bytes| bytes as f64)),
            exit.page_faults as f64,
            exit.context_switches as f64,
        ]);
        self.values
            .extend((0..self.events).map(|event| known(run.counts.get(event).copied().flatten())));
        self.marks.push(RunMark {
            round,
            began_ms: u32::try_from(run.began.as_millis()).unwrap_or(u32::MAX),
            status: exit.status,
            signal: exit.signal.and_then(|signal| u8::try_from(signal).ok()).unwrap_or(0),
        });
    }

    /// Subtracts the time of a shell that runs nothing from every time: elapsed, user, system.
    pub fn subtract_shell(&mut self, elapsed: f64, user: f64, system: f64) {
        self.shell = [elapsed, user, system];
    }

    /// Number of runs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.marks.len()
    }

    /// Whether there is no run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    fn figure(&self, run: usize, index: usize) -> f64 {
        let value = self.values[run * (FIXED + self.events) + index];
        // NaN stays: max would turn it into 0.
        match self.shell.get(index) {
            Some(shell) if *shell > 0.0 => (value - shell).max(0.0),
            _ => value,
        }
    }

    /// A metric's value in a run, without the shell's time; `None` if it isn't known.
    #[must_use]
    pub fn value(&self, run: usize, metric: &Metric) -> Option<f64> {
        let value = match metric {
            Metric::Time => self.figure(run, 0),
            Metric::CpuTime => self.figure(run, 1) + self.figure(run, 2),
            Metric::PeakMemory => self.figure(run, 3),
            Metric::Event { index, .. } => self.figure(run, *index),
        };
        (!value.is_nan()).then_some(value)
    }

    /// A metric's values in all runs that have one.
    #[must_use]
    pub fn values(&self, metric: &Metric) -> Vec<f64> {
        (0..self.len()).filter_map(|run| self.value(run, metric)).collect()
    }

    /// The times of all runs in seconds, with the shell's time.
    #[must_use]
    pub fn whole_times(&self) -> Vec<f64> {
        self.values.iter().step_by(FIXED + self.events).copied().collect()
    }

    /// When each run began, in seconds since the start of the series.
    #[must_use]
    pub fn begins(&self) -> Vec<f64> {
        self.marks.iter().map(|mark| f64::from(mark.began_ms) / 1e3).collect()
    }

    /// The round of each run.
    #[must_use]
    pub fn rounds(&self) -> Vec<u32> {
        self.marks.iter().map(|mark| mark.round).collect()
    }

    /// The exit status of each run (`None`: killed by a signal) with the signal.
    pub fn endings(&self) -> impl Iterator<Item = (Option<u8>, Option<i32>)> {
        self.marks.iter().map(|mark| match mark.signal {
            0 => (Some(mark.status), None),
            signal => (None, Some(i32::from(signal))),
        })
    }

    /// A metric's value in each round, in order: the median of the round's runs that have one.
    #[must_use]
    pub fn by_round(&self, metric: &Metric) -> Vec<(u32, f64)> {
        let mut rounds = Vec::new();
        let mut first = 0;
        for same in self.marks.chunk_by(|a, b| a.round == b.round) {
            let runs = first..first + same.len();
            first = runs.end;
            let values: Vec<f64> = runs.filter_map(|run| self.value(run, metric)).collect();
            rounds.extend(median(&values).map(|value| (same[0].round, value)));
        }
        rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(milliseconds: u64) -> RunFigures {
        let exit = ChildExit {
            elapsed: Duration::from_millis(milliseconds),
            user: Duration::from_millis(2),
            page_faults: 7,
            ..ChildExit::default()
        };
        RunFigures { exit, counts: vec![Some(5.0), None], ..RunFigures::default() }
    }

    #[test]
    fn figures_come_back_as_they_were_and_rounds_have_medians() {
        let mut runs = CommandRuns::new(2);
        for (round, milliseconds) in [(0, 10), (0, 30), (0, 20), (1, 40)] {
            runs.add(round, &run(milliseconds));
        }
        let metrics = series_metrics(&["instructions", "cycles"]);
        let in_first: Vec<_> = metrics.iter().map(|metric| runs.value(0, metric)).collect();
        assert_eq!(
            in_first,
            [
                Some(0.01),
                Some(0.002),
                Some(0.002),
                Some(0.0),
                None,
                Some(7.0),
                Some(0.0),
                Some(5.0),
                None
            ]
        );
        assert_eq!(runs.by_round(&Metric::Time), [(0, 0.02), (1, 0.04)]);
        assert_eq!(runs.whole_times(), [0.01, 0.03, 0.02, 0.04]);
    }

    #[test]
    fn the_shells_time_is_subtracted_down_to_zero() {
        let mut runs = CommandRuns::new(0);
        runs.add(0, &run(10));
        runs.add(1, &run(1));
        runs.subtract_shell(0.002, 0.0, 0.0);
        assert_eq!(runs.values(&Metric::Time), [0.008, 0.0]);
        assert_eq!(runs.whole_times(), [0.01, 0.001]);
    }

    #[test]
    fn a_run_takes_60_bytes() {
        assert_eq!(FIXED * size_of::<f64>() + size_of::<RunMark>(), 60);
    }
}
