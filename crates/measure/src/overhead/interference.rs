//! What sampling takes from a loop: short slices with sampling on and off, in random order, paired.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tare_kernel::schedule;

use super::load::{Kind, Load};
use super::plan::Plan;
use super::sampler::{DeliveredSamples, Sampler, SamplerError};
use super::stolen::Clock;
use crate::statistics::estimate;
use tare_format::ledger::Estimate;

/// Something that can be enabled for one slice and disabled for another.
pub trait Switch {
    /// Starts it, and waits until it has.
    ///
    /// # Errors
    /// It is gone, or doesn't answer.
    fn on(&mut self) -> Result<(), SwitchError>;

    /// Stops it, and waits until it has.
    ///
    /// # Errors
    /// It is gone, or doesn't answer.
    fn off(&mut self) -> Result<(), SwitchError>;
}

/// Why something can't be switched.
#[derive(Debug, thiserror::Error)]
pub enum SwitchError {
    /// The event under study.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// A profiler.
    #[error("{0}")]
    Profiler(String),
}

/// The event alone: what no profiler can do without.
#[derive(Debug)]
pub struct EventAlone {
    sampler: Sampler,
    /// Samples delivered so far.
    pub delivered: DeliveredSamples,
}

impl EventAlone {
    /// Of an event that was opened.
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

/// What one profiler, or the event alone, cost one loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Loss {
    /// The loop.
    pub load: Kind,
    /// The profiler; `events` for the event alone.
    pub profiler: String,
    /// The share of its passes that the loop lost.
    pub lost: Estimate,
    /// The same less that of the event alone, pair by pair; none for the event alone.
    pub beyond_events: Option<Estimate>,
    /// Each round's share, as measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rounds: Vec<f64>,
}

/// Runs rounds of slices, each with nothing and with every switch once, in random order. `step` is
/// called after each, and ends it early by returning false: then there is no result.
///
/// # Errors
/// A switch failed.
pub fn losses(
    plan: &Plan,
    kind: Kind,
    switches: &mut [(String, &mut dyn Switch)],
    clock: &Clock,
    rng: &mut Rng,
    step: &mut dyn FnMut() -> bool,
) -> Result<Option<Vec<Loss>>, SwitchError> {
    let ticks = clock.ticks_in(plan.slice_ns);
    let mut load = Load::new(kind, plan.seed);
    let mut rounds = vec![Vec::with_capacity(plan.pairs); switches.len()];
    // Nothing at all is the last place.
    let mut order: Vec<usize> = (0..=switches.len()).collect();
    let mut speeds = vec![0.0; order.len()];
    load.run(ticks);
    for _ in 0..plan.pairs {
        rng.shuffle(&mut order);
        for &at in &order {
            let _first = schedule::real_time();
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
        load: Kind,
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

    /// Takes a share of the next slice by running through it.
    struct LoopShare(u32, u32);

    impl Switch for LoopShare {
        fn on(&mut self) -> Result<(), SwitchError> {
            self.0 += 1;
            Ok(())
        }
        fn off(&mut self) -> Result<(), SwitchError> {
            self.1 += 1;
            if self.1 == 30 { Err(SwitchError::Profiler("gone".into())) } else { Ok(()) }
        }
    }

    fn plan(pairs: usize) -> Plan {
        let event = Event::new("cpu-clock", Attr::default());
        Plan {
            event,
            call_graph: CallGraph::None,
            rates: vec![0],
            cpu: 0,
            slice_ns: 100_000,
            pairs,
            loads: vec![Kind::Counting],
            seed: 1,
        }
    }

    #[test]
    fn every_round_has_every_switch_once() {
        let mut one = LoopShare(0, 0);
        let mut two = LoopShare(0, 0);
        let mut switches: Vec<(String, &mut dyn Switch)> =
            vec![("events".into(), &mut one), ("other".into(), &mut two)];
        let clock = Clock::measure();
        let found = losses(
            &plan(12),
            Kind::Counting,
            &mut switches,
            &clock,
            &mut Rng::with_seed(1),
            &mut || true,
        )
        .unwrap()
        .unwrap();
        assert_eq!((one.0, one.1, two.0, two.1), (12, 12, 12, 12));
        assert_eq!((found.len(), found[0].rounds.len()), (2, 12));
        assert!(found[0].beyond_events.is_none() && found[1].beyond_events.is_some());
    }

    #[test]
    fn a_failing_switch_and_an_impatient_user_end_it() {
        let mut one = LoopShare(0, 0);
        let clock = Clock::measure();
        let mut switches: Vec<(String, &mut dyn Switch)> = vec![("events".into(), &mut one)];
        let mut rng = Rng::with_seed(1);
        assert!(
            losses(&plan(5), Kind::Counting, &mut switches, &clock, &mut rng, &mut || false)
                .unwrap()
                .is_none()
        );
        assert!(
            losses(&plan(50), Kind::Counting, &mut switches, &clock, &mut rng, &mut || true)
                .is_err()
        );
    }
}
