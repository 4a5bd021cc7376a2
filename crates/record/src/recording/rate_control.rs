//! Keeps sampling within its budget: measures the recorder's usage at each flush, and changes the
//! rates.

use std::time::Duration;

use tare_format::abi::Sampling;
use tare_format::file::note;
use tare_format::ledger::{
    self, Ledger, RateChange, SampleCost, SamplingCost, ShareOf, SlowRateCause,
};

use super::budget::{Controller, Observation, SamplesCost};
use super::ledger::nanos;
use super::{Recording, event_error};
use crate::capture::stats::SampleCounts;
use crate::error::RecordError;
use crate::options::Budget;
use crate::plan::PlannedEvent;
use crate::session::RecordSession;

/// Bytes that wait to be unwound from which on the rate falls: a quarter of those from which on call
/// chains stay as they are.
const LATE_BYTES: usize = 8 << 20;

/// A budget, and the measurements for it.
#[derive(Debug)]
pub(super) struct RateControl {
    budget: Budget,
    controller: Controller,
    /// The frequencies of each event, in Hz.
    rates: Vec<Vec<u64>>,
    recorded: Duration,
    recorder_ns: u64,
    throttled: u64,
    samples: SeenSamples,
    changes: u64,
    floor: Duration,
    /// How long events must have been enabled before measurements count.
    start_up: Duration,
}

impl RateControl {
    /// Returns `None` without a budget.
    pub(super) fn new(session: &RecordSession) -> Option<Self> {
        let budget = session.options.sampling.budget?;
        let of_event = |planned: &PlannedEvent| match planned.attr.sampling {
            Sampling::Frequency(hz) => {
                std::iter::once(hz).chain(planned.slower.iter().copied()).collect()
            }
            Sampling::Period(_) | Sampling::None => Vec::new(),
        };
        let rates: Vec<Vec<u64>> = session.plan.events.iter().map(of_event).collect();
        let us: Vec<f64> = session
            .sample_costs()
            .iter()
            .map(|cost| cost.as_ref().map_or(0.0, |cost| cost.us.high))
            .collect();
        let steps = rates.iter().map(Vec::len).max()?;
        let of_step = |step| {
            rates_at(&rates, step).iter().zip(&us).map(|(&hz, us)| hz as f64 * us * 1e-6).sum()
        };
        let costs = (0..steps).map(of_step).collect();
        let controller = Controller::new(budget.share, costs, session.number_of_cpus());
        let recorded = Duration::ZERO;
        let floor = Duration::ZERO;
        Some(Self {
            budget,
            controller,
            rates,
            recorded,
            recorder_ns: 0,
            throttled: 0,
            samples: SeenSamples::default(),
            changes: 0,
            floor,
            start_up: Duration::ZERO,
        })
    }

    /// Returns the cost of samples since the last observation.
    fn samples(&mut self, now: SeenSamples, costs: &[Option<SampleCost>]) -> SamplesCost {
        let before = std::mem::replace(&mut self.samples, now);
        let now = &self.samples;
        let copying_ns = now.copying_ns.saturating_sub(before.copying_ns);
        let mut cost = SamplesCost { all: copying_ns as f64 / 1e3, ..SamplesCost::default() };
        for (event, (now, sample)) in now.by_event.iter().zip(costs).enumerate() {
            let Some(sample) = sample else { continue };
            let seen = now.since(before.by_event.get(event).unwrap_or(&SampleCounts::default()));
            cost.of_loops += sample.total_us(seen.samples as f64, 0.0).high;
            cost.all += sample.total_us(seen.samples as f64, seen.in_kernel as f64).high;
        }
        cost
    }

    fn hz(&self) -> Vec<u64> {
        rates_at(&self.rates, self.controller.step())
    }
}

/// Counts of the samples so far.
#[derive(Debug, Default)]
struct SeenSamples {
    by_event: Vec<SampleCounts>,
    /// Time in which programs copied deep stacks, in nanoseconds.
    copying_ns: u64,
}

/// A sampling frequency that the budget doesn't allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRate {
    /// The requested frequency, the highest of all events in Hz.
    pub requested_hz: u64,
    /// Why sampling is slower.
    pub cause: SlowRateCause,
}

/// Returns the frequency of each event at a step; 0 for events without one.
fn rates_at(rates: &[Vec<u64>], step: usize) -> Vec<u64> {
    rates.iter().map(|of| of.get(step).or(of.last()).copied().unwrap_or(0)).collect()
}

impl Recording {
    /// Starts the budget only after events were enabled for this long: a caller that consumes
    /// records in the same process has start-up costs of its own, such as reading symbols.
    pub fn begin_budget_after(&mut self, start_up: Duration) {
        if let Some(control) = &mut self.sources.rate_control {
            control.start_up = start_up;
        }
    }

    /// Starts at the rate that the costs allow.
    pub(super) fn begin_rate_control(&mut self) -> Result<(), RecordError> {
        let Some(control) = &self.sources.rate_control else { return Ok(()) };
        self.sources
            .events
            .set_step(control.controller.step())
            .map_err(event_error("choose a rate"))?;
        self.note_rates()
    }

    /// Measures usage since the last observation, and changes the rates if the budget requires it.
    pub(super) fn control_rate(&mut self) -> Result<(), RecordError> {
        let Some(control) = &mut self.sources.rate_control else { return Ok(()) };
        let recorded = self.account.enabled.so_far();
        let throttled = self.capture.shared.throttled();
        // CPU time before events were first enabled doesn't count.
        let cpu_ns = self.session.backend.clock.cpu_ns();
        let recorder_ns = cpu_ns.saturating_sub(self.account.enabled.started_cpu_ns);
        let samples = SeenSamples {
            by_event: self.capture.shared.samples(),
            copying_ns: self.capture.shared.deep_stack_counts().copying_ns,
        };
        let seen = Observation {
            enabled: recorded.saturating_sub(control.recorded),
            recorder: Duration::from_nanos(recorder_ns.saturating_sub(control.recorder_ns)),
            throttled: throttled.saturating_sub(control.throttled),
            is_behind: self.capture.shared.with_output(|output| output.so_far().unwinding_bytes)
                >= LATE_BYTES,
            samples: control.samples(samples, self.session.sample_costs()),
        };
        let is_start_up = recorded < control.start_up;
        let changed = !is_start_up && control.controller.observe(seen);
        if control.controller.is_floor_over_budget() {
            control.floor += seen.enabled;
        }
        (control.recorded, control.recorder_ns, control.throttled) =
            (recorded, recorder_ns, throttled);
        if !changed {
            return Ok(());
        }
        control.changes += 1;
        self.sources
            .events
            .set_step(control.controller.step())
            .map_err(event_error("change the rate"))?;
        self.note_rates()
    }

    /// Writes a note of the rates.
    fn note_rates(&self) -> Result<(), RecordError> {
        let Some(control) = &self.sources.rate_control else { return Ok(()) };
        let change =
            RateChange { after_ns: nanos(self.account.enabled.so_far()), hz: control.hz() };
        // A failing output is reported when the rings are emptied.
        let _ = self.capture.shared.append(&[&note::encode(&change.to_note())?]);
        Ok(())
    }

    /// Returns the highest current frequency of all events, in Hz; `None` if no event has a
    /// frequency.
    #[must_use]
    pub fn rate_hz(&self) -> Option<u64> {
        if let Some(control) = &self.sources.rate_control {
            return control.hz().into_iter().max().filter(|hz| *hz > 0);
        }
        let events = self.session.plan.events.iter();
        let rates = events.filter_map(|planned| match planned.attr.sampling {
            Sampling::Frequency(hz) => Some(hz),
            Sampling::Period(_) | Sampling::None => None,
        });
        rates.max()
    }

    /// Returns the requested frequency, the highest of all events in Hz, and why sampling is slower;
    /// `None` if it isn't.
    #[must_use]
    pub fn slow_rate(&self) -> Option<SlowRate> {
        let control = self.sources.rate_control.as_ref()?;
        let cause = control.controller.slow_cause()?;
        let requested_hz = rates_at(&control.rates, 0).into_iter().max()?;
        Some(SlowRate { requested_hz, cause })
    }

    /// Returns the result of the budget, for a ledger that has its costs.
    pub(super) fn kept_budget(&self, ledger: &Ledger) -> Option<ledger::Budget> {
        let control = self.sources.rate_control.as_ref()?;
        let spent = SamplingCost::new(ledger, ShareOf::Cpus, self.session.number_of_cpus())
            .and_then(|cost| cost.share);
        let hz = control.hz().into_iter().max().unwrap_or(0);
        let Budget { share: asked, min_hz } = control.budget;
        // Includes the time since the last observation.
        let rest = if control.controller.is_floor_over_budget() {
            self.account.enabled.so_far().saturating_sub(control.recorded)
        } else {
            Duration::ZERO
        };
        Some(ledger::Budget {
            asked,
            spent,
            min_hz,
            hz,
            changes: control.changes,
            floor_ns: nanos(control.floor + rest),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_with_fewer_rates_stays_at_its_last() {
        let rates = [vec![999, 666, 444], vec![100, 66], Vec::new()];
        assert_eq!(rates_at(&rates, 0), [999, 100, 0]);
        assert_eq!(rates_at(&rates, 2), [444, 66, 0]);
    }
}
