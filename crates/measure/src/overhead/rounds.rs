//! A command bare and under several profilers, in rounds: every variant once a round, in random
//! order.

use std::time::Duration;

use fastrand::Rng;

use crate::compare::{Measurement, Pair, Side};
use crate::statistics::{TrimmedMean, bootstrap_interval};

/// How many rounds to make.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Rounds before the first that counts.
    pub warmup: usize,
    /// Rounds to make in any case.
    pub min_rounds: usize,
    /// Never more than this.
    pub max_rounds: usize,
    /// No round beyond `min_rounds` starts after this time.
    pub max_time: Duration,
    /// Enough once every profiler's time ratio is known to this half width of its logarithm.
    pub precision: f64,
    /// Decides the order within rounds.
    pub seed: u64,
}

/// Every variant once: the bare command first, then the profilers in their order.
#[derive(Clone, Debug, PartialEq)]
pub struct Round {
    /// The order in which they ran.
    pub order: Vec<usize>,
    /// What each took.
    pub runs: Vec<Measurement>,
}

impl Round {
    /// The bare run and that of one profiler (from 0) as a pair, for
    /// [`judge`](crate::compare::judge).
    #[must_use]
    pub fn pair(&self, profiler: usize) -> Option<Pair> {
        let place = |variant: usize| self.order.iter().position(|at| *at == variant);
        let first = if place(0) < place(profiler + 1) { Side::A } else { Side::B };
        Some(Pair { first, a: self.runs.first()?.clone(), b: self.runs.get(profiler + 1)?.clone() })
    }
}

/// Why no more rounds were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// Every time ratio is known well enough.
    Precise,
    /// `max_rounds` were made.
    MaxRounds,
    /// `max_time` was over.
    MaxTime,
    /// A run failed; its round is dropped.
    Failed(E),
}

/// Makes rounds of `variants` commands, the bare one included; `run` runs one, `now` tells the
/// time.
pub fn make<E>(
    plan: &Plan,
    variants: usize,
    run: &mut dyn FnMut(usize) -> Result<Measurement, E>,
    now: &mut dyn FnMut() -> Duration,
) -> (Vec<Round>, Stop<E>) {
    let mut rng = Rng::with_seed(plan.seed);
    let begin = now();
    let mut rounds = Vec::new();
    for number in 0.. {
        let made = rounds.len();
        if made >= plan.max_rounds {
            return (rounds, Stop::MaxRounds);
        }
        // Checked at growing intervals only: each check is another chance to stop on an interval
        // that is narrow by luck.
        if made >= plan.min_rounds
            && (made - plan.min_rounds).is_multiple_of(1 + made / 20)
            && precise(plan, variants, &rounds)
        {
            return (rounds, Stop::Precise);
        }
        if made >= plan.min_rounds && now().saturating_sub(begin) >= plan.max_time {
            return (rounds, Stop::MaxTime);
        }
        match round(variants, run, &mut rng) {
            Ok(round) if number >= plan.warmup => rounds.push(round),
            Ok(_) => {}
            Err(error) => return (rounds, Stop::Failed(error)),
        }
    }
    (rounds, Stop::MaxRounds)
}

fn round<E>(
    variants: usize,
    run: &mut dyn FnMut(usize) -> Result<Measurement, E>,
    rng: &mut Rng,
) -> Result<Round, E> {
    let mut order: Vec<usize> = (0..variants).collect();
    rng.shuffle(&mut order);
    let mut runs = vec![Measurement::default(); variants];
    for &at in &order {
        runs[at] = run(at)?;
    }
    Ok(Round { order, runs })
}

fn precise(plan: &Plan, variants: usize, rounds: &[Round]) -> bool {
    let seconds = |run: &Measurement| run.elapsed.as_secs_f64().max(1e-9);
    (1..variants).all(|at| {
        let mut logs: Vec<f64> = rounds
            .iter()
            .map(|round| (seconds(&round.runs[at]) / seconds(&round.runs[0])).ln())
            .collect();
        logs.sort_by(f64::total_cmp);
        let roughly = TrimmedMean::of_sorted(&logs).and_then(|trimmed| trimmed.half_width());
        roughly.is_some_and(|half| half <= plan.precision)
            && bootstrap_interval(&logs, &mut Rng::with_seed(plan.seed))
                .is_some_and(|interval| interval.half_width() <= plan.precision)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            warmup: 1,
            min_rounds: 10,
            max_rounds: 60,
            max_time: Duration::from_secs(1000),
            precision: 0.005,
            seed: 1,
        }
    }

    /// The bare command takes a second, each profiler 10% more than the variant before; with this
    /// much noise.
    fn made(plan: &Plan, noise: f64, fails_at: usize) -> (Vec<Round>, Stop<&'static str>, usize) {
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
    fn stops_when_every_ratio_is_known_or_a_limit_is_reached() {
        let (rounds, stop, runs) = made(&plan(), 1e-3, 0);
        assert_eq!((rounds.len(), stop, runs), (10, Stop::Precise, 33));
        assert_eq!(made(&plan(), 0.5, 0).1, Stop::MaxRounds);
        assert_eq!(
            made(&Plan { max_time: Duration::from_secs(50), ..plan() }, 0.5, 0).1,
            Stop::MaxTime
        );
        let (rounds, stop, _) = made(&plan(), 1e-3, 11);
        assert_eq!((rounds.len(), stop), (2, Stop::Failed("failed")));
    }

    #[test]
    fn rounds_become_pairs_with_the_bare_run() {
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
