//! Measures what a loop loses to sampling, by short slices with sampling on and off in random
//! order.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tare_kernel::schedule;

use super::load::{Load, LoadKind};
use super::plan::StudyPlan;
use super::sampler::{DeliveredSamples, Sampler, SamplerError};
use super::stolen::Clock;
use crate::statistics::estimate;
use tare_format::ledger::Estimate;

/// A profiler or event that can be enabled for one slice and disabled for another.
pub trait Switch {
    /// Starts sampling, and waits until it has started.
    ///
    /// # Errors
    /// Fails if the profiler has exited or doesn't answer, or the event can't be enabled.
    fn on(&mut self) -> Result<(), SwitchError>;

    /// Stops sampling, and waits until it has stopped.
    ///
    /// # Errors
    /// Fails if the profiler has exited or doesn't answer, or the event can't be disabled.
    fn off(&mut self) -> Result<(), SwitchError>;
}

/// A failure to switch sampling on or off.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The event under study failed.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// A profiler failed.
    #[error("{0}")]
    Profiler(String),
}

/// The event without a profiler: the minimum cost of any profiler.
#[derive(Debug)]
pub struct EventAlone {
    sampler: Sampler,
    /// Samples delivered so far.
    pub delivered: DeliveredSamples,
}

impl EventAlone {
    /// Wraps an open event.
    #[must_use]
    pub fn new(sampler: Sampler) -> Self {
        Self { sampler, delivered: DeliveredSamples::default() }
    }
}

impl Switch for EventAlone {
    fn on(&mut self) -> Result<(), SwitchError> {
        Ok(self.sampler.on()?)
    }

    fn off(&mut self) -> Result<(), SwitchError> {
        self.sampler.off()?;
        self.delivered.add(&self.sampler.take());
        Ok(())
    }
}

/// What a loop lost to a profiler, or to the event alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// The loop.
    pub load: LoadKind,
    /// The profiler; `events` for the event alone.
    pub profiler: String,
    /// The share of its passes that the loop lost.
    pub lost: Estimate,
    /// The loss beyond that of the event alone, as a trimmed mean over the rounds; `None` for the
    /// event alone.
    pub beyond_events: Option<Estimate>,
    /// The share lost in each round; empty in stored studies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
}

/// Measures the losses of a loop in rounds. Each round has a slice without sampling and one for
/// each switch, in random order. `step` is called after each round; if it returns false, the result
/// is `None`.
///
/// # Errors
/// Fails if a switch fails.
pub fn measure_losses(
    plan: &StudyPlan,
    kind: LoadKind,
    switches: &mut [(String, &mut dyn Switch)],
    clock: &Clock,
    rng: &mut Rng,
    step: &mut dyn FnMut() -> bool,
) -> Result<Option<Vec<Loss>>, SwitchError> {
    let ticks = clock.ticks_in(plan.slice_ns);
    let mut load = Load::new(kind, plan.seed);
    let mut rounds = vec![Vec::with_capacity(plan.pairs); switches.len()];
    // The last index is the slice without sampling.
    let mut order: Vec<usize> = (0..=switches.len()).collect();
    let mut speeds = vec![0.0; order.len()];
    load.run(ticks);
    for _ in 0..plan.pairs {
        rng.shuffle(&mut order);
        for &at in &order {
            let _priority = schedule::real_time();
            if let Some((_, switch)) = switches.get_mut(at) {
                switch.on()?;
            }
            speeds[at] = load.run(ticks).speed;
            if let Some((_, switch)) = switches.get_mut(at) {
                switch.off()?;
            }
        }
        let without = speeds[switches.len()];
        for (rounds, speed) in rounds.iter_mut().zip(&speeds) {
            rounds.push(1.0 - speed / without);
        }
        if !step() {
            return Ok(None);
        }
    }
    let names = switches.iter().map(|(name, _)| name.clone());
    Ok(Some(
        names
            .enumerate()
            .filter_map(|(at, name)| Loss::from_rounds(kind, name, &rounds, at, rng))
            .collect(),
    ))
}

impl Loss {
    fn from_rounds(
        load: LoadKind,
        profiler: String,
        rounds: &[Vec<f64>],
        at: usize,
        rng: &mut Rng,
    ) -> Option<Self> {
        let lost = estimate(rounds[at].iter().copied(), rng)?;
        let beyond = rounds[at].iter().zip(&rounds[0]).map(|(with, alone)| with - alone);
        let beyond_events = if at > 0 { estimate(beyond, rng) } else { None };
        Some(Self { load, profiler, lost, beyond_events, rounds: rounds[at].clone() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overhead::plan::CallGraph;
    use tare_events::Event;
    use tare_format::abi::Attr;

    /// Counts how often it was switched on and off. Switching it off fails at the 30th time.
    #[derive(Default)]
    struct CountingSwitch {
        on: u32,
        off: u32,
    }

    impl Switch for CountingSwitch {
        fn on(&mut self) -> Result<(), SwitchError> {
            self.on += 1;
            Ok(())
        }
        fn off(&mut self) -> Result<(), SwitchError> {
            self.off += 1;
            if self.off == 30 { Err(SwitchError::Profiler("gone".into())) } else { Ok(()) }
        }
    }

    fn plan(pairs: usize) -> StudyPlan {
        let event = Event::new("cpu-clock", Attr::default());
        StudyPlan {
            event,
            call_graph: CallGraph::None,
            rates: vec![0],
            cpu: 0,
            slice_ns: 100_000,
            pairs,
            loads: vec![LoadKind::Counting],
            seed: 1,
        }
    }

    #[test]
    fn every_round_has_every_switch_once() {
        let mut one = CountingSwitch::default();
        let mut two = CountingSwitch::default();
        let mut switches: Vec<(String, &mut dyn Switch)> =
            vec![("events".into(), &mut one), ("other".into(), &mut two)];
        let clock = Clock::measure();
        let found = measure_losses(
            &plan(12),
            LoadKind::Counting,
            &mut switches,
            &clock,
            &mut Rng::with_seed(1),
            &mut || true,
        )
        .unwrap()
        .unwrap();
        assert_eq!((one.on, one.off, two.on, two.off), (12, 12, 12, 12));
        assert_eq!((found.len(), found[0].rounds.len()), (2, 12));
        assert!(found[0].beyond_events.is_none() && found[1].beyond_events.is_some());
    }

    #[test]
    fn a_failing_switch_or_a_false_step_ends_the_measurement() {
        let mut one = CountingSwitch::default();
        let clock = Clock::measure();
        let mut switches: Vec<(String, &mut dyn Switch)> = vec![("events".into(), &mut one)];
        let mut rng = Rng::with_seed(1);
        assert!(
            measure_losses(
                &plan(5),
                LoadKind::Counting,
                &mut switches,
                &clock,
                &mut rng,
                &mut || false
            )
            .unwrap()
            .is_none()
        );
        assert!(
            measure_losses(
                &plan(50),
                LoadKind::Counting,
                &mut switches,
                &clock,
                &mut rng,
                &mut || true
            )
            .is_err()
        );
    }
}
