//! Measures the cost of a sample in three nested figures: perf's handler, the interrupt around it,
//! and the time stolen from the program.
//!
//! ```text
//! program ----|                                                        |---- program
//!             | VM exit, entry |    interrupt                | return  |
//!                              | timers |  handler  | timers |
//!             |<------------------------ stolen ---------------------->|
//! ```
//! A pinned loop reads the CPU's clock in slices: first with no trace event open, then in rounds
//! with none enabled, with those of the handler, and with those of the interrupt. A gap is a
//! stretch in which the loop didn't run. Each sample's time identifies its gap and spans; gaps
//! without a sample (ticks, other interrupts, a hypervisor's steal) don't count.
//!
//! The trace event at a span's start takes time after its timestamp, the one at its end before its
//! timestamp, so the span is longer by the cost of one event. The loop's gaps show that cost: the
//! gap of a traced sample is longer by two events. (The kernel's check for a disabled trace event,
//! about 20 ns, remains included.)

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tare_kernel::open::Kernel;
use tare_kernel::schedule;

use super::plan::StudyPlan;
use super::sampler::{DeliveredSamples, Sampler, SamplerError};
use super::stolen::{Clock, Span, watch};
use super::tracing::{Probes, Trace, TraceProbe};
use crate::statistics::estimate;
use crate::statistics::quantile;
use tare_format::ledger::Estimate;

/// Minimum length of a stall, in nanoseconds: a gap in which another program ran, or the hypervisor
/// paused the CPU.
const STALL_NS: u64 = 100_000;
/// Maximum difference between the two clocks, in nanoseconds.
const SLACK_NS: u64 = 200;
/// The reported quantiles of the stolen time.
pub const SHARES: [f64; 11] = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

/// The cost of one sample at one rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HandlerCost {
    /// Microseconds in perf's handler.
    pub handler_us: Option<Estimate>,
    /// Microseconds in the interrupt.
    pub interrupt_us: Option<Estimate>,
    /// Microseconds that the program loses.
    pub stolen_us: Option<Estimate>,
    /// Quantiles at [`SHARES`] of the gaps of less than 100 us with one sample, in microseconds;
    /// empty without such gaps.
    pub stolen_quantiles_us: Vec<f64>,
    /// Cost of a trace event in the handler's span, in microseconds; it was subtracted.
    pub handler_tracing_us: Option<Estimate>,
    /// Cost of a trace event in the interrupt's span, in microseconds; it was subtracted.
    pub interrupt_tracing_us: Option<Estimate>,
    /// The share of CPU time in gaps without a sample: ticks, other interrupts, steal of less than
    /// 100 us at a time.
    pub background: Option<Estimate>,
    /// The share of CPU time in gaps of 100 us or more: other programs, steal.
    pub stalls: f64,
    /// Number of samples while the handler was traced.
    pub traced_samples: u64,
    /// Number of traced spans that contain such a sample.
    pub traced_interrupts: u64,
}

/// The slices of one mode of tracing.
#[derive(Debug, Default)]
pub(super) struct Slices {
    /// Nanoseconds per sample in gaps of less than 100 us, of each slice with such samples.
    stolen_ns: Vec<f64>,
    /// The median gap of less than 100 us with one sample, of each slice; `None` without any.
    typical_ns: Vec<Option<f64>>,
    /// Nanoseconds per sample in spans of less than 100 us, of each slice with such samples.
    span_ns: Vec<f64>,
    /// The share of the time in gaps of less than 100 us without a sample, of each slice.
    background: Vec<f64>,
    stalled_ns: u64,
    elapsed_ns: u64,
    /// The length of each gap of less than 100 us with one sample, of all slices.
    singles_us: Vec<f64>,
    samples: u64,
    /// Number of spans with samples.
    spans: u64,
}

/// The slices of all modes of tracing.
#[derive(Debug, Default)]
struct SlicesByMode {
    /// No trace event is open.
    plain: Slices,
    /// Trace events are open but disabled. The differences of `handler` and `interrupt` from this
    /// mode are the cost of tracing.
    off: Slices,
    handler: Slices,
    interrupt: Slices,
}

/// Measures the cost of a sample at a rate. `step` is called after each slice and round; if it
/// returns false, the result is `None`.
///
/// # Errors
/// Fails if the event can't be sampled. If trace events can't be opened, their figure is left out.
pub fn measure_cost(
    plan: &StudyPlan,
    hz: u64,
    kernel: &dyn Kernel,
    probes: &Probes,
    step: &mut dyn FnMut() -> bool,
) -> Result<Option<(HandlerCost, DeliveredSamples)>, SamplerError> {
    let mut rng = Rng::with_seed(plan.seed ^ hz);
    let sampler = Sampler::open(kernel, &plan.event, plan.call_graph, hz, plan.cpu)?;
    let mut runner = SliceRunner { real_time: true, ..SliceRunner::new(plan.slice_ns, sampler) };
    let mut slices = SlicesByMode::default();
    for _ in 0..plan.handler_slices() {
        runner.run_slice(None, &mut slices.plain)?;
        if !step() {
            return Ok(None);
        }
    }
    // Opened only now: the kernel also spends time on open trace events that are disabled.
    let open = |probe: &Option<TraceProbe>| {
        probe
            .as_ref()
            .filter(|_| hz > 0)
            .and_then(|probe| Trace::open(kernel, probe, plan.cpu).ok())
    };
    let mut handler = open(&probes.handler);
    let mut interrupt = open(&probes.interrupt);
    let traced = handler.is_some() || interrupt.is_some();
    let mut order = [0, 1, 2];
    for _ in 0..plan.handler_slices() {
        rng.shuffle(&mut order);
        for mode in order.iter().filter(|_| traced) {
            match mode {
                0 => runner.run_slice(None, &mut slices.off)?,
                1 => runner.run_slice(handler.as_mut(), &mut slices.handler)?,
                _ => runner.run_slice(interrupt.as_mut(), &mut slices.interrupt)?,
            }
        }
        if !step() {
            return Ok(None);
        }
    }
    Ok(Some((summarize(&slices, probes, &mut rng), runner.all)))
}

/// Runs slices of a loop under a sampler.
#[derive(Debug)]
pub(super) struct SliceRunner {
    slice_ns: u64,
    /// Whether slices run with real-time priority, if this user may set it.
    real_time: bool,
    clock: Clock,
    sampler: Sampler,
    /// Samples delivered in all slices.
    pub(super) all: DeliveredSamples,
}

impl SliceRunner {
    /// Measures the clock first, which takes 20 ms.
    pub(super) fn new(slice_ns: u64, sampler: Sampler) -> Self {
        Self {
            slice_ns,
            real_time: false,
            clock: Clock::measure(),
            sampler,
            all: DeliveredSamples::default(),
        }
    }

    /// Runs a slice with the event enabled, and with `trace` if given.
    pub(super) fn run_slice(
        &mut self,
        mut trace: Option<&mut Trace>,
        slices: &mut Slices,
    ) -> Result<(), SamplerError> {
        let priority = self.real_time.then(schedule::real_time);
        let traces = trace.as_ref().is_none_or(|trace| trace.on().is_ok());
        self.sampler.on()?;
        let watched = watch(self.slice_ns, &self.clock);
        self.sampler.off()?;
        let mut spans = Vec::new();
        if let Some(trace) = trace.as_mut().filter(|trace| traces && trace.off().is_ok()) {
            spans = trace.take();
        }
        drop(priority);
        let delivered = self.sampler.take();
        slices.add(watched.elapsed_ns, &watched.gaps, &spans, &delivered.times_ns);
        self.all.add(&delivered);
        Ok(())
    }
}

impl Slices {
    /// Returns the time that a sample took from the loop, in microseconds; `None` for fewer than
    /// five slices with samples.
    pub(super) fn stolen_us(&self, rng: &mut Rng) -> Option<Estimate> {
        estimate_us(&self.stolen_ns, rng)
    }

    /// The number of samples in all slices.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Adds a slice. `gaps`, `spans` and `times` must be in ascending order.
    fn add(&mut self, elapsed_ns: u64, gaps: &[Span], spans: &[Span], times: &[u64]) {
        self.elapsed_ns += elapsed_ns;
        let mut stolen = 0;
        let mut background = 0;
        let mut samples = 0;
        let mut singles = Vec::new();
        let mut rest = times;
        for gap in gaps {
            let held = take_within(&mut rest, gap, SLACK_NS);
            match (gap.length() >= STALL_NS, held) {
                (true, _) => self.stalled_ns += gap.length(),
                (false, 0) => background += gap.length(),
                (false, _) => {
                    stolen += gap.length();
                    samples += held;
                    if held == 1 {
                        singles.push(gap.length() as f64);
                    }
                }
            }
        }
        self.typical_ns.push(quantile(&singles, 0.5));
        self.singles_us.extend(singles.iter().map(|ns| ns / 1e3));
        self.background.push(background as f64 / elapsed_ns.max(1) as f64);
        if samples > 0 {
            self.stolen_ns.push(stolen as f64 / samples as f64);
        }
        let mut inside = 0;
        let mut samples = 0;
        let mut rest = times;
        for span in spans {
            let held = take_within(&mut rest, span, 0);
            if held > 0 && span.length() < STALL_NS {
                inside += span.length();
                samples += held;
            }
            self.spans += u64::from(held > 0);
        }
        if samples > 0 {
            self.span_ns.push(inside as f64 / samples as f64);
        }
        self.samples += times.len() as u64;
    }
}

/// Counts the times within a span that is extended by `slack` at both ends. Removes them, and all
/// earlier times, from the list.
fn take_within(times: &mut &[u64], span: &Span, slack: u64) -> u64 {
    let before = times.partition_point(|time| *time + slack < span.from);
    let until = times.partition_point(|time| *time <= span.to + slack);
    *times = &times[until..];
    until.saturating_sub(before) as u64
}

fn summarize(slices: &SlicesByMode, probes: &Probes, rng: &mut Rng) -> HandlerCost {
    let SlicesByMode { plain, off, handler, interrupt } = slices;
    let stolen_us = plain.stolen_us(rng);
    let (handler_us, handler_tracing_us) =
        subtract_tracing(handler, off, probes.handler.as_ref(), rng);
    let (interrupt_us, interrupt_tracing_us) =
        subtract_tracing(interrupt, off, probes.interrupt.as_ref(), rng);
    let all = [plain, off, handler, interrupt];
    let elapsed: u64 = all.iter().map(|slices| slices.elapsed_ns).sum();
    let stalled: u64 = all.iter().map(|slices| slices.stalled_ns).sum();
    HandlerCost {
        handler_us,
        interrupt_us,
        stolen_us,
        stolen_quantiles_us: SHARES
            .iter()
            .filter_map(|share| quantile(&plain.singles_us, *share))
            .collect(),
        handler_tracing_us,
        interrupt_tracing_us,
        background: estimate(plain.background.iter().copied(), rng),
        stalls: stalled as f64 / elapsed.max(1) as f64,
        traced_samples: handler.samples,
        traced_interrupts: handler.spans,
    }
}

fn estimate_us(ns: &[f64], rng: &mut Rng) -> Option<Estimate> {
    estimate(ns.iter().map(|ns| ns / 1e3), rng)
}

/// Returns a span's length without the cost of tracing, and the cost of a trace event: half of the
/// difference between traced and untraced samples of the same round. From a probe that reports the
/// length itself, nothing is subtracted.
fn subtract_tracing(
    slices: &Slices,
    off: &Slices,
    probe: Option<&TraceProbe>,
    rng: &mut Rng,
) -> (Option<Estimate>, Option<Estimate>) {
    let Some(span) = estimate_us(&slices.span_ns, rng) else { return (None, None) };
    if matches!(probe, Some(TraceProbe::Took { .. })) {
        return (Some(span), None);
    }
    let more = slices
        .typical_ns
        .iter()
        .zip(&off.typical_ns)
        .filter_map(|(with, without)| Some((with.as_ref()? - without.as_ref()?) / 2.0));
    let event = estimate_us(&more.collect::<Vec<_>>(), rng);
    (event.map(|event| span.minus(&event)), event)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from: u64, to: u64) -> Span {
        Span { from, to }
    }

    #[test]
    fn samples_are_assigned_to_their_gaps_and_spans() {
        let mut slices = Slices::default();
        let gaps = [
            span(10_000, 12_000),
            span(20_000, 20_700),
            span(30_000, 32_600),
            span(50_000, 200_000),
        ];
        let spans = [
            span(11_000, 11_300),
            span(20_100, 20_300),
            span(30_900, 31_300),
            span(100_000, 100_200),
        ];
        slices.add(1_000_000, &gaps, &spans, &[11_100, 31_000, 100_100]);
        assert_eq!(
            slices.stolen_ns,
            [2300.0],
            "the mean of two; the second gap is a tick, the last a stall"
        );
        assert_eq!(slices.background, [0.0007]);
        assert_eq!(slices.stalled_ns, 150_000);
        assert_eq!(slices.span_ns, [300.0]);
        assert_eq!((slices.samples, slices.spans), (3, 3));
        assert_eq!(slices.singles_us, [2.0, 2.6]);
    }

    #[test]
    fn the_cost_of_tracing_is_subtracted() {
        let with = |stolen: f64, span: f64| Slices {
            stolen_ns: vec![stolen; 9],
            typical_ns: vec![Some(stolen); 9],
            span_ns: vec![span; 9],
            ..Slices::default()
        };
        let pair = Some(TraceProbe::Pair { ids: [1, 2], filter: None });
        let probes = Probes { handler: pair.clone(), interrupt: pair };
        let slices = SlicesByMode {
            plain: with(2400.0, 0.0),
            off: with(2450.0, 0.0),
            handler: with(3050.0, 700.0),
            interrupt: with(2950.0, 2200.0),
        };
        let cost = summarize(&slices, &probes, &mut Rng::with_seed(1));
        let value = |estimate: Option<Estimate>| (estimate.unwrap().value * 1e3).round();
        assert_eq!((value(cost.handler_tracing_us), value(cost.handler_us)), (300.0, 400.0));
        assert_eq!(
            (value(cost.interrupt_tracing_us), value(cost.interrupt_us), value(cost.stolen_us)),
            (250.0, 1950.0, 2400.0)
        );
    }

    #[test]
    fn times_outside_of_spans_are_skipped() {
        let times = [5, 10, 20, 21, 30];
        let mut rest = &times[..];
        assert_eq!(take_within(&mut rest, &span(9, 21), 0), 3);
        assert_eq!(rest, [30]);
        assert_eq!(take_within(&mut rest, &span(40, 50), 0), 0);
        assert!(rest.is_empty());
    }
}
