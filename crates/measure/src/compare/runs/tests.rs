//! Simulated recordings with known differences.

use fastrand::Rng;
use statrs::distribution::{ContinuousCDF, Normal};

use super::*;

/// A program with five functions and some rare ones.
struct SimulatedProgram {
    rng: Rng,
    /// Samples a run.
    samples: f64,
    /// Standard deviation of the machine's speed between runs, a share.
    speed: f64,
    /// Standard deviation of each function's own time, a share.
    own: f64,
}

const WEIGHTS: [f64; 9] = [0.40, 0.25, 0.18, 0.10, 0.05, 0.01, 0.005, 0.003, 0.002];

impl SimulatedProgram {
    fn normal(&mut self) -> f64 {
        Normal::standard().inverse_cdf(self.rng.f64().clamp(1e-9, 1.0 - 1e-9))
    }

    /// Simulates a run in which the first function takes `longer` times its usual time. Returns the
    /// samples of each function.
    fn run(&mut self, longer: f64) -> Vec<f64> {
        // One run in ten has a busy neighbour.
        let stall = if self.rng.f64() < 0.1 { 1.3 } else { 1.0 };
        let speed = (self.speed * self.normal()).exp() * stall;
        let mut weights = Vec::new();
        for (at, weight) in WEIGHTS.iter().enumerate() {
            let longer = if at == 0 { longer } else { 1.0 };
            let mean = weight * longer * speed * (self.own * self.normal()).exp() * self.samples;
            // Approximates a Poisson distribution.
            weights.push((mean + mean.sqrt() * self.normal()).round().max(0.0));
        }
        weights
    }

    /// Simulates runs of both sides. Returns the shares of all functions, then their weights.
    fn series(&mut self, n: [usize; 2], longer: f64) -> Vec<Series> {
        let a: Vec<_> = (0..n[0]).map(|_| self.run(1.0)).collect();
        let b: Vec<_> = (0..n[1]).map(|_| self.run(longer)).collect();
        let values = |runs: &[Vec<f64>], at: usize, is_share: bool| {
            let value = |run: &Vec<f64>| run[at] / if is_share { run.iter().sum() } else { 1.0 };
            runs.iter().map(value).collect()
        };
        let one = |(at, is_share): (usize, bool)| {
            let step = if is_share { 1.0 / self.samples } else { 1.0 };
            Series { a: values(&a, at, is_share), b: values(&b, at, is_share), step }
        };
        let places = [true, false].into_iter().flat_map(|share| (0..9).map(move |at| (at, share)));
        places.map(one).collect()
    }
}

fn machine(seed: u64) -> SimulatedProgram {
    SimulatedProgram { rng: Rng::with_seed(seed), samples: 4000.0, speed: 0.08, own: 0.005 }
}

/// Simulates `count` comparisons, and counts those that satisfy `is_hit`.
fn count_hits(
    count: usize,
    n: [usize; 2],
    longer: f64,
    is_hit: impl Fn(&[Change]) -> bool,
) -> usize {
    let mut machine = machine(3);
    (0..count)
        .filter(|seed| is_hit(&judge_runs(&machine.series(n, longer), *seed as u64).1))
        .count()
}

fn has_significant(changes: &[Change]) -> bool {
    changes.iter().any(|change| change.shown().is_some())
}

#[test]
fn comparing_a_program_with_itself_causes_few_false_alarms() {
    for (count, n) in [(30, [10, 10]), (60, [5, 5]), (100, [3, 3]), (100, [2, 2])] {
        let alarms = count_hits(count, n, 1.0, has_significant);
        assert!(alarms <= 3, "{n:?}: {alarms} of {count}");
    }
}

#[test]
fn finds_a_slower_function_and_its_interval_contains_the_true_change() {
    let is_named = |changes: &[Change]| changes[0].shown() == Some(Direction::More);
    let named = count_hits(20, [10, 10], 1.10, is_named);
    assert!(named >= 17, "{named} of 20");
    let share = 0.44 / 1.04 - 0.4;
    let holds = |changes: &[Change]| {
        let share_in = changes[0].interval.unwrap();
        let ratio = changes[9].ratio.unwrap();
        (share_in.low..=share_in.high).contains(&share) && (ratio.low..=ratio.high).contains(&1.10)
    };
    // Each of the two intervals contains its true change in 95% of comparisons.
    let held = count_hits(40, [10, 10], 1.10, holds);
    assert!(held >= 32, "{held} of 40");
}

#[test]
fn the_smallest_detectable_change_is_found_in_four_of_five_comparisons() {
    let mut machine = machine(5);
    let mut detectable: Vec<f64> = (0..9)
        .map(|seed| judge_runs(&machine.series([10, 10], 1.0), seed).1[0].detectable.unwrap())
        .collect();
    detectable.sort_by(f64::total_cmp);
    // The factor x for which the share s grows by d: s + d = s·x / (1 - s + s·x).
    let share = 0.4 + detectable[4];
    let longer = share * 0.6 / (0.4 * (1.0 - share));
    let named = count_hits(40, [10, 10], longer, |changes| changes[0].shown().is_some());
    assert!((22..=39).contains(&named), "{longer}: {named} of 40");
}

/// Permutations account for the correlation between shares and weights of a function; Holm's
/// correction counts them as separate chances of a false alarm.
#[test]
fn permutations_find_at_least_as_much_as_students_t() {
    let mut machine = machine(11);
    let mut permuted = 0;
    let mut by_t = 0;
    for seed in 0..40 {
        let series = machine.series([10, 10], 1.07);
        let t = series.iter().map(|one| 2.0 * t_above(Spread::from_series(one).t().abs(), 18.0));
        by_t += usize::from(holm(&t.collect::<Vec<_>>())[0] <= FAMILYWISE);
        permuted += usize::from(judge_runs(&series, seed).1[0].shown().is_some());
    }
    println!("{permuted} and {by_t} of 40");
    assert!(permuted >= by_t && permuted >= 20, "{permuted} and {by_t} of 40");
}

#[test]
fn constant_and_zero_series_have_no_change() {
    let same = Series { a: vec![5.0; 6], b: vec![5.0; 6], step: 1.0 };
    let nothing = Series { a: vec![0.0; 6], b: vec![0.0; 6], step: 1.0 };
    let new = Series { a: vec![0.0; 6], b: vec![50.0; 6], step: 1.0 };
    let (method, changes) = judge_runs(&[same, nothing, new], 1);
    assert_eq!(method, Method::Permutations(924));
    assert_eq!(
        changes.iter().map(Change::shown).collect::<Vec<_>>(),
        [None, None, Some(Direction::More)]
    );
    assert_eq!((changes[0].ratio.is_some(), changes[2].ratio), (true, None));
}

#[test]
fn one_run_a_side_is_not_judged() {
    let one = Series { a: vec![5.0], b: vec![50.0], step: 1.0 };
    let (method, changes) = judge_runs(&[one], 1);
    assert_eq!((method, changes[0].p, changes[0].difference()), (Method::Nothing, None, 45.0));
    assert_eq!(judge_runs(&[], 1).0, Method::Nothing);
}
