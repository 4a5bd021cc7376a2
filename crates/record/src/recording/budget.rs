//! Chooses the sampling rate that keeps within a budget, from the cost of samples and the
//! recorder's measured CPU time. It does no I/O.
//!
//! Rates are steps, the requested one first. A step's cost is the share of a fully busy CPU that
//! samples take at that rate, which is the most that any CPU loses. Samples that interrupt the
//! kernel cost more than the user-mode loops with which costs were measured; the latest samples
//! show how much more. The recorder's CPU time, spread over the recorded CPUs, is added.

use std::time::Duration;

/// Share of the budget to which predictions are limited, as they have errors.
const MARGIN: f64 = 0.9;
/// A faster step is taken if one costs at most this share of the remaining budget.
const ROOM: f64 = 0.9;
/// Weight of the latest observation in the recorder's share.
const LATEST: f64 = 0.3;
/// Factor by which the weight of earlier samples falls per observation.
const EARLIER: f64 = 0.8;
/// An observation of n times this length counts as n, a shorter one as one.
const LOOK: Duration = Duration::from_millis(500);
/// Observations at a step before a faster one is tried. The number doubles each time that a try
/// fails, up to the second constant.
const PATIENCE: u32 = 8;
const MOST_PATIENCE: u32 = 256;

/// Measurements since the last observation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Observation {
    /// How long events were enabled.
    pub(super) enabled: Duration,
    /// The recorder's CPU time.
    pub(super) recorder: Duration,
    /// Number of times that the kernel throttled an event.
    pub(super) throttled: u64,
    /// Cost of the samples.
    pub(super) samples: SamplesCost,
}

/// Cost of samples, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SamplesCost {
    /// As if all of them had interrupted a loop in user mode.
    pub(super) of_loops: f64,
    /// With the higher cost of samples that interrupted the kernel.
    pub(super) all: f64,
}

/// Chooses steps.
#[derive(Debug)]
pub(super) struct Controller {
    budget: f64,
    /// Share of a busy CPU's time by step, descending; for a loop in user mode.
    costs: Vec<f64>,
    /// Cost of the samples, weighted towards the latest.
    samples: SamplesCost,
    cpus: usize,
    step: usize,
    /// The recorder's share of the recorded CPUs' time, weighted towards the latest; `None` before
    /// the first observation.
    recorder: Option<f64>,
    observations_here: u32,
    patience: u32,
    /// Whether the last change was to a faster step.
    tried: bool,
}

impl Controller {
    /// `budget` and `costs` are shares. The first step is chosen from the costs alone.
    pub(super) fn new(budget: f64, costs: Vec<f64>, cpus: usize) -> Self {
        let mut new = Self {
            budget,
            costs,
            samples: SamplesCost::default(),
            cpus: cpus.max(1),
            step: 0,
            recorder: None,
            observations_here: 0,
            patience: PATIENCE,
            tried: false,
        };
        new.step = new.fastest_within(MARGIN * budget);
        new
    }

    /// Index of the step to sample at; 0 is the fastest.
    pub(super) fn step(&self) -> usize {
        self.step
    }

    /// Ratio of the samples' cost to that of samples of a loop, at least 1.
    fn kernel_cost_ratio(&self) -> f64 {
        let SamplesCost { of_loops, all } = self.samples;
        if of_loops > 0.0 { (all / of_loops).max(1.0) } else { 1.0 }
    }

    /// Returns the fastest step that costs at most `share`, or the slowest.
    fn fastest_within(&self, share: f64) -> usize {
        self.costs
            .iter()
            .position(|cost| cost * self.kernel_cost_ratio() <= share)
            .unwrap_or(self.costs.len().saturating_sub(1))
    }

    /// Whether even the slowest step exceeds the budget; it is used all the same.
    pub(super) fn is_floor_over_budget(&self) -> bool {
        self.costs.last().is_some_and(|cost| {
            cost * self.kernel_cost_ratio() + self.recorder.unwrap_or(0.0) > self.budget
        })
    }

    /// Takes in an observation. Returns whether the step changed.
    pub(super) fn observe(&mut self, seen: Observation) -> bool {
        if seen.enabled.is_zero() {
            return false;
        }
        let share = seen.recorder.as_secs_f64() / (seen.enabled.as_secs_f64() * self.cpus as f64);
        let recorder = self.recorder.map_or(share, |before| before + LATEST * (share - before));
        self.recorder = Some(recorder);
        let weigh = |before: f64, latest: f64| EARLIER * before + latest;
        self.samples.of_loops = weigh(self.samples.of_loops, seen.samples.of_loops);
        self.samples.all = weigh(self.samples.all, seen.samples.all);
        let looks = u32::try_from(seen.enabled.as_millis() / LOOK.as_millis()).unwrap_or(u32::MAX);
        self.observations_here = self.observations_here.saturating_add(looks.max(1));
        let left = MARGIN * self.budget - recorder;
        let slowest = self.costs.len().saturating_sub(1);
        // If the kernel throttles, this step is too fast, whatever was predicted.
        let needed = if seen.throttled > 0 {
            self.fastest_within(left).max((self.step + 1).min(slowest))
        } else {
            self.fastest_within(left)
        };
        let next = if needed > self.step {
            if std::mem::take(&mut self.tried) {
                self.patience = (2 * self.patience).min(MOST_PATIENCE);
            }
            needed
        } else if self.observations_here >= self.patience
            && self.fastest_within(ROOM * left) < self.step
        {
            self.tried = true;
            self.step - 1
        } else {
            return false;
        };
        self.observations_here = 0;
        std::mem::replace(&mut self.step, next) != next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 1000 Hz and slower by halves, at 10 us: 1%, 0.5%, 0.25%, 0.125%.
    fn costs() -> Vec<f64> {
        vec![0.01, 0.005, 0.0025, 0.00125]
    }

    fn observation_of(ms: u64) -> Observation {
        Observation {
            enabled: Duration::from_millis(ms),
            recorder: Duration::ZERO,
            throttled: 0,
            samples: SamplesCost::default(),
        }
    }

    /// Makes observations of 250 ms on two CPUs; the recorder uses the returned share of their
    /// time. Returns how many of them changed the step.
    fn observations(
        controller: &mut Controller,
        number: usize,
        recorder: impl Fn(usize) -> f64,
    ) -> usize {
        let seen = |share: f64| Observation {
            recorder: Duration::from_secs_f64(share * 0.5),
            ..observation_of(250)
        };
        (0..number).filter(|look| controller.observe(seen(recorder(*look)))).count()
    }

    #[test]
    fn slows_down_at_once_and_speeds_up_with_patience() {
        let mut controller = Controller::new(0.01, costs(), 2);
        assert_eq!(controller.step(), 1, "1% is not below 90% of 1%");
        assert_eq!(observations(&mut controller, 4, |_| 0.0002), 0);
        observations(&mut controller, 12, |_| 0.005);
        assert_eq!(controller.step(), 2);
        assert!(!controller.is_floor_over_budget());
        observations(&mut controller, 40, |_| 0.0002);
        assert_eq!(controller.step(), 1);
    }

    #[test]
    fn a_long_observation_counts_as_several() {
        let seen_in_4_looks = |look_ms| {
            let mut controller = Controller::new(0.01, costs(), 2);
            observations(&mut controller, 1, |_| 0.005);
            assert_eq!(controller.step(), 2);
            (0..4).for_each(|_| _ = controller.observe(observation_of(look_ms)));
            controller.step()
        };
        assert_eq!((seen_in_4_looks(250), seen_in_4_looks(2000)), (2, 1));
    }

    #[test]
    fn an_idle_program_keeps_its_rate() {
        let mut controller = Controller::new(0.02, costs(), 2);
        assert_eq!((observations(&mut controller, 200, |_| 0.0005), controller.step()), (0, 0));
    }

    #[test]
    fn noise_rarely_changes_the_step() {
        let mut rng = fastrand::Rng::with_seed(1);
        let noise: Vec<f64> = (0..400).map(|_| 0.0035 + 0.003 * (rng.f64() - 0.5)).collect();
        let mut controller = Controller::new(0.01, costs(), 2);
        let changes = observations(&mut controller, 400, |look| noise[look]);
        assert!(changes <= 12, "{changes} in 100 seconds");
        assert!((1..=2).contains(&controller.step()));
    }

    #[test]
    fn the_slowest_step_is_used_if_none_fits_the_budget() {
        let mut tight = Controller::new(0.001, costs(), 2);
        assert_eq!((tight.step(), tight.is_floor_over_budget()), (3, true));
        observations(&mut tight, 50, |_| 0.0);
        assert_eq!(tight.step(), 3);
        let mut busy = Controller::new(0.01, costs(), 2);
        observations(&mut busy, 50, |_| 0.02);
        assert_eq!(
            (busy.step(), busy.is_floor_over_budget()),
            (3, true),
            "the recorder alone uses more"
        );
    }

    #[test]
    fn kernel_samples_slow_it_down_while_they_last() {
        let mut controller = Controller::new(0.01, costs(), 2);
        let seen = |all| Observation {
            samples: SamplesCost { of_loops: 1000.0, all },
            ..observation_of(250)
        };
        assert!(controller.observe(seen(1990.0)), "0.5% is now nearly 1%");
        assert_eq!(controller.step(), 2);
        assert!((0..20).all(|_| !controller.observe(seen(1990.0))));
        assert_eq!((0..40).filter(|_| controller.observe(seen(1010.0))).count(), 1);
        assert_eq!(controller.step(), 1);
        let mut tight = Controller::new(0.002, costs(), 2);
        assert!(
            !tight.is_floor_over_budget()
                && !tight.observe(seen(1990.0))
                && tight.is_floor_over_budget()
        );
    }

    #[test]
    fn throttling_slows_it_down_whatever_was_predicted() {
        let mut controller = Controller::new(0.5, costs(), 2);
        assert_eq!(controller.step(), 0);
        assert!(controller.observe(Observation { throttled: 3, ..observation_of(250) }));
        assert_eq!(controller.step(), 1);
        assert!(
            !controller.observe(Observation { throttled: 1, ..observation_of(0) }),
            "nothing was on"
        );
    }
}
