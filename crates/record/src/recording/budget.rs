//! Chooses the sampling rate that keeps within a budget, from the cost of samples and the
//! recorder's measured CPU time. It does no I/O.
//!
//! Rates are steps, the requested one first. A step's cost is the share of a fully busy CPU that
//! samples take at that rate, which is the most that any CPU loses. Samples that interrupt the
//! kernel cost more than the user-mode loops with which costs were measured; the latest samples
//! show how much more. The recorder's CPU time, spread over the recorded CPUs, is added.

use std::time::Duration;

use tare_format::ledger::SlowRateCause;

/// Share of the budget to which predictions are limited, as they have errors.
const MARGIN: f64 = 0.9;
/// A faster step is taken if one costs at most this share of the remaining budget.
const ROOM: f64 = 0.9;
/// Time over which the recorder's share is averaged: the weight of earlier observations falls by e.
/// The recorder works in bursts, for example when it reads the symbols of a new program.
const MEMORY: Duration = Duration::from_secs(4);
/// Factor by which the weight of earlier samples falls per observation.
const EARLIER: f64 = 0.8;
/// An observation of n times this length counts as n, a shorter one as one.
const LOOK: Duration = Duration::from_millis(500);
/// Observations at a step before a faster one is tried. The number doubles each time that a try of
/// the next step fails, up to the second constant.
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
    /// Whether unwinding doesn't keep up: the recorder would soon leave call chains as they are.
    pub(super) is_behind: bool,
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
    /// The recorder's share of the recorded CPUs' time.
    recorder: LatestMean,
    observations_here: u32,
    patience: u32,
    /// Whether the last change was to the next faster step, without the certainty that it fits.
    tried: bool,
    /// Why a slower step was taken last.
    slowed_by: SlowRateCause,
}

/// A mean over time, weighted towards the latest. The time before the first observation counts as
/// [`LatestMean::UNSEEN`] of 0.
#[derive(Debug)]
struct LatestMean {
    sum: f64,
    weight: f64,
}

impl LatestMean {
    const UNSEEN: Duration = Duration::from_millis(500);

    fn new() -> Self {
        Self { sum: 0.0, weight: Self::weight(Self::UNSEEN) }
    }

    /// Returns the weight of a time, of 1 for an endless one.
    fn weight(time: Duration) -> f64 {
        -(-time.as_secs_f64() / MEMORY.as_secs_f64()).exp_m1()
    }

    fn add(&mut self, value: f64, time: Duration) {
        let weight = Self::weight(time);
        self.sum = self.sum * (1.0 - weight) + value * weight;
        self.weight = self.weight * (1.0 - weight) + weight;
    }

    fn mean(&self) -> f64 {
        self.sum / self.weight
    }
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
            recorder: LatestMean::new(),
            observations_here: 0,
            patience: PATIENCE,
            tried: false,
            slowed_by: SlowRateCause::Samples,
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

    /// Returns the fastest step that fits even if the recorder's time rises with the rate.
    fn fastest_certain(&self, share: f64) -> usize {
        let Some(here) = self.costs.get(self.step).filter(|cost| **cost > 0.0) else {
            return self.step;
        };
        let of_loops = self.kernel_cost_ratio();
        let recorder_of_here = self.recorder.mean() / here;
        self.costs
            .iter()
            .position(|cost| cost * (of_loops + recorder_of_here) <= share)
            .map_or(self.step, |step| step.min(self.step))
    }

    /// Returns the reason why the step isn't the fastest; `None` if it is.
    pub(super) fn slow_cause(&self) -> Option<SlowRateCause> {
        if self.step == 0 {
            None
        } else if self.step <= self.fastest_within(MARGIN * self.budget) {
            Some(SlowRateCause::Samples)
        } else {
            Some(self.slowed_by)
        }
    }

    /// Whether even the slowest step exceeds the budget; it is used all the same.
    pub(super) fn is_floor_over_budget(&self) -> bool {
        self.costs.last().is_some_and(|cost| {
            cost * self.kernel_cost_ratio() + self.recorder.mean() > self.budget
        })
    }

    /// Takes in an observation. Returns whether the step changed.
    pub(super) fn observe(&mut self, seen: Observation) -> bool {
        if seen.enabled.is_zero() {
            return false;
        }
        let share = seen.recorder.as_secs_f64() / (seen.enabled.as_secs_f64() * self.cpus as f64);
        self.recorder.add(share, seen.enabled);
        let weigh = |before: f64, latest: f64| EARLIER * before + latest;
        self.samples.of_loops = weigh(self.samples.of_loops, seen.samples.of_loops);
        self.samples.all = weigh(self.samples.all, seen.samples.all);
        let looks = u32::try_from(seen.enabled.as_millis() / LOOK.as_millis()).unwrap_or(u32::MAX);
        self.observations_here = self.observations_here.saturating_add(looks.max(1));
        let left = MARGIN * self.budget - self.recorder.mean();
        let slowest = self.costs.len().saturating_sub(1);
        // If the kernel throttles, or unwinding doesn't keep up, this step is too fast, whatever was
        // predicted.
        let needed = if seen.throttled > 0 || seen.is_behind {
            self.fastest_within(left).max((self.step + 1).min(slowest))
        } else {
            self.fastest_within(left)
        };
        let next = if needed > self.step {
            let has_failed_at_once = self.observations_here <= 2 * PATIENCE;
            if std::mem::take(&mut self.tried) && has_failed_at_once {
                self.patience = (2 * self.patience).min(MOST_PATIENCE);
            }
            self.slowed_by = if seen.throttled > 0 {
                SlowRateCause::Throttling
            } else {
                SlowRateCause::Recorder
            };
            needed
        } else if let Some(faster) = self.faster(left) {
            faster
        } else {
            return false;
        };
        self.observations_here = 0;
        std::mem::replace(&mut self.step, next) != next
    }

    /// Returns a faster step to take now: one that certainly fits, or the next one, for a try.
    fn faster(&mut self, left: f64) -> Option<usize> {
        let certain = self.fastest_certain(ROOM * MARGIN * self.budget);
        if certain < self.step && self.observations_here >= PATIENCE {
            self.tried = false;
            self.patience = PATIENCE;
            return Some(certain);
        }
        if self.observations_here < self.patience || self.fastest_within(ROOM * left) >= self.step {
            return None;
        }
        self.tried = true;
        Some(self.step - 1)
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
            is_behind: false,
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
    fn slows_down_within_seconds_and_speeds_up_with_patience() {
        let mut controller = Controller::new(0.01, costs(), 2);
        assert_eq!(controller.step(), 1, "1% is not below 90% of 1%");
        assert_eq!(observations(&mut controller, 4, |_| 0.0002), 0);
        observations(&mut controller, 24, |_| 0.005);
        assert_eq!(controller.step(), 2);
        assert!(!controller.is_floor_over_budget());
        observations(&mut controller, 40, |_| 0.0002);
        assert_eq!(controller.step(), 1);
    }

    #[test]
    fn a_long_observation_counts_as_several() {
        let seen_in_4_looks = |look_ms| {
            let mut controller = Controller::new(0.01, costs(), 2);
            observations(&mut controller, 7, |_| 0.005);
            assert_eq!(controller.step(), 2);
            (0..4).for_each(|_| _ = controller.observe(observation_of(look_ms)));
            controller.step()
        };
        assert_eq!((seen_in_4_looks(250), seen_in_4_looks(2000)), (2, 1));
    }

    /// 999 Hz and slower by factors of two thirds, down to 19 Hz, at 7 us.
    fn costs_of_top() -> Vec<f64> {
        let hz = [999.0, 666.0, 444.0, 296.0, 197.0, 131.0, 87.0, 58.0, 38.0, 25.0, 19.0];
        hz.map(|hz| hz * 7e-6).to_vec()
    }

    #[test]
    fn recovers_within_seconds_after_a_burst_of_work() {
        let mut controller = Controller::new(0.01, costs_of_top(), 2);
        assert_eq!(controller.step(), 0);
        observations(&mut controller, 40, |_| 0.0005);
        observations(&mut controller, 4, |_| 0.1);
        assert_eq!(
            (controller.step(), controller.slow_cause()),
            (10, Some(SlowRateCause::Recorder))
        );
        let quiet = |controller: &mut Controller, seconds: usize| {
            observations(controller, 4 * seconds, |_| 0.0005);
            controller.step()
        };
        assert!(quiet(&mut controller, 20) < 5, "at {}", controller.step());
        assert_eq!(quiet(&mut controller, 20), 0);
        assert_eq!(controller.slow_cause(), None);
    }

    #[test]
    fn short_bursts_of_work_leave_the_rate_usable() {
        let mut controller = Controller::new(0.01, costs_of_top(), 2);
        // 5% in a quarter of a second every ten, 0.2% on average.
        let mut slow = 0;
        for look in 0..4 * 300 {
            observations(&mut controller, 1, |_| if look % 40 == 5 { 0.05 } else { 0.001 });
            slow += usize::from(controller.step() > 3);
        }
        assert!(slow < 120, "below 296 Hz in {slow} of 1200 observations");
    }

    #[test]
    fn samples_that_are_too_expensive_are_the_cause_of_a_slow_rate() {
        let controller = Controller::new(0.001, costs_of_top(), 2);
        assert_eq!((controller.step(), controller.slow_cause()), (6, Some(SlowRateCause::Samples)));
    }

    #[test]
    fn unwinding_that_does_not_keep_up_lowers_the_rate() {
        let mut controller = Controller::new(0.02, costs(), 2);
        assert_eq!(controller.step(), 0);
        let behind = Observation { is_behind: true, ..observation_of(250) };
        assert!(controller.observe(behind) && controller.observe(behind));
        assert_eq!(
            (controller.step(), controller.slow_cause()),
            (2, Some(SlowRateCause::Recorder))
        );
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
