//! The whole study: every rate, the fits, and what interfered.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tare_kernel::open::Kernel;

use super::fit::{Fit, Point};
use super::handler::{HandlerCost, cost};
use super::interference::{EventAlone, Loss, Switch, SwitchError, losses};
use super::load::{Kind, Load};
use super::plan::Plan;
use super::sampler::{DeliveredSamples, Sampler, SamplerError};
use super::stolen::Clock;
use super::tracing::Probes;
use tare_format::ledger::Estimate;

/// The pseudo-profiler: the event alone.
pub const EVENTS: &str = "events";

/// For how long a profiler's own CPU time is watched.
const STRETCH_NS: u64 = 2_000_000_000;

/// Less than this share of the asked rate is a throttled row.
const DELIVERED_AT_LEAST: f64 = 0.9;

/// The cost at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Samples a second that were asked for.
    pub asked_hz: u64,
    /// And delivered.
    pub delivered_hz: f64,
    /// Samples in all slices of this rate.
    pub samples: u64,
    /// Lost samples.
    pub lost: u64,
    /// Times that the kernel stopped the event for coming too often.
    pub throttles: u64,
    /// The kernel's limit (`perf_event_max_sample_rate`) after this rate, if it changed.
    pub limit_lowered_to: Option<i64>,
    /// Frames in a call chain, on average; none without call graph.
    pub frames: Option<f64>,
    /// The cost of a sample.
    pub cost: HandlerCost,
    /// What loops lost.
    pub losses: Vec<Loss>,
    /// What the profilers used while their slices ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorders: Vec<Recorder>,
}

/// What a profiler used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recorder {
    /// Its name.
    pub profiler: String,
    /// CPU seconds of its threads for each second that it samples a busy loop; its start and end
    /// are apart.
    pub cpu_share: f64,
}

/// The line through the rates for one figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FittedFigure {
    /// The figure.
    pub figure: Figure,
    /// The line.
    pub fit: Fit,
}

/// A figure that grows with the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// perf's own handler.
    Handler,
    /// The interrupt hooks it.
    Interrupt,
    /// The time that the program does without.
    Stolen,
    /// Loss of the counting loop.
    Counting,
    /// Loss of the memory-bound loop.
    Memory,
    /// Loss of the branchy loop.
    Branchy,
}

impl Figure {
    /// All of them, from the inside out.
    pub const ALL: [Self; 6] =
        [Self::Handler, Self::Interrupt, Self::Stolen, Self::Counting, Self::Memory, Self::Branchy];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Interrupt => "interrupt",
            Self::Stolen => "stolen",
            Self::Counting => Kind::Counting.name(),
            Self::Memory => Kind::Memory.name(),
            Self::Branchy => Kind::Branchy.name(),
        }
    }

    fn load(self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == self.name())
    }
}

impl Row {
    /// Whether the kernel throttled the event, or too many samples were lost: such a row isn't
    /// fitted.
    #[must_use]
    pub fn throttled(&self) -> bool {
        let short = self.delivered_hz < DELIVERED_AT_LEAST * self.asked_hz as f64;
        self.throttles > 0
            || self.limit_lowered_to.is_some()
            || short
            || self.lost * 100 > self.samples
    }

    /// A figure as a share of CPU time.
    #[must_use]
    pub fn share(&self, figure: Figure) -> Option<Estimate> {
        let us = match figure {
            Figure::Handler => self.cost.handler_us,
            Figure::Interrupt => self.cost.interrupt_us,
            Figure::Stolen => self.cost.stolen_us,
            _ => return self.loss(figure.load()?, EVENTS).map(|loss| loss.lost),
        };
        us.map(|us| us.times(self.delivered_hz * 1e-6))
    }

    /// Returns a loop's loss to a profiler.
    #[must_use]
    pub fn loss(&self, load: Kind, profiler: &str) -> Option<&Loss> {
        self.losses.iter().find(|loss| loss.load == load && loss.profiler == profiler)
    }
}

/// The lines through these rows, for every figure that two rows or more have.
#[must_use]
pub fn fits(rows: &[Row]) -> Vec<FittedFigure> {
    let fitted = |figure: Figure| {
        let points = rows.iter().filter(|row| row.asked_hz > 0 && !row.throttled());
        let points: Vec<Point> = points
            .filter_map(|row| Some(Point { hz: row.delivered_hz, cost: row.share(figure)? }))
            .collect();
        let zero = rows.iter().find(|row| row.asked_hz == 0).and_then(|row| row.share(figure));
        Some(FittedFigure { figure, fit: Fit::from_points(&points, zero.as_ref())? })
    };
    Figure::ALL.into_iter().filter_map(fitted).collect()
}

/// What the caller does while a study runs.
pub trait StudyHooks {
    /// Why it may fail.
    type Error: From<SwitchError>;

    /// Called after every step; false ends the study.
    fn step(&mut self) -> bool;

    /// Starts the profilers for a rate, switched off.
    ///
    /// # Errors
    /// One can't be started.
    fn profilers(&mut self, hz: u64) -> Result<Vec<AttachedProfiler>, Self::Error>;

    /// Called after a rate: the kernel's limit on rates, where it was lowered meanwhile. It is as
    /// before when this returns, if this user may set it.
    fn limit_lowered_to(&mut self) -> Option<i64>;
}

/// A profiler that runs, attached to this process.
pub trait Profiler: Switch {
    /// CPU nanoseconds that it has used so far.
    fn cpu_ns(&mut self) -> u64;
}

/// A profiler that was started, switched off.
pub struct AttachedProfiler {
    /// What it is called.
    pub name: String,
    /// The profiler.
    pub profiler: Box<dyn Profiler>,
}

/// Measures every rate of the plan; none where a step ended it.
///
/// # Errors
/// The event can't be sampled, or a profiler failed.
pub fn rows<S: StudyHooks>(
    plan: &Plan,
    kernel: &dyn Kernel,
    probes: &Probes,
    hooks: &mut S,
) -> Result<Option<Vec<Row>>, S::Error> {
    let mut rows = Vec::with_capacity(plan.rates.len());
    for &hz in &plan.rates {
        match row(plan, hz, kernel, probes, hooks)? {
            Some(row) => rows.push(row),
            None => return Ok(None),
        }
    }
    Ok(Some(rows))
}

fn row<S: StudyHooks>(
    plan: &Plan,
    hz: u64,
    kernel: &dyn Kernel,
    probes: &Probes,
    hooks: &mut S,
) -> Result<Option<Row>, S::Error> {
    let failed = |error: SamplerError| S::Error::from(SwitchError::from(error));
    let Some((cost, looked_at)) =
        cost(plan, hz, kernel, probes, &mut || hooks.step()).map_err(failed)?
    else {
        return Ok(None);
    };
    let sampler =
        Sampler::open(kernel, &plan.event, plan.call_graph, hz, plan.cpu).map_err(failed)?;
    let mut alone = EventAlone::new(sampler);
    let mut profilers = hooks.profilers(hz)?;
    let mut rng = Rng::with_seed(plan.seed.wrapping_add(hz));
    let mut found = Vec::new();
    for &kind in &plan.loads {
        let mut switches: Vec<(String, &mut dyn Switch)> = vec![(EVENTS.to_owned(), &mut alone)];
        switches.extend(
            profilers
                .iter_mut()
                .map(|one| (one.name.clone(), &mut one.profiler as &mut dyn Switch)),
        );
        match losses(plan, kind, &mut switches, &Clock::measure(), &mut rng, &mut || hooks.step())
            .map_err(S::Error::from)?
        {
            Some(losses) => found.extend(losses),
            None => return Ok(None),
        }
    }
    let recorders = profilers
        .iter_mut()
        .map(|one| Recorder::watch(&one.name, one.profiler.as_mut(), plan.seed));
    let recorders = recorders.collect::<Result<_, _>>().map_err(S::Error::from)?;
    let mut all = alone.delivered;
    all.add(&looked_at);
    Ok(Some(finish(hz, &all, cost, found, recorders, hooks.limit_lowered_to())))
}

fn finish(
    hz: u64,
    all: &DeliveredSamples,
    cost: HandlerCost,
    losses: Vec<Loss>,
    recorders: Vec<Recorder>,
    limit_lowered_to: Option<i64>,
) -> Row {
    let frames = (all.frames > 0).then(|| all.frames as f64 / all.samples.max(1) as f64);
    let &DeliveredSamples { samples, lost, throttles, on_ns, .. } = all;
    let delivered_hz = (samples + lost) as f64 * 1e9 / on_ns.max(1) as f64;
    Row {
        asked_hz: hz,
        delivered_hz,
        samples,
        lost,
        throttles,
        limit_lowered_to,
        frames,
        cost,
        losses,
        recorders,
    }
}

impl Recorder {
    /// Watches a profiler for one stretch: switching it on and off as often as slices do costs more
    /// than what it does in between.
    fn watch(name: &str, profiler: &mut dyn Profiler, seed: u64) -> Result<Self, SwitchError> {
        let ticks = Clock::measure().ticks_in(STRETCH_NS);
        let mut load = Load::new(Kind::Counting, seed);
        profiler.on()?;
        let began_ns = tare_kernel::timestamp::raw_ns();
        let cpu_ns = profiler.cpu_ns();
        load.run(ticks);
        let used_ns = profiler.cpu_ns().saturating_sub(cpu_ns);
        let on_ns = tare_kernel::timestamp::raw_ns() - began_ns;
        profiler.off()?;
        Ok(Self { profiler: name.to_owned(), cpu_share: used_ns as f64 / on_ns.max(1) as f64 })
    }
}

impl Switch for Box<dyn Profiler> {
    fn on(&mut self) -> Result<(), SwitchError> {
        (**self).on()
    }

    fn off(&mut self) -> Result<(), SwitchError> {
        (**self).off()
    }
}

#[cfg(test)]
mod tests;
