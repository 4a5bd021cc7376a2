//! Runs a command bare and under one or more profilers, in rounds: each variant once per round, in
//! random order.

use std::time::Duration;

use fastrand::Rng;

use crate::compare::{Measurement, Pair, Side};
use crate::statistics::{TrimmedMean, bootstrap_interval};

/// How many rounds are made, and in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundPlan {
    /// Rounds before the first that counts.
    pub warmup: usize,
    /// Minimum number of rounds.
    pub min_rounds: usize,
    /// Maximum number of rounds.
    pub max_rounds: usize,
    /// After the first `min_rounds`, no round starts later than this after the start of the
    /// warm-up.
    pub max_time: Duration,
    /// Half width of the 95% interval of each time ratio's logarithm that is narrow enough to stop.
    pub precision: f64,
    /// Seed of the order within rounds, and of the bootstrap that computes the precision.
    pub seed: u64,
}

/// A run of each variant: 0 is the bare command, then the profilers follow.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfiledRound {
    /// The variants in the order in which they ran.
    pub order: Vec<usize>,
    /// The measurement of each variant.
    pub runs: Vec<Measurement>,
}

impl ProfiledRound {
    /// Pairs the bare run with that of a profiler (from 0), for [`judge`](crate::compare::judge);
    /// `None` if there is no such profiler.
    #[must_use]
    pub fn pair(&self, profiler: usize) -> Option<Pair> {
        let place = |variant: usize| self.order.iter().position(|at| *at == variant);
        let first = if place(0) < place(profiler + 1) { Side::A } else { Side::B };
        Some(Pair { first, a: self.runs.first()?.clone(), b: self.runs.get(profiler + 1)?.clone() })
    }
}

/// The reason why no more rounds were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// Every time ratio's interval is narrow enough.
    Precise,
    /// `max_rounds` were made.
    MaxRounds,
    /// `max_time` has passed.
    MaxTime,
    /// A run failed; its round is dropped.
    Failed(E),
}

/// Makes rounds of `variants` commands, including the bare one, until the plan is fulfilled or a
/// run fails. `run` runs a variant, and `now` reads a clock.
pub fn make<E>(
    plan: &RoundPlan,
    variants: usize,
    run: &mut dyn FnMut(usize) -> Result<Measurement, E>,
    now: &mut dyn FnMut() -> Duration,
) -> (Vec<ProfiledRound>, Stop<E>) {
    let mut rng = Rng::with_seed(plan.seed);
    let begin = now();
    let mut rounds = Vec::new();
    for number in 0.. {
        let made = rounds.len();
        if made >= plan.max_rounds {
            return (rounds, Stop::MaxRounds);
        }
        // Checked less often as rounds are made: each check is another chance to stop on an
        // interval that is narrow by luck.
        if made >= plan.min_rounds
            && (made - plan.min_rounds).is_multiple_of(1 + made / 20)
            && is_precise(plan, variants, &rounds)
        {
            return (rounds, Stop::Precise);
        }
        if made >= plan.min_rounds && now().saturating_sub(begin) >= plan.max_time {
            return (rounds, Stop::MaxTime);
        }
        match run_round(variants, run, &mut rng) {
            Ok(round) if number >= plan.warmup => rounds.push(round),
            Ok(_) => {}
            Err(error) => return (rounds, Stop::Failed(error)),
        }
    }
    (rounds, Stop::MaxRounds)
}

fn run_round<E>(
    variants: usize,
    run: &mut dyn FnMut(usize) -> Result<Measurement, E>,
    rng: &mut Rng,
) -> Result<ProfiledRound, E> {
    let mut order: Vec<usize> = (0..variants).collect();
    rng.shuffle(&mut order);
    let mut runs = vec![Measurement::default(); variants];
    for &at in &order {
        runs[at] = run(at)?;
    }
    Ok(ProfiledRound { order, runs })
}

fn is_precise(plan: &RoundPlan, variants: usize, rounds: &[ProfiledRound]) -> bool {
    let seconds = |run: &Measurement| run.elapsed.as_secs_f64().max(1e-9);
    (1..variants).all(|at| {
        let mut logs: Vec<f64> = rounds
            .iter()
            .map(|round| (seconds(&round.runs[at]) / seconds(&round.runs[0])).ln())
            .collect();
        logs.sort_by(f64::total_cmp);
        let roughly = TrimmedMean::from_sorted(&logs).and_then(|trimmed| trimmed.half_width());
        roughly.is_some_and(|half| half <= plan.precision)
            && bootstrap_interval(&logs, &mut Rng::with_seed(plan.seed))
                .is_some_and(|interval| interval.half_width() <= plan.precision)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> RoundPlan {
        RoundPlan {
            warmup: 1,
            min_rounds: 10,
            max_rounds: 60,
            max_time: Duration::from_secs(1000),
            precision: 0.005,
            seed: 1,
        }
    }

    /// Makes rounds in which the bare command takes a second and each of two profilers 10% more
    /// than the variant before, with noise. Returns the number of runs too; the one of number
    /// `fails_at` fails.
    fn made(
        plan: &RoundPlan,
        noise: f64,
        fails_at: usize,
    ) -> (Vec<ProfiledRound>, Stop<&'static str>, usize) {
        let mut rng = Rng::with_seed(2);
        let mut runs = 0;
        let clock = std::cell::Cell::new(Duration::ZERO);
        let mut run = |at: usize| {
            runs += 1;
            let elapsed =
                Duration::from_secs_f64(1.1f64.powf(at as f64) * (1.0 + noise * (rng.f64() - 0.5)));
            clock.set(clock.get() + elapsed);
            if runs == fails_at {
                Err("failed")
            } else {
                Ok(Measurement { elapsed, ..Measurement::default() })
            }
        };
        let (rounds, stop) = make(plan, 3, &mut run, &mut || clock.get());
        (rounds, stop, runs)
    }

    #[test]
    fn stops_when_every_ratio_is_precise_or_at_a_limit() {
        let (rounds, stop, runs) = made(&plan(), 1e-3, 0);
        assert_eq!((rounds.len(), stop, runs), (10, Stop::Precise, 33));
        assert_eq!(made(&plan(), 0.5, 0).1, Stop::MaxRounds);
        assert_eq!(
            made(&RoundPlan { max_time: Duration::from_secs(50), ..plan() }, 0.5, 0).1,
            Stop::MaxTime
        );
        let (rounds, stop, _) = made(&plan(), 1e-3, 11);
        assert_eq!((rounds.len(), stop), (2, Stop::Failed("failed")));
    }

    #[test]
    fn pairs_the_bare_run_with_a_profiler() {
        let (rounds, ..) = made(&plan(), 1e-3, 0);
        for round in &rounds {
            let pair = round.pair(1).unwrap();
            assert!(
                (pair.b.elapsed.as_secs_f64() / pair.a.elapsed.as_secs_f64() - 1.21).abs() < 0.01
            );
            assert_eq!(
                pair.first == Side::A,
                round.order.iter().find(|at| [0, 2].contains(*at)) == Some(&0)
            );
        }
        assert_eq!(rounds[0].pair(2), None);
    }
}
