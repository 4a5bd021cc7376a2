//! Measures all rates of a study, and fits lines through them.

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tare_kernel::open::Kernel;

use super::fit::{Fit, Point};
use super::handler::{HandlerCost, measure_cost};
use super::interference::{EventAlone, Loss, Switch, SwitchError, measure_losses};
use super::load::{Load, LoadKind};
use super::plan::StudyPlan;
use super::sampler::{DeliveredSamples, Sampler, SamplerError};
use super::stolen::Clock;
use super::tracing::Probes;
use tare_format::ledger::Estimate;

/// The name of the event alone among the profilers.
pub const EVENTS: &str = "events";

/// Time for which a profiler's own CPU time is measured, in nanoseconds.
const STRETCH_NS: u64 = 2_000_000_000;

/// Minimum delivered share of the requested rate; less counts as throttled.
const DELIVERED_AT_LEAST: f64 = 0.9;

/// The cost at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateRow {
    /// Requested samples per second.
    pub asked_hz: u64,
    /// Delivered samples per second, including lost ones.
    pub delivered_hz: f64,
    /// Samples of the event alone in all slices of this rate.
    pub samples: u64,
    /// Lost samples.
    pub lost: u64,
    /// Number of times that the kernel throttled the event.
    pub throttles: u64,
    /// The kernel's limit (`perf_event_max_sample_rate`) after this rate, if it was lowered.
    pub limit_lowered_to: Option<i64>,
    /// Average number of entries in a call chain: frames, and the kernel's markers of their
    /// contexts. `None` without call chains.
    pub frames: Option<f64>,
    /// The cost of a sample.
    pub cost: HandlerCost,
    /// The losses of loops.
    pub losses: Vec<Loss>,
    /// The CPU time of profilers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recorders: Vec<ProfilerCpu>,
}

/// The CPU time of a profiler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfilerCpu {
    /// Its name.
    pub profiler: String,
    /// CPU seconds of its threads for each second that it samples a busy loop, without its start
    /// and exit.
    pub cpu_share: f64,
}

/// The line through the rates of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FittedFigure {
    /// The figure.
    pub figure: CostFigure,
    /// The line.
    pub fit: Fit,
}

/// A figure that grows with the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CostFigure {
    /// The time in perf's handler.
    Handler,
    /// The time in the interrupt that runs the handler.
    Interrupt,
    /// The time stolen from the program.
    Stolen,
    /// Loss of the counting loop.
    Counting,
    /// Loss of the memory-bound loop.
    Memory,
    /// Loss of the branchy loop.
    Branchy,
}

impl CostFigure {
    /// All figures, from the inside out.
    pub const ALL: [Self; 6] =
        [Self::Handler, Self::Interrupt, Self::Stolen, Self::Counting, Self::Memory, Self::Branchy];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Handler => "handler",
            Self::Interrupt => "interrupt",
            Self::Stolen => "stolen",
            Self::Counting => LoadKind::Counting.name(),
            Self::Memory => LoadKind::Memory.name(),
            Self::Branchy => LoadKind::Branchy.name(),
        }
    }

    fn load(self) -> Option<LoadKind> {
        LoadKind::ALL.into_iter().find(|kind| kind.name() == self.name())
    }
}

impl RateRow {
    /// Whether the kernel throttled the event, lowered its limit, delivered less than 90% of the
    /// requested rate, or lost more than one sample for 100 read. Such rows aren't fitted.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        let short = self.delivered_hz < DELIVERED_AT_LEAST * self.asked_hz as f64;
        self.throttles > 0
            || self.limit_lowered_to.is_some()
            || short
            || self.lost * 100 > self.samples
    }

    /// Returns a figure as a share of CPU time; `None` if it wasn't measured.
    #[must_use]
    pub fn share(&self, figure: CostFigure) -> Option<Estimate> {
        let us = match figure {
            CostFigure::Handler => self.cost.handler_us,
            CostFigure::Interrupt => self.cost.interrupt_us,
            CostFigure::Stolen => self.cost.stolen_us,
            _ => return self.loss(figure.load()?, EVENTS).map(|loss| loss.lost),
        };
        us.map(|us| us.times(self.delivered_hz * 1e-6))
    }

    /// Finds a loop's loss to a profiler.
    #[must_use]
    pub fn loss(&self, load: LoadKind, profiler: &str) -> Option<&Loss> {
        self.losses.iter().find(|loss| loss.load == load && loss.profiler == profiler)
    }
}

/// Fits a line for every figure that at least two rows above 0 Hz have, and subtracts the result at
/// 0 Hz. Throttled rows are left out.
#[must_use]
pub fn fit_figures(rows: &[RateRow]) -> Vec<FittedFigure> {
    let fitted = |figure: CostFigure| {
        let points = rows.iter().filter(|row| row.asked_hz > 0 && !row.is_throttled());
        let points: Vec<Point> = points
            .filter_map(|row| Some(Point { hz: row.delivered_hz, cost: row.share(figure)? }))
            .collect();
        let zero = rows.iter().find(|row| row.asked_hz == 0).and_then(|row| row.share(figure));
        Some(FittedFigure { figure, fit: Fit::from_points(&points, zero.as_ref())? })
    };
    CostFigure::ALL.into_iter().filter_map(fitted).collect()
}

/// The caller's part in a study.
pub trait StudyHooks {
    /// The reason for a failure.
    type Error: From<SwitchError>;

    /// Called after every step; false ends the study.
    fn step(&mut self) -> bool;

    /// Starts the profilers for a rate, switched off.
    ///
    /// # Errors
    /// Fails if a profiler can't be started.
    fn start_profilers(&mut self, hz: u64) -> Result<Vec<AttachedProfiler>, Self::Error>;

    /// Called after each rate. Returns the kernel's limit on rates if the kernel lowered it, and
    /// restores the previous limit if this user may set it.
    fn take_lowered_limit(&mut self) -> Option<i64>;
}

/// A running profiler, attached to the loop's thread.
pub trait Profiler: Switch {
    /// Returns the CPU time that it has used so far, in nanoseconds.
    fn cpu_ns(&mut self) -> u64;
}

/// A profiler that was started, switched off.
pub struct AttachedProfiler {
    /// Its name.
    pub name: String,
    /// The profiler.
    pub profiler: Box<dyn Profiler>,
}

/// Measures every rate of the plan; `None` if a step ended the study.
///
/// # Errors
/// Fails if the event can't be sampled, or a profiler fails.
pub fn measure_rates<S: StudyHooks>(
    plan: &StudyPlan,
    kernel: &dyn Kernel,
    probes: &Probes,
    hooks: &mut S,
) -> Result<Option<Vec<RateRow>>, S::Error> {
    let mut rows = Vec::with_capacity(plan.rates.len());
    for &hz in &plan.rates {
        match measure_rate(plan, hz, kernel, probes, hooks)? {
            Some(row) => rows.push(row),
            None => return Ok(None),
        }
    }
    Ok(Some(rows))
}

fn measure_rate<S: StudyHooks>(
    plan: &StudyPlan,
    hz: u64,
    kernel: &dyn Kernel,
    probes: &Probes,
    hooks: &mut S,
) -> Result<Option<RateRow>, S::Error> {
    let failed = |error: SamplerError| S::Error::from(SwitchError::from(error));
    let measured = measure_cost(plan, hz, kernel, probes, &mut || hooks.step()).map_err(failed)?;
    let Some((cost, delivered)) = measured else { return Ok(None) };
    let sampler =
        Sampler::open(kernel, &plan.event, plan.call_graph, hz, plan.cpu).map_err(failed)?;
    let mut alone = EventAlone::new(sampler);
    let mut profilers = hooks.start_profilers(hz)?;
    let mut rng = Rng::with_seed(plan.seed.wrapping_add(hz));
    let mut found = Vec::new();
    for &kind in &plan.loads {
        let mut switches: Vec<(String, &mut dyn Switch)> = vec![(EVENTS.to_owned(), &mut alone)];
        switches.extend(
            profilers
                .iter_mut()
                .map(|one| (one.name.clone(), &mut one.profiler as &mut dyn Switch)),
        );
        let clock = Clock::measure();
        match measure_losses(plan, kind, &mut switches, &clock, &mut rng, &mut || hooks.step())
            .map_err(S::Error::from)?
        {
            Some(losses) => found.extend(losses),
            None => return Ok(None),
        }
    }
    let recorders = profilers
        .iter_mut()
        .map(|one| ProfilerCpu::measure(&one.name, one.profiler.as_mut(), plan.seed));
    let recorders = recorders.collect::<Result<_, _>>().map_err(S::Error::from)?;
    let mut all = alone.delivered;
    all.add(&delivered);
    Ok(Some(build_row(hz, &all, cost, found, recorders, hooks.take_lowered_limit())))
}

fn build_row(
    hz: u64,
    all: &DeliveredSamples,
    cost: HandlerCost,
    losses: Vec<Loss>,
    recorders: Vec<ProfilerCpu>,
    limit_lowered_to: Option<i64>,
) -> RateRow {
    let frames = (all.frames > 0).then(|| all.frames as f64 / all.samples.max(1) as f64);
    let &DeliveredSamples { samples, lost, throttles, on_ns, .. } = all;
    let delivered_hz = (samples + lost) as f64 * 1e9 / on_ns.max(1) as f64;
    RateRow {
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

impl ProfilerCpu {
    /// Measures a profiler in one stretch. In slices it would use most CPU time for being switched
    /// on and off.
    fn measure(name: &str, profiler: &mut dyn Profiler, seed: u64) -> Result<Self, SwitchError> {
        let ticks = Clock::measure().ticks_in(STRETCH_NS);
        let mut load = Load::new(LoadKind::Counting, seed);
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
mod tests {
    use super::*;

    /// Creates a row in which a sample steals 2 us, and the counting loop loses 0.1% plus 1% at
    /// 4000 Hz.
    fn row(asked_hz: u64) -> RateRow {
        let hz = asked_hz as f64;
        let loss = Loss {
            load: LoadKind::Counting,
            profiler: EVENTS.into(),
            lost: Estimate::with_error(0.001 + hz * 2.5e-6, 1e-4),
            beyond_events: None,
            rounds: vec![],
        };
        let cost = HandlerCost {
            stolen_us: (asked_hz > 0).then(|| Estimate::with_error(2.0, 0.01)),
            ..HandlerCost::default()
        };
        build_row(
            asked_hz,
            &DeliveredSamples {
                samples: asked_hz,
                on_ns: 1_000_000_000,
                ..DeliveredSamples::default()
            },
            cost,
            vec![loss],
            vec![],
            None,
        )
    }

    fn slope(rows: &[RateRow], figure: CostFigure) -> Option<f64> {
        fit_figures(rows)
            .into_iter()
            .find(|fitted| fitted.figure == figure)
            .map(|fitted| fitted.fit.slope_us.value)
    }

    #[test]
    fn fits_the_figures_that_rows_have() {
        let rows = [0, 100, 2000, 4000].map(row);
        assert!((slope(&rows, CostFigure::Stolen).unwrap() - 2.0).abs() < 0.01);
        assert!((slope(&rows, CostFigure::Counting).unwrap() - 2.5).abs() < 0.01);
        assert_eq!(slope(&rows, CostFigure::Handler), None);
        let counting = fit_figures(&rows)
            .into_iter()
            .find(|fitted| fitted.figure == CostFigure::Counting)
            .unwrap();
        assert!(
            counting.fit.intercept.value.abs() < 1e-6,
            "the loss at 0 Hz is subtracted: {counting:?}"
        );
    }

    #[test]
    fn a_throttled_row_is_never_fitted() {
        let spoil: [fn(&mut RateRow); 4] = [
            |row| row.throttles = 1,
            |row| row.limit_lowered_to = Some(50_000),
            |row| row.delivered_hz *= 0.8,
            |row| row.lost = row.samples / 50,
        ];
        for spoil in spoil {
            let mut rows = [100, 2000, 4000, 100_000].map(row);
            rows[3].cost.stolen_us = Some(Estimate::with_error(9.0, 0.01));
            spoil(&mut rows[3]);
            assert!(rows[3].is_throttled());
            assert!((slope(&rows, CostFigure::Stolen).unwrap() - 2.0).abs() < 0.01);
        }
        assert!(!row(4000).is_throttled());
    }
}
