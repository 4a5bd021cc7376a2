//! Makes pairs of runs until the time ratio is known precisely enough, or a limit is reached.

use std::time::Duration;

use fastrand::Rng;

use super::judge::LEVEL;
use super::metric::{Measurement, Pair, Side};
use crate::statistics::{Interval, TrimmedMean, bootstrap_interval, fewest_pairs};

/// A difference is certain once it is this many times the half width of its 95% interval: some 12
/// standard errors, so that checking again and again doesn't find differences between equal
/// commands.
const CERTAIN: f64 = 6.0;

/// How many pairs of runs are made, and in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonPlan {
    /// Runs of each command before the first pair; their results are discarded.
    pub warmup: usize,
    /// Minimum number of pairs.
    pub min_pairs: usize,
    /// Maximum number of pairs.
    pub max_pairs: usize,
    /// After the first `min_pairs`, no pair starts later than this after the start of the warm-up.
    pub max_time: Duration,
    /// Half width of the 95% interval of the time ratio's logarithm that is narrow enough to stop.
    pub precision: f64,
    /// The limits that gates set to the time ratio's logarithm: a comparison that is stopped early
    /// must be on one side of each. `None` if a gate depends on another metric, so that no
    /// comparison is stopped early.
    pub time_limits: Option<Vec<f64>>,
    /// Seed of the order within pairs, and of the bootstrap that computes the precision.
    pub seed: u64,
}

impl ComparisonPlan {
    /// Returns the precision for a minimum relevant effect (a share: 0.01 for 1%): half of its
    /// logarithm, so that the interval of such a difference excludes zero.
    #[must_use]
    pub fn precision_for(min_effect: f64) -> f64 {
        min_effect.ln_1p() / 2.0
    }

    /// Returns the minimum number of pairs with which the p of a difference can fall below 1% after
    /// Holm's correction for this number of metrics.
    #[must_use]
    pub fn fewest_pairs(metrics: usize) -> usize {
        fewest_pairs(LEVEL / metrics.max(1) as f64)
    }

    fn rule(&self) -> StoppingRule<'_> {
        StoppingRule {
            precision: self.precision,
            time_limits: self.time_limits.as_deref(),
            seed: self.seed,
        }
    }
}

/// When the ratio of two commands' times is known well enough.
#[derive(Clone, Copy, Debug)]
pub struct StoppingRule<'a> {
    /// As [`ComparisonPlan::precision`].
    pub precision: f64,
    /// As [`ComparisonPlan::time_limits`].
    pub time_limits: Option<&'a [f64]>,
    /// Seed of the bootstrap.
    pub seed: u64,
}

/// Why a ratio is known well enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Its interval is narrow enough.
    Precise,
    /// The times differ so much that further pairs can't change the verdict.
    Decided,
}

/// What is known about the ratio of two commands' times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KnownRatio {
    /// The 95% interval of its logarithm; `None` if the pairs are too few.
    pub interval: Option<Interval>,
    /// Why it is known well enough, if it is.
    pub settled: Option<Settled>,
}

impl StoppingRule<'_> {
    /// Checks the logarithms of the ratios of all pairs. The bootstrap costs as much as a short
    /// run, so it runs only if the interval by Student's t is a reason to stop.
    #[must_use]
    pub fn check(&self, mut logs: Vec<f64>) -> KnownRatio {
        logs.sort_by(f64::total_cmp);
        let by_t = TrimmedMean::from_sorted(&logs).and_then(|trimmed| {
            let half = trimmed.half_width()?;
            Some(Interval { low: trimmed.mean - half, high: trimmed.mean + half })
        });
        if by_t.and_then(|interval| self.settle(interval)).is_none() {
            return KnownRatio { interval: by_t, settled: None };
        }
        let interval = bootstrap_interval(&logs, &mut Rng::with_seed(self.seed));
        KnownRatio { interval, settled: interval.and_then(|interval| self.settle(interval)) }
    }

    fn settle(&self, interval: Interval) -> Option<Settled> {
        if interval.half_width() <= self.precision {
            return Some(Settled::Precise);
        }
        self.is_decided(interval).then_some(Settled::Decided)
    }

    /// Whether the interval of the time ratio's logarithm makes a relevant difference certain, and
    /// every gate's answer too.
    fn is_decided(&self, interval: Interval) -> bool {
        let Some(limits) = self.time_limits else { return false };
        let nearest = if interval.low > 0.0 { interval.low } else { -interval.high };
        let is_certain = nearest >= (CERTAIN - 1.0) * interval.half_width();
        let is_relevant = nearest >= 2.0 * self.precision;
        let contains = |limit: &f64| interval.low <= *limit && *limit <= interval.high;
        is_certain && is_relevant && !limits.iter().any(contains)
    }
}

/// Runs the commands, reads a clock, and shows the progress.
pub trait Bench {
    /// The reason why a run failed.
    type Error;

    /// Runs one command once.
    ///
    /// # Errors
    /// Fails if the command can't run, or its result must not be used. This ends the comparison.
    fn run(&mut self, side: Side) -> Result<Measurement, Self::Error>;

    /// Time since any fixed point.
    fn now(&mut self) -> Duration;

    /// Called before the first pair and after every complete one.
    fn progress(&mut self, progress: &Progress<'_>);
}

/// Progress of a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress<'a> {
    /// The plan.
    pub plan: &'a ComparisonPlan,
    /// Number of pairs made.
    pub pairs: usize,
    /// Time spent, including the warm-up.
    pub spent: Duration,
    /// Half width of the interval of the time ratio's logarithm, as last computed.
    pub half_width: Option<f64>,
}

impl Progress<'_> {
    /// Estimates the completed share, 0 to 1, by the limit that is nearest. The half width falls
    /// with the root of the number of pairs.
    #[must_use]
    pub fn share(&self) -> f64 {
        let share = |done: f64, all: f64| if all > 0.0 { done / all } else { 1.0 };
        let made = share(self.pairs as f64, self.plan.max_pairs as f64);
        let timed = share(self.spent.as_secs_f64(), self.plan.max_time.as_secs_f64());
        let known = self.half_width.map_or(0.0, |half| {
            if half > 0.0 { (self.plan.precision / half).powi(2) } else { 1.0 }
        });
        let limited = made.max(timed).max(known);
        // The first `min_pairs` are made regardless of the time.
        let first = share(self.pairs as f64, self.plan.min_pairs as f64);
        limited.min(first).min(1.0)
    }
}

/// The reason why no more pairs are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// The time ratio's interval is narrow enough.
    Precise,
    /// The times differ so much that further pairs can't change the verdict.
    Decided,
    /// `max_pairs` were made.
    MaxPairs,
    /// `max_time` has passed.
    MaxTime,
    /// A run failed; its incomplete pair is dropped.
    Failed(E),
}

/// Makes pairs until the plan is fulfilled or a run fails. Returns the complete pairs with the
/// reason for stopping; none if a run of the warm-up fails.
///
/// Significance isn't a reason to stop: it would find differences between equal commands. A
/// difference of twelve standard errors is.
pub fn make<B: Bench>(plan: &ComparisonPlan, bench: &mut B) -> (Vec<Pair>, Stop<B::Error>) {
    let mut rng = Rng::with_seed(plan.seed);
    let begin = bench.now();
    for _ in 0..plan.warmup {
        if let Err(error) = run_pair(&mut rng, bench) {
            return (Vec::new(), Stop::Failed(error));
        }
    }
    let mut pairs = Vec::new();
    let mut half_width = None;
    let mut next_check = plan.min_pairs;
    loop {
        let spent = bench.now().saturating_sub(begin);
        bench.progress(&Progress { plan, pairs: pairs.len(), spent, half_width });
        if pairs.len() >= plan.max_pairs {
            return (pairs, Stop::MaxPairs);
        }
        if pairs.len() >= next_check {
            let known = plan.rule().check(time_ratios(&pairs));
            half_width = known.interval.map(|interval| interval.half_width());
            match known.settled {
                Some(Settled::Precise) => return (pairs, Stop::Precise),
                Some(Settled::Decided) => return (pairs, Stop::Decided),
                None => {}
            }
            // Check again after one pair and 5% more: each check is another chance to stop on an
            // interval that is narrow by luck.
            next_check = pairs.len() + 1 + pairs.len() / 20;
        }
        if pairs.len() >= plan.min_pairs && spent >= plan.max_time {
            return (pairs, Stop::MaxTime);
        }
        match run_pair(&mut rng, bench) {
            Ok(pair) => pairs.push(pair),
            Err(error) => return (pairs, Stop::Failed(error)),
        }
    }
}

/// Runs each command once, in random order.
fn run_pair<B: Bench>(rng: &mut Rng, bench: &mut B) -> Result<Pair, B::Error> {
    if rng.bool() {
        let a = bench.run(Side::A)?;
        Ok(Pair { first: Side::A, a, b: bench.run(Side::B)? })
    } else {
        let b = bench.run(Side::B)?;
        Ok(Pair { first: Side::B, a: bench.run(Side::A)?, b })
    }
}

/// The logarithms of the time ratios of all pairs.
fn time_ratios(pairs: &[Pair]) -> Vec<f64> {
    let seconds = |run: &Measurement| run.elapsed.as_secs_f64().max(1e-9);
    pairs.iter().map(|pair| seconds(&pair.b).ln() - seconds(&pair.a).ln()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Simulated runs of `a` and `b` seconds on average, spread evenly over a range of the share
    /// `noise`, on a clock that advances with them.
    struct SimulatedRuns {
        a: f64,
        b: f64,
        noise: f64,
        rng: Rng,
        now: Duration,
        order: Vec<Side>,
        fail_at: Option<usize>,
        shares: Vec<f64>,
    }

    impl SimulatedRuns {
        fn new(a: f64, b: f64, noise: f64) -> Self {
            Self {
                a,
                b,
                noise,
                rng: Rng::with_seed(9),
                now: Duration::from_secs(100),
                order: vec![],
                fail_at: None,
                shares: vec![],
            }
        }
    }

    impl Bench for SimulatedRuns {
        type Error = &'static str;
        fn run(&mut self, side: Side) -> Result<Measurement, Self::Error> {
            if self.fail_at == Some(self.order.len()) {
                return Err("failed");
            }
            self.order.push(side);
            let mean = if side == Side::A { self.a } else { self.b };
            let elapsed =
                Duration::from_secs_f64(mean * (1.0 + self.noise * (self.rng.f64() - 0.5)));
            self.now += elapsed;
            Ok(Measurement { elapsed, ..Measurement::default() })
        }
        fn now(&mut self) -> Duration {
            self.now
        }
        fn progress(&mut self, progress: &Progress<'_>) {
            self.shares.push(progress.share());
        }
    }

    fn plan() -> ComparisonPlan {
        ComparisonPlan {
            warmup: 0,
            min_pairs: 10,
            max_pairs: 1000,
            max_time: Duration::from_secs(3600),
            precision: 0.005,
            time_limits: Some(Vec::new()),
            seed: 1,
        }
    }

    #[test]
    fn stops_when_precise_but_not_before_the_minimum_of_pairs() {
        let (pairs, stop) = make(&plan(), &mut SimulatedRuns::new(1.0, 1.0, 1e-6));
        assert_eq!((pairs.len(), stop), (10, Stop::Precise));
    }

    #[test]
    fn stops_when_a_large_difference_is_certain() {
        let (pairs, stop) = make(&plan(), &mut SimulatedRuns::new(1.0, 1.25, 0.3));
        assert_eq!(stop, Stop::Decided);
        assert!(pairs.len() < 100, "{} pairs", pairs.len());
        let (_, stop) = make(&plan(), &mut SimulatedRuns::new(1.25, 1.0, 0.3));
        assert_eq!(stop, Stop::Decided);
        let (_, stop) = make(&plan(), &mut SimulatedRuns::new(1.0, 1.01, 0.08));
        assert_eq!(stop, Stop::Precise, "a small difference is measured to the end");
    }

    #[test]
    fn continues_while_a_gate_is_undecided_even_if_the_difference_is_large() {
        let runs = || SimulatedRuns::new(1.0, 1.25, 0.08);
        let with = |limits| make(&ComparisonPlan { time_limits: limits, ..plan() }, &mut runs());
        let (early, stop) = with(Some(vec![1.02_f64.ln()]));
        assert_eq!(stop, Stop::Decided);
        let (longer, _) = with(Some(vec![1.26_f64.ln()]));
        assert!(longer.len() > early.len(), "{} pairs, {}", longer.len(), early.len());
        assert_eq!(with(None).1, Stop::Precise, "a gate depends on another metric");
    }

    #[test]
    fn equal_commands_are_never_certain_to_differ() {
        for seed in 0..200 {
            let mut runs = SimulatedRuns::new(1.0, 1.0, 1.0);
            runs.rng = Rng::with_seed(seed);
            let (_, stop) = make(&ComparisonPlan { max_pairs: 60, seed, ..plan() }, &mut runs);
            assert_eq!(stop, Stop::MaxPairs, "seed {seed}");
        }
    }

    #[test]
    fn stops_at_the_limits_of_pairs_and_time() {
        let (pairs, stop) = make(
            &ComparisonPlan { max_pairs: 13, ..plan() },
            &mut SimulatedRuns::new(1.0, 1.0, 1.0),
        );
        assert_eq!((pairs.len(), stop), (13, Stop::MaxPairs));
        let (pairs, stop) = make(
            &ComparisonPlan { max_time: Duration::from_secs(40), ..plan() },
            &mut SimulatedRuns::new(1.0, 1.0, 1.0),
        );
        assert_eq!(stop, Stop::MaxTime);
        assert!((17..=23).contains(&pairs.len()), "{} pairs of 2 s in 40 s", pairs.len());
        let (pairs, _) = make(
            &ComparisonPlan { max_time: Duration::ZERO, ..plan() },
            &mut SimulatedRuns::new(1.0, 1.0, 1.0),
        );
        assert_eq!(pairs.len(), 10, "the minimum of pairs is made regardless of time");
    }

    #[test]
    fn order_within_pairs_is_random_and_follows_the_seed() {
        let order = |seed| {
            let mut made = SimulatedRuns::new(1.0, 1.0, 1.0);
            make(&ComparisonPlan { warmup: 2, max_pairs: 100, seed, ..plan() }, &mut made);
            made.order
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let order = order(1);
        assert_eq!(order.len(), 204, "2 pairs of warm-up, 100 pairs");
        assert!(order.chunks(2).all(|pair| pair[0] != pair[1]));
        let a_first = order.chunks(2).filter(|pair| pair[0] == Side::A).count();
        assert!((30..=72).contains(&a_first), "{a_first} of 102 pairs began with A");
    }

    #[test]
    fn a_failure_keeps_the_whole_pairs_before_it() {
        let mut made = SimulatedRuns::new(1.0, 1.0, 1.0);
        made.fail_at = Some(7);
        let (pairs, stop) = make(&plan(), &mut made);
        assert_eq!((pairs.len(), stop), (3, Stop::Failed("failed")));
        let mut made = SimulatedRuns::new(1.0, 1.0, 1.0);
        made.fail_at = Some(0);
        let (pairs, stop) = make(&ComparisonPlan { warmup: 1, ..plan() }, &mut made);
        assert_eq!((pairs.len(), stop), (0, Stop::Failed("failed")));
    }

    #[test]
    fn progress_runs_from_0_to_1() {
        let mut made = SimulatedRuns::new(1.0, 1.0, 1.0);
        make(&ComparisonPlan { max_pairs: 20, ..plan() }, &mut made);
        assert_eq!((made.shares[0], made.shares[20]), (0.0, 1.0));
    }

    #[test]
    fn fewest_pairs_grow_with_the_metrics() {
        // With one sign the largest stakes double at nearly every pair, and they are about 2 of 16:
        // 2¹¹ / 16 = 128 > 1 / 0.01.
        assert_eq!([1, 7, 300].map(ComparisonPlan::fewest_pairs), [11, 15, 21]);
    }
}
