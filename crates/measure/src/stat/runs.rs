//! The runs of a measurement: how long each took, and how its command ended.

use std::time::Duration;

use tare_kernel::child::ChildExit;

/// Number of failed runs that a note describes one by one.
const DESCRIBED: usize = 5;

/// How the command of a run ended.
#[derive(Clone, Copy, Debug)]
pub struct RunEnd {
    /// Its exit status and resource usage.
    pub exit: ChildExit,
    /// Whether tare ended it, for example after `--timeout`.
    pub by_tare: bool,
}

impl RunEnd {
    /// Describes the failure of a command that ended by itself.
    fn failure(&self) -> Option<String> {
        if self.by_tare { None } else { self.exit.failure() }
    }
}

/// A run that a signal to tare cut short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterruptedRun {
    /// Its number, from 1.
    pub number: usize,
    /// Whether its counts are in the results: only if no run before it was complete.
    pub is_counted: bool,
}

/// The resources that each run used.
#[derive(Clone, Debug)]
pub struct Times {
    /// Elapsed seconds of each run.
    pub elapsed: Vec<f64>,
    /// Seconds in user mode of each run with a command.
    pub user: Vec<f64>,
    /// Seconds in the kernel of each run with a command.
    pub system: Vec<f64>,
    /// Peak memory in bytes of each run with a command; `None` where it isn't known.
    pub peak_memory: Vec<Option<u64>>,
}

/// The runs whose counts are in the results, and the one that was interrupted.
#[derive(Clone, Debug, Default)]
pub struct Runs {
    ended: Vec<RunEnd>,
    elapsed: Vec<f64>,
    counted: Vec<f64>,
    interrupted: Option<InterruptedRun>,
}

impl Runs {
    /// Adds a run: how its command ended, its length, and the time that events were enabled.
    pub(super) fn add(&mut self, ended: Option<RunEnd>, elapsed: Duration, counted: Duration) {
        self.ended.extend(ended);
        self.elapsed.push(elapsed.as_secs_f64());
        self.counted.push(counted.as_secs_f64());
    }

    /// Records that the next run is interrupted. It is counted if it is the first.
    pub(super) fn interrupt(&mut self) -> InterruptedRun {
        let is_counted = self.elapsed.is_empty();
        *self.interrupted.insert(InterruptedRun { number: self.elapsed.len() + 1, is_counted })
    }

    /// The number of runs in the results.
    #[must_use]
    pub fn number(&self) -> usize {
        self.elapsed.len()
    }

    /// How the command of each run ended; empty without a command.
    #[must_use]
    pub fn ended(&self) -> &[RunEnd] {
        &self.ended
    }

    /// The run that was interrupted.
    #[must_use]
    pub fn interrupted(&self) -> Option<InterruptedRun> {
        self.interrupted
    }

    /// Returns the mean time that events were enabled, in seconds.
    pub(super) fn mean_counted(&self) -> f64 {
        self.counted.iter().sum::<f64>() / self.counted.len().max(1) as f64
    }

    /// Returns the resources that each run used.
    pub(super) fn times(&self) -> Times {
        let each = |get: fn(&ChildExit) -> f64| {
            self.ended.iter().map(|ended| get(&ended.exit)).collect::<Vec<f64>>()
        };
        Times {
            elapsed: self.elapsed.clone(),
            user: each(|exit| exit.user.as_secs_f64()),
            system: each(|exit| exit.system.as_secs_f64()),
            peak_memory: self.ended.iter().map(|ended| ended.exit.peak_memory).collect(),
        }
    }

    /// Returns one sentence each about failed runs and about an interrupted one.
    #[must_use]
    pub fn notes(&self, repeated: bool) -> Vec<String> {
        let interrupted = self.interrupted.filter(|_| repeated).map(|run| {
            let counts =
                if run.is_counted { "its counts end there" } else { "its counts are left out" };
            format!("run {} was interrupted: {counts}", run.number)
        });
        self.failure_note(repeated).into_iter().chain(interrupted).collect()
    }

    fn failure_note(&self, repeated: bool) -> Option<String> {
        let failed: Vec<(usize, String)> = (1..)
            .zip(&self.ended)
            .filter_map(|(number, ended)| Some((number, ended.failure()?)))
            .collect();
        let (_, first) = failed.first()?;
        if !repeated {
            return Some(format!("the command {first}"));
        }
        let mut described: Vec<String> = failed
            .iter()
            .take(DESCRIBED)
            .map(|(number, failure)| format!("run {number} {failure}"))
            .collect();
        if failed.len() > DESCRIBED {
            described.push(format!("and {} more", failed.len() - DESCRIBED));
        }
        Some(format!(
            "{} of {} runs failed and {} in the means: {}",
            failed.len(),
            self.ended.len(),
            if failed.len() == 1 { "is" } else { "are" },
            described.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: u8, signal: Option<i32>) -> Option<RunEnd> {
        let exit = ChildExit { status, signal, ..ChildExit::default() };
        Some(RunEnd { exit, by_tare: false })
    }

    fn runs(ends: &[Option<RunEnd>]) -> Runs {
        let mut runs = Runs::default();
        ends.iter().for_each(|&end| runs.add(end, Duration::ZERO, Duration::ZERO));
        runs
    }

    #[test]
    fn notes_name_each_failed_run() {
        assert!(runs(&[ended(0, None)]).notes(false).is_empty());
        assert_eq!(
            runs(&[ended(139, Some(11))]).notes(false),
            ["the command was killed by signal 11 (SIGSEGV)"]
        );
        assert_eq!(
            runs(&[ended(0, None), ended(9, None), ended(137, Some(9))]).notes(true),
            [
                "2 of 3 runs failed and are in the means: run 2 exited with status 9, run 3 was killed by signal 9 (SIGKILL)"
            ]
        );
        let many = runs(&[ended(1, None); 8]).notes(true);
        assert!(many[0].ends_with("run 5 exited with status 1, and 3 more"), "{many:?}");
    }

    #[test]
    fn a_command_that_tare_ended_has_not_failed() {
        let by_tare = ended(143, Some(15)).map(|end| RunEnd { by_tare: true, ..end });
        assert!(runs(&[by_tare]).notes(false).is_empty());
    }

    #[test]
    fn an_interrupted_run_is_left_out_unless_it_is_the_first() {
        let mut first = Runs::default();
        assert!(first.interrupt().is_counted);
        assert_eq!(first.notes(true), ["run 1 was interrupted: its counts end there"]);
        let mut third = runs(&[ended(0, None), ended(0, None)]);
        assert!(!third.interrupt().is_counted);
        assert_eq!(third.notes(true), ["run 3 was interrupted: its counts are left out"]);
    }
}
