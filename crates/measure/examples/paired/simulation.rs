//! A simulated noisy machine, and comparisons on it with known answers.

use std::time::Duration;

use fastrand::Rng;
use tare_kernel::child::ChildExit;
use tare_measure::compare::pairs::{self, Bench, ComparisonPlan, Progress};
use tare_measure::compare::{Measurement, Metric, Pair, Rules, Scale, Side, Verdict, judge};
use tare_measure::series::schedule::{self, Launcher, SeriesPlan, SeriesProgress};
use tare_measure::series::{
    CommandInfo, CommandRuns, Comparison, RunFigures, SeriesNotes, SeriesReport, series_metrics,
};
use tare_measure::statistics::{SequentialTest, holm, median, signed_rank};

/// Events in addition to time, CPU time and peak memory: three like the kernel's, and five like
/// hardware counters with their own noise.
const EVENTS: [&str; 8] =
    ["task-clock", "page-faults", "context-switches", "e1", "e2", "e3", "e4", "e5"];

/// The minimum relevant effect, as a share.
pub(crate) const MIN_EFFECT: f64 = 0.01;

/// A machine whose speed drifts (correlated over 30 s) and nearly halves while a neighbour is busy
/// (on and off for 1 s on average). Each run has 2% noise, and one in twenty takes 30% longer on
/// average.
pub(crate) struct SimulatedMachine {
    rng: Rng,
    now: f64,
    drift: f64,
    neighbour: bool,
    changes_at: f64,
}

impl SimulatedMachine {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let drift = 0.15 * normal(&mut rng);
        Self { neighbour: rng.bool(), drift, now: 0.0, changes_at: 0.0, rng }
    }

    fn advance(&mut self, seconds: f64) {
        self.now += seconds;
        let kept = (-seconds / 30.0).exp();
        self.drift = self.drift * kept + 0.15 * (1.0 - kept * kept).sqrt() * normal(&mut self.rng);
        while self.now > self.changes_at {
            self.neighbour = !self.neighbour;
            self.changes_at += exponential(&mut self.rng);
        }
    }

    /// Simulates a run that takes about 10 ms times `work` while the neighbour is idle.
    pub(crate) fn run(&mut self, work: f64) -> Measurement {
        let stall = if self.rng.u8(..20) == 0 { 0.3 * exponential(&mut self.rng) } else { 0.0 };
        let pace = self.drift.exp() * if self.neighbour { 1.8 } else { 1.0 };
        let seconds = 0.01 * work * pace * (0.02 * normal(&mut self.rng)).exp() * (1.0 + stall);
        self.advance(seconds + 0.001);
        let cpu = seconds * 0.98 * (0.002 * normal(&mut self.rng)).exp();
        let rng = &mut self.rng;
        let switches = f64::from(rng.u8(..3)) + if stall > 0.0 { 1.0 } else { 0.0 };
        let mut counts = vec![Some(cpu * 1e9), Some(26.0 + f64::from(rng.u8(..3))), Some(switches)];
        counts.extend(
            (1..=5).map(|i| Some((1e6 * (0.01 * f64::from(i) * normal(rng)).exp()).round())),
        );
        let peak_memory = 1 << 20 | if rng.u8(..10) == 0 { 64 << 10 } else { 0 };
        Measurement {
            elapsed: Duration::from_secs_f64(seconds),
            cpu: Duration::from_secs_f64(cpu),
            peak_memory: Some(peak_memory),
            counts,
            ..Measurement::default()
        }
    }
}

/// A comparison of A, with work 1, and B, with work `ratio`.
pub(crate) struct Simulated {
    machine: SimulatedMachine,
    ratio: f64,
}

impl Simulated {
    pub(crate) fn new(ratio: f64, seed: u64) -> Self {
        Self { machine: SimulatedMachine::new(seed), ratio }
    }
}

impl Bench for Simulated {
    type Error = std::convert::Infallible;

    fn run(&mut self, side: Side) -> Result<Measurement, Self::Error> {
        Ok(self.machine.run(if side == Side::A { 1.0 } else { self.ratio }))
    }

    fn now(&mut self) -> Duration {
        Duration::from_secs_f64(self.machine.now)
    }

    fn progress(&mut self, _: &Progress<'_>) {}
}

fn plan(seed: u64) -> ComparisonPlan {
    let precision = ComparisonPlan::precision_for(MIN_EFFECT);
    ComparisonPlan {
        warmup: 1,
        min_pairs: 10,
        max_pairs: 10_000,
        max_time: Duration::from_secs(60),
        precision,
        time_limits: Some(Vec::new()),
        seed,
    }
}

fn fixed_pairs(ratio: f64, pairs: usize, seed: u64) -> Vec<Pair> {
    pairs::make(
        &ComparisonPlan { min_pairs: pairs, max_pairs: pairs, ..plan(seed) },
        &mut Simulated::new(ratio, seed),
    )
    .0
}

fn metrics() -> Vec<Metric> {
    Metric::all(EVENTS.map(|name| (name.to_owned(), String::new(), 1.0)))
}

/// Computes the signed-rank p of every metric, without correction.
fn p_values(pairs: &[Pair]) -> Vec<f64> {
    let p_value = |metric: &Metric| {
        let differences: Vec<f64> = pairs
            .iter()
            .filter_map(|pair| {
                Some(
                    (1e-9 + metric.value_in(&pair.b)?).ln()
                        - (1e-9 + metric.value_in(&pair.a)?).ln(),
                )
            })
            .collect();
        signed_rank(&differences)
    };
    metrics().iter().map(p_value).collect()
}

fn share(trials: u64, hit: impl FnMut(u64) -> bool) -> f64 {
    (0..trials).map(hit).filter(|hit| *hit).count() as f64 / trials as f64
}

/// Share of comparisons (30 runs each, p < 0.05) that report a difference, by method.
pub(crate) struct Designs {
    /// All runs of A, then all of B, Mann-Whitney.
    pub(crate) blocks: f64,
    /// Pairs in random order, Mann-Whitney.
    pub(crate) unpaired: f64,
    /// Pairs in random order, signed-rank.
    pub(crate) paired: f64,
}

pub(crate) fn designs(ratio: f64, trials: u64) -> Designs {
    let seconds = |runs: Vec<Measurement>| -> Vec<f64> {
        runs.iter().map(|run| run.elapsed.as_secs_f64()).collect()
    };
    let blocks = share(trials, |seed| {
        let mut machine = SimulatedMachine::new(seed);
        let a = seconds((0..30).map(|_| machine.run(1.0)).collect());
        let b = seconds((0..30).map(|_| machine.run(ratio)).collect());
        mann_whitney_differs(&a, &b)
    });
    let unpaired = share(trials, |seed| {
        let (a, b) = fixed_pairs(ratio, 30, seed).into_iter().map(|pair| (pair.a, pair.b)).unzip();
        mann_whitney_differs(&seconds(a), &seconds(b))
    });
    let paired = share(trials, |seed| p_values(&fixed_pairs(ratio, 30, seed))[0] < 0.05);
    Designs { blocks, unpaired, paired }
}

/// Share of comparisons of equal commands with p < 0.05.
pub(crate) struct FalseAlarms {
    /// The time alone, 30 pairs.
    pub(crate) one: f64,
    /// Any metric, 30 pairs, uncorrected.
    pub(crate) any: f64,
    /// Any metric, 30 pairs, Holm.
    pub(crate) any_holm: f64,
    /// The time alone, stopping at the first p < 0.05, tested every 5 pairs from 10 to 200.
    pub(crate) until_significant: f64,
    /// The same with the sequential test, at p < 0.01, tested after every pair up to 200.
    pub(crate) until_sequential: f64,
    /// The time alone, stopping when its interval is narrow enough.
    pub(crate) until_narrow: f64,
}

pub(crate) fn false_alarms(trials: u64) -> FalseAlarms {
    let small = |p: &[f64]| p.iter().any(|p| *p < 0.05);
    let time_p = |pairs: &[Pair]| p_values(pairs)[0];
    FalseAlarms {
        one: share(trials, |seed| time_p(&fixed_pairs(1.0, 30, seed)) < 0.05),
        any: share(trials, |seed| small(&p_values(&fixed_pairs(1.0, 30, seed)))),
        any_holm: share(trials, |seed| small(&holm(&p_values(&fixed_pairs(1.0, 30, seed))))),
        until_significant: share(trials, |seed| {
            let pairs = fixed_pairs(1.0, 200, seed);
            let seconds = |run: &Measurement| run.elapsed.as_secs_f64().ln();
            let differences: Vec<f64> =
                pairs.iter().map(|pair| seconds(&pair.b) - seconds(&pair.a)).collect();
            (10..=200).step_by(5).any(|n| signed_rank(&differences[..n]) < 0.05)
        }),
        until_sequential: share(trials, |seed| {
            let pairs = fixed_pairs(1.0, 200, seed);
            let seconds = |run: &Measurement| run.elapsed.as_secs_f64().ln();
            let differences = pairs.iter().map(|pair| seconds(&pair.b) - seconds(&pair.a));
            SequentialTest::from_differences(&differences.collect::<Vec<f64>>()).p() < 0.01
        }),
        until_narrow: share(trials, |seed| {
            time_p(&pairs::make(&plan(seed), &mut Simulated::new(1.0, seed)).0) < 0.05
        }),
    }
}

/// The verdicts of `tare stat --vs` with its defaults.
#[derive(Default)]
pub(crate) struct Verdicts {
    /// Share of comparisons with 'no difference seen' for the time.
    pub(crate) none: f64,
    /// Share with 'slower' for the time.
    pub(crate) slower: f64,
    /// Share with a verdict of a difference for a metric without one, or of the wrong direction.
    pub(crate) wrong: f64,
    /// Share with a metric that is undecided.
    pub(crate) undecided: f64,
    /// Share of time intervals that contain the true ratio.
    pub(crate) covered: f64,
    /// Median number of pairs.
    pub(crate) pairs: f64,
}

pub(crate) fn verdicts(ratio: f64, trials: u64) -> Verdicts {
    let mut sum = Verdicts::default();
    let mut made = Vec::new();
    for seed in 0..trials {
        let pairs = pairs::make(&plan(seed), &mut Simulated::new(ratio, seed)).0;
        made.push(pairs.len() as f64);
        let judged =
            judge(&pairs, &metrics(), &Rules { min_effect: MIN_EFFECT, seed, comparisons: 1 });
        let one = 1.0 / trials as f64;
        let called = |verdict: Verdict| matches!(verdict, Verdict::Less | Verdict::More);
        // Only time, CPU time and task-clock depend on the work.
        let differs = |metric: &Metric| {
            ratio != 1.0 && ["time", "cpu-time", "task-clock"].contains(&metric.name())
        };
        let add = |to: &mut f64, hit: bool| *to += if hit { one } else { 0.0 };
        add(&mut sum.none, judged[0].verdict == Verdict::NoDifference);
        add(&mut sum.undecided, judged.iter().any(|j| j.verdict == Verdict::Undecided));
        add(&mut sum.slower, judged[0].verdict == Verdict::More);
        add(
            &mut sum.wrong,
            judged
                .iter()
                .any(|j| called(j.verdict) && (!differs(&j.metric) || j.verdict == Verdict::Less)),
        );
        add(
            &mut sum.covered,
            judged[0].effect.interval.is_some_and(|i| i.low <= ratio && ratio <= i.high),
        );
    }
    sum.pairs = median(&made).unwrap_or_default();
    sum
}

/// Returns the median of the ratios that comparisons with this number of pairs state as the
/// smallest detectable, and the share of comparisons that find a difference of that size: 80% if
/// the statement is right.
pub(crate) fn found_at_detectable(pairs: usize, trials: u64) -> (f64, f64) {
    let time = |ratio: f64, seed: u64| {
        judge(
            &fixed_pairs(ratio, pairs, seed),
            &metrics(),
            &Rules { min_effect: MIN_EFFECT, seed, comparisons: 1 },
        )
        .remove(0)
    };
    let detectable: Vec<f64> = (0..trials)
        .filter_map(|seed| {
            let judged = time(1.0, seed);
            judged.effect.detectable.filter(|_| judged.effect.scale == Scale::Ratio)
        })
        .collect();
    let ratio = median(&detectable).unwrap_or(f64::NAN);
    (ratio, share(trials, |seed| time(ratio, trials + seed).verdict == Verdict::More))
}

/// Whether Mann and Whitney's test of two unpaired samples has p < 0.05, by the normal
/// approximation without ties.
fn mann_whitney_differs(a: &[f64], b: &[f64]) -> bool {
    let n = a.len() as f64;
    let m = b.len() as f64;
    let b_above: usize = a.iter().map(|x| b.iter().filter(|y| *y > x).count()).sum();
    let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
    ((b_above as f64 - n * m / 2.0) / deviation).abs() > 1.96
}

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.f64()).ln()
}

/// Results of simulated series of `tare bench`.
#[derive(Debug, Default)]
pub(crate) struct SeriesShares {
    /// Share of series with a verdict of a difference between commands that are equal in it, in any
    /// metric.
    pub(crate) wrong: f64,
    /// Share of series in which the last command is slower in time.
    pub(crate) slower: f64,
    /// Median number of rounds.
    pub(crate) rounds: f64,
}

/// Commands of one work each on a simulated machine.
struct SimulatedSeries {
    machine: SimulatedMachine,
    works: Vec<f64>,
}

impl Launcher for SimulatedSeries {
    type Error = std::convert::Infallible;

    fn set_up(&mut self, _: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    fn run(&mut self, command: usize, _: Option<usize>) -> Result<RunFigures, Self::Error> {
        let run = self.machine.run(self.works[command]);
        let exit = ChildExit {
            elapsed: run.elapsed,
            user: run.cpu,
            peak_memory: run.peak_memory,
            page_faults: 26,
            ..ChildExit::default()
        };
        Ok(RunFigures { exit, ..RunFigures::default() })
    }

    fn clean_up(&mut self, _: usize) -> Result<(), Self::Error> {
        Ok(())
    }

    fn now(&mut self) -> Duration {
        Duration::from_secs_f64(self.machine.now)
    }

    fn progress(&mut self, _: &SeriesProgress<'_>) {}
}

/// Simulates series of `commands` equal commands, of which the last takes `ratio` times as long as
/// the others, with these limits.
pub(crate) fn series(
    commands: usize,
    ratio: f64,
    min_effect: f64,
    max_time: u64,
    trials: u64,
) -> SeriesShares {
    let mut sum = SeriesShares::default();
    let mut rounds = Vec::new();
    for seed in 0..trials {
        let plan = SeriesPlan {
            commands,
            events: 0,
            warmup: 0,
            min_runs: 20,
            max_runs: 1_000_000,
            min_time: Duration::from_secs(3),
            max_time: Duration::from_secs(max_time),
            precision: ComparisonPlan::precision_for(min_effect),
            time_limits: Some(Vec::new()),
            has_blocks: false,
            seed,
        };
        let mut works = vec![1.0; commands];
        works[commands - 1] = ratio;
        let mut launcher = SimulatedSeries { machine: SimulatedMachine::new(seed), works };
        let made = schedule::make(&plan, &mut launcher);
        rounds.push(made.runs.iter().map(CommandRuns::len).min().unwrap_or(0) as f64);
        let verdicts = series_verdicts(plan, made.runs, min_effect);
        let is_equal = |command: usize| ratio == 1.0 || command + 1 < commands;
        let is_called = |verdict: Verdict| matches!(verdict, Verdict::Less | Verdict::More);
        let wrong =
            verdicts.iter().any(|(command, _, verdict)| is_equal(*command) && is_called(*verdict));
        let slower = verdicts.iter().any(|(command, metric, verdict)| {
            command + 1 == commands && *metric == Metric::Time && *verdict == Verdict::More
        });
        let one = 1.0 / trials as f64;
        sum.wrong += if wrong { one } else { 0.0 };
        sum.slower += if slower { one } else { 0.0 };
    }
    sum.rounds = median(&rounds).unwrap_or_default();
    sum
}

/// The verdict on each metric of each command but the first.
fn series_verdicts(
    plan: SeriesPlan,
    runs: Vec<CommandRuns>,
    min_effect: f64,
) -> Vec<(usize, Metric, Verdict)> {
    let mut report = SeriesReport {
        commands: vec![CommandInfo::default(); plan.commands],
        runs,
        metrics: series_metrics(&[]),
        comparisons: Vec::new(),
        baseline: Vec::new(),
        plan,
        min_effect,
        conditions: Vec::new(),
        notes: SeriesNotes {
            stop: schedule::SeriesStop::Settled,
            is_sequential: false,
            spent: Duration::ZERO,
            shell: None,
            machine: Vec::new(),
        },
    };
    report.judge();
    let of = |comparison: &Comparison| {
        let command = comparison.command;
        let verdicts =
            comparison.judged.iter().map(|judged| (command, judged.metric.clone(), judged.verdict));
        verdicts.collect::<Vec<_>>()
    };
    report.comparisons.iter().flat_map(of).collect()
}
