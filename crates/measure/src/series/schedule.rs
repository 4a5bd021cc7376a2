//! Makes the runs of a series: rounds in random order, until every comparison is settled or a limit
//! is reached.

use std::time::Duration;

use fastrand::Rng;

use super::runs::{CommandRuns, RunFigures};
use crate::compare::Metric;
use crate::compare::pairs::StoppingRule;

/// Blocks of each command in a series with `--setup` or `--cleanup`: enough for a verdict.
pub const BLOCKS: usize = 16;

/// The number of runs, and their order.
#[derive(Clone, Debug, PartialEq)]
pub struct SeriesPlan {
    /// Number of commands; the first one is the reference.
    pub commands: usize,
    /// Number of counted events.
    pub events: usize,
    /// Runs of each command that aren't counted, before its first run, or that of a block.
    pub warmup: usize,
    /// Fewest runs of each command.
    pub min_runs: usize,
    /// Most runs of each command.
    pub max_runs: usize,
    /// A single command runs at least this long.
    pub min_time: Duration,
    /// No round starts after this time, once every command has run `min_runs` times.
    pub max_time: Duration,
    /// Half width of the 95% interval of each time ratio's logarithm that is narrow enough to stop.
    pub precision: f64,
    /// Limits that gates set to the time ratio's logarithm; `None` if a gate depends on another
    /// metric.
    pub time_limits: Option<Vec<f64>>,
    /// Whether each command has a `--setup` or a `--cleanup`.
    pub has_blocks: bool,
    /// Seed of the order.
    pub seed: u64,
}

/// Runs the commands, reads a clock, and shows the progress.
pub trait Launcher {
    /// Why a run or a hook failed.
    type Error;

    /// Runs a command's `--setup`.
    ///
    /// # Errors
    /// Fails if the setup fails.
    fn set_up(&mut self, command: usize) -> Result<(), Self::Error>;

    /// Runs a command once, with its `--prepare` and `--conclude`. `iteration` is the number of the
    /// run, from 0; `None` for a warm-up run.
    ///
    /// # Errors
    /// Fails if the command can't run, or its result must not be used.
    fn run(&mut self, command: usize, iteration: Option<usize>) -> Result<RunFigures, Self::Error>;

    /// Runs a command's `--cleanup`.
    ///
    /// # Errors
    /// Fails if the cleanup fails.
    fn clean_up(&mut self, command: usize) -> Result<(), Self::Error>;

    /// Time since the start of the series.
    fn now(&mut self) -> Duration;

    /// Called after each round.
    fn progress(&mut self, progress: &SeriesProgress<'_>);
}

/// Progress of a series.
#[derive(Clone, Copy, Debug)]
pub struct SeriesProgress<'a> {
    /// The plan.
    pub plan: &'a SeriesPlan,
    /// The runs so far, by command.
    pub runs: &'a [CommandRuns],
    /// Time spent.
    pub spent: Duration,
    /// The widest half width of the intervals of all time ratios' logarithms, as last computed.
    pub half_width: Option<f64>,
}

impl SeriesProgress<'_> {
    /// Estimates the completed share, 0 to 1, by the limit that is nearest.
    #[must_use]
    pub fn share(&self) -> f64 {
        let plan = self.plan;
        let made = self.runs.iter().map(CommandRuns::len).min().unwrap_or(0) as f64;
        let longest = if plan.commands == 1 { plan.min_time } else { plan.max_time };
        let timed = self.spent.as_secs_f64() / longest.as_secs_f64().max(1e-9);
        let known = self.half_width.map_or(0.0, |half| (plan.precision / half.max(1e-9)).powi(2));
        let limited = (made / plan.max_runs as f64).max(timed).max(known);
        limited.min(made / plan.min_runs.max(1) as f64).min(1.0)
    }
}

/// Why no more runs were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeriesStop<E> {
    /// Every comparison is settled, or a single command ran long enough.
    Settled,
    /// `max_runs` were made.
    MaxRuns,
    /// `max_time` has passed.
    MaxTime,
    /// A run or a hook failed, or was interrupted; its result isn't used.
    Failed(E),
}

/// The runs of a series.
#[derive(Debug)]
pub struct SeriesRuns<E> {
    /// The runs of each command.
    pub runs: Vec<CommandRuns>,
    /// Why no more were made.
    pub stop: SeriesStop<E>,
    /// Whether each command ran in one piece because its setup takes long, so that a drift of the
    /// machine's speed looks like a difference.
    pub is_sequential: bool,
}

/// Makes the runs.
pub fn make<L: Launcher>(plan: &SeriesPlan, launcher: &mut L) -> SeriesRuns<L::Error> {
    let mut series = Series {
        plan,
        rng: Rng::with_seed(plan.seed),
        runs: vec![CommandRuns::new(plan.events); plan.commands],
        block: 1,
        setup: None,
        is_sequential: false,
        half_width: None,
        next_check: plan.min_runs.max(2),
    };
    let stop = match series.make(launcher) {
        Ok(stop) => stop,
        Err(error) => SeriesStop::Failed(error),
    };
    SeriesRuns { runs: series.runs, stop, is_sequential: series.is_sequential }
}

struct Series<'a> {
    plan: &'a SeriesPlan,
    rng: Rng,
    runs: Vec<CommandRuns>,
    /// Runs in a block.
    block: usize,
    /// Time of the first setup.
    setup: Option<Duration>,
    is_sequential: bool,
    half_width: Option<f64>,
    /// Number of rounds at which the intervals are computed next.
    next_check: usize,
}

impl Series<'_> {
    fn make<L: Launcher>(&mut self, launcher: &mut L) -> Result<SeriesStop<L::Error>, L::Error> {
        if !self.plan.has_blocks {
            for command in 0..self.plan.commands {
                self.warm_up(command, launcher)?;
            }
        }
        let mut round = 0;
        loop {
            if let Some(stop) = self.stop(round, launcher.now()) {
                return Ok(stop);
            }
            let mut order: Vec<usize> = (0..self.plan.commands).collect();
            self.rng.shuffle(&mut order);
            for command in order {
                self.run_block(command, round, launcher)?;
            }
            round += 1;
            if round == 1 {
                self.choose_block();
            }
            let spent = launcher.now();
            launcher.progress(&SeriesProgress {
                plan: self.plan,
                runs: &self.runs,
                spent,
                half_width: self.half_width,
            });
        }
    }

    fn warm_up<L: Launcher>(&mut self, command: usize, launcher: &mut L) -> Result<(), L::Error> {
        (0..self.plan.warmup).try_for_each(|_| launcher.run(command, None).map(|_| ()))
    }

    /// Runs a command once, or a block of its runs between its setup and its cleanup.
    fn run_block<L: Launcher>(
        &mut self,
        command: usize,
        round: u32,
        launcher: &mut L,
    ) -> Result<(), L::Error> {
        if !self.plan.has_blocks {
            return self.run_once(command, round, launcher);
        }
        let before = launcher.now();
        launcher.set_up(command)?;
        if self.setup.is_none() {
            let took = launcher.now().saturating_sub(before);
            self.setup = Some(took);
            let blocks = self.plan.commands * BLOCKS;
            self.is_sequential =
                took.saturating_mul(u32::try_from(blocks).unwrap_or(u32::MAX)) > self.plan.max_time;
        }
        self.warm_up(command, launcher)?;
        let began = launcher.now();
        let mut made = 0;
        while self.block_goes_on(made, self.runs[command].len(), launcher.now() - began) {
            self.run_once(command, round, launcher)?;
            made += 1;
        }
        launcher.clean_up(command)
    }

    /// Whether a block that has this many runs, of a command with `all` runs, gets one more.
    fn block_goes_on(&self, made: usize, all: usize, spent: Duration) -> bool {
        let plan = self.plan;
        if all >= plan.max_runs {
            return false;
        }
        if self.is_sequential {
            return all < plan.min_runs || spent < plan.min_time;
        }
        made < self.block
    }

    fn run_once<L: Launcher>(
        &mut self,
        command: usize,
        round: u32,
        launcher: &mut L,
    ) -> Result<(), L::Error> {
        let run = launcher.run(command, Some(self.runs[command].len()))?;
        // In one piece, the number of the run pairs it with that of the other commands.
        let round = match self.is_sequential {
            true => u32::try_from(self.runs[command].len()).unwrap_or(u32::MAX),
            false => round,
        };
        self.runs[command].add(round, &run);
        Ok(())
    }

    /// Chooses the length of the blocks after the first one: the runs take about as long as the
    /// setup, and the fewest runs make [`BLOCKS`] blocks at most.
    fn choose_block(&mut self) {
        let Some(setup) = self.setup else { return };
        let times: f64 = self.runs.iter().flat_map(CommandRuns::whole_times).sum();
        let made: usize = self.runs.iter().map(CommandRuns::len).sum();
        let one = (times / made.max(1) as f64).max(1e-6);
        // At most 1000 by the minimum.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let by_cost = (setup.as_secs_f64() / one).min(1000.0) as usize;
        let most = (self.plan.max_runs / BLOCKS).max(1);
        self.block = by_cost.max(self.plan.min_runs / BLOCKS).clamp(1, most);
    }

    fn stop<E>(&mut self, rounds: u32, spent: Duration) -> Option<SeriesStop<E>> {
        let plan = self.plan;
        let made = self.runs.iter().map(CommandRuns::len).min().unwrap_or(0);
        if made >= plan.max_runs {
            return Some(SeriesStop::MaxRuns);
        }
        if made < plan.min_runs {
            return None;
        }
        if self.is_sequential {
            return Some(SeriesStop::Settled);
        }
        if plan.commands == 1 {
            return (spent >= plan.min_time).then_some(SeriesStop::Settled);
        }
        let rounds = rounds as usize;
        if rounds >= self.next_check {
            self.next_check = rounds + 1 + rounds / 20;
            if self.are_settled() {
                return Some(SeriesStop::Settled);
            }
        }
        (spent >= plan.max_time).then_some(SeriesStop::MaxTime)
    }

    /// Whether the time ratio of every command to the reference is known well enough.
    fn are_settled(&mut self) -> bool {
        let plan = self.plan;
        let rule = StoppingRule {
            precision: plan.precision,
            time_limits: plan.time_limits.as_deref(),
            seed: plan.seed,
        };
        let reference = self.runs[0].by_round(&Metric::Time);
        let known: Vec<_> = self.runs[1..]
            .iter()
            .map(|runs| {
                let ratio =
                    |(a, b): (&(u32, f64), (u32, f64))| (b.1 + 1e-9).ln() - (a.1 + 1e-9).ln();
                rule.check(reference.iter().zip(runs.by_round(&Metric::Time)).map(ratio).collect())
            })
            .collect();
        let half = |known: &crate::compare::pairs::KnownRatio| {
            known.interval.map_or(f64::INFINITY, |interval| interval.half_width())
        };
        self.half_width = Some(known.iter().map(half).fold(0.0, f64::max));
        known.iter().all(|known| known.settled.is_some())
    }
}

#[cfg(test)]
mod tests {
    use tare_kernel::child::ChildExit;

    use super::*;

    /// Commands that take fixed times, with noise, on a clock that advances with them.
    struct Simulated {
        seconds: Vec<f64>,
        noise: f64,
        setup: f64,
        now: f64,
        rng: Rng,
        log: Vec<String>,
    }

    impl Launcher for Simulated {
        type Error = ();

        fn set_up(&mut self, command: usize) -> Result<(), ()> {
            self.log.push(format!("setup {command}"));
            self.now += self.setup;
            Ok(())
        }

        fn run(&mut self, command: usize, iteration: Option<usize>) -> Result<RunFigures, ()> {
            let word = iteration.map_or_else(|| "warm".to_owned(), |number| number.to_string());
            self.log.push(format!("run {command} {word}"));
            let seconds = self.seconds[command] * (1.0 + self.noise * (self.rng.f64() - 0.5));
            let began = Duration::from_secs_f64(self.now);
            self.now += seconds;
            let elapsed = Duration::from_secs_f64(seconds);
            let exit = ChildExit { elapsed, ..ChildExit::default() };
            Ok(RunFigures { exit, began, ..RunFigures::default() })
        }

        fn clean_up(&mut self, command: usize) -> Result<(), ()> {
            self.log.push(format!("cleanup {command}"));
            Ok(())
        }

        fn now(&mut self) -> Duration {
            Duration::from_secs_f64(self.now)
        }

        fn progress(&mut self, progress: &SeriesProgress<'_>) {
            assert!((0.0..=1.0).contains(&progress.share()));
        }
    }

    fn simulated(seconds: &[f64], noise: f64, setup: f64) -> Simulated {
        let rng = Rng::with_seed(3);
        Simulated { seconds: seconds.to_vec(), noise, setup, now: 0.0, rng, log: Vec::new() }
    }

    fn plan(commands: usize) -> SeriesPlan {
        SeriesPlan {
            commands,
            events: 0,
            warmup: 0,
            min_runs: 10,
            max_runs: 10_000,
            min_time: Duration::from_secs(3),
            max_time: Duration::from_secs(60),
            precision: 0.005,
            time_limits: Some(Vec::new()),
            has_blocks: false,
            seed: 1,
        }
    }

    fn lengths(made: &SeriesRuns<()>) -> Vec<usize> {
        made.runs.iter().map(CommandRuns::len).collect()
    }

    #[test]
    fn a_single_command_runs_for_three_seconds_and_ten_times() {
        let made = make(&plan(1), &mut simulated(&[0.1], 0.1, 0.0));
        assert!((29..=32).contains(&lengths(&made)[0]), "{:?}", lengths(&made));
        let made = make(&plan(1), &mut simulated(&[1.0], 0.1, 0.0));
        assert_eq!((lengths(&made), made.stop), (vec![10], SeriesStop::Settled));
    }

    #[test]
    fn each_round_runs_every_command_once_in_random_order() {
        let mut launcher = simulated(&[0.1, 0.1, 0.1], 2.0, 0.0);
        let fixed = SeriesPlan { min_runs: 40, max_runs: 40, warmup: 2, ..plan(3) };
        let made = make(&fixed, &mut launcher);
        assert_eq!((lengths(&made), made.stop), (vec![40; 3], SeriesStop::MaxRuns));
        assert!(launcher.log[..6].iter().all(|line| line.ends_with("warm")), "{:?}", launcher.log);
        let mut firsts = [0; 3];
        for (number, round) in launcher.log[6..].chunks(3).enumerate() {
            let mut sorted = round.to_vec();
            sorted.sort();
            assert_eq!(sorted, [0, 1, 2].map(|command| format!("run {command} {number}")));
            firsts[round[0].as_bytes()[4] as usize - usize::from(b'0')] += 1;
        }
        assert!(firsts.iter().all(|first| *first > 5), "{firsts:?}");
    }

    #[test]
    fn settled_comparisons_stop_and_open_ones_go_on_to_the_limit() {
        let made = make(&plan(2), &mut simulated(&[0.1, 0.2], 0.1, 0.0));
        assert_eq!(made.stop, SeriesStop::Settled);
        assert!(lengths(&made)[0] < 30, "{:?}", lengths(&made));
        let made = make(&plan(3), &mut simulated(&[0.1, 0.2, 0.1], 2.0, 0.0));
        assert_eq!(made.stop, SeriesStop::MaxTime);
    }

    #[test]
    fn blocks_are_interleaved_each_with_its_setup_and_cleanup() {
        let mut launcher = simulated(&[0.1, 0.1], 0.1, 0.05);
        let blocks = SeriesPlan { has_blocks: true, min_runs: 48, max_runs: 48, ..plan(2) };
        let made = make(&blocks, &mut launcher);
        assert!(!made.is_sequential);
        assert_eq!(lengths(&made), [48, 48]);
        let setups = launcher.log.iter().filter(|line| line.starts_with("setup")).count();
        let cleanups = launcher.log.iter().filter(|line| line.starts_with("cleanup")).count();
        assert!(setups >= 2 * BLOCKS && setups == cleanups, "{setups}, {cleanups}");
        let mut current = None;
        for line in &launcher.log {
            let command = line.split(' ').nth(1).map(ToOwned::to_owned);
            match line.split(' ').next() {
                Some("setup") => current = command,
                _ => assert_eq!(command, current, "{line} in another command's block"),
            }
        }
    }

    #[test]
    fn a_long_setup_makes_the_series_sequential() {
        let mut launcher = simulated(&[0.1, 0.1], 0.1, 30.0);
        let made = make(&SeriesPlan { has_blocks: true, ..plan(2) }, &mut launcher);
        assert!(made.is_sequential && made.stop == SeriesStop::Settled);
        let setups = launcher.log.iter().filter(|line| line.starts_with("setup")).count();
        assert_eq!(setups, 2);
        assert!(lengths(&made).iter().all(|runs| *runs >= 29), "{:?}", lengths(&made));
    }
}
