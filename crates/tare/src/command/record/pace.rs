//! Keeps sampling within its budget: looks at what the recorder used whenever rings are flushed,
//! and changes the rates.

use std::time::Duration;

use anyhow::Context;
use tare_format::abi::Sampling;
use tare_format::file::note;

use super::account::nanos;
use super::budget::{Controller, SamplesCost, Seen};
use super::cost;
use super::live::{Live, cpu_ns};
use super::plan::PlannedEvent;
use super::session::Session;
use crate::cli::resolved::record::Budget;
use crate::pipeline::capture::meter::Tally;
use tare_format::ledger::{self, Ledger, RateChange, SampleCost, SamplingCost, ShareOf};

/// A budget and what was seen of it.
#[derive(Debug)]
pub(super) struct Pace {
    budget: Budget,
    controller: Controller,
    /// The frequencies of each event.
    rates: Vec<Vec<u64>>,
    recorded: Duration,
    recorder_ns: u64,
    throttled: u64,
    tallies: Vec<Tally>,
    changes: u64,
    floor: Duration,
}

impl Pace {
    /// None without a budget.
    pub(super) fn new(session: &Session<'_>) -> Option<Self> {
        let budget = session.record.sampling.budget?;
        let of_event = |planned: &PlannedEvent| match planned.attr.sampling {
            Sampling::Frequency(hz) => {
                std::iter::once(hz).chain(planned.slower.iter().copied()).collect()
            }
            Sampling::Period(_) | Sampling::None => Vec::new(),
        };
        let rates: Vec<Vec<u64>> = session.plan.events.iter().map(of_event).collect();
        let us: Vec<f64> = cost::of_samples(session)
            .iter()
            .map(|cost| cost.as_ref().map_or(0.0, |cost| cost.us.high))
            .collect();
        let steps = rates.iter().map(Vec::len).max()?;
        let of_step = |step| {
            rates_at(&rates, step).iter().zip(&us).map(|(&hz, us)| hz as f64 * us * 1e-6).sum()
        };
        let costs = (0..steps).map(of_step).collect();
        let controller = Controller::new(budget.share, costs, cost::cpus(session));
        let (recorded, floor) = (Duration::ZERO, Duration::ZERO);
        Some(Self {
            budget,
            controller,
            rates,
            recorded,
            recorder_ns: 0,
            throttled: 0,
            tallies: Vec::new(),
            changes: 0,
            floor,
        })
    }

    /// What samples cost since the last look.
    fn samples(&mut self, now: Vec<Tally>, costs: &[Option<SampleCost>]) -> SamplesCost {
        let before = std::mem::replace(&mut self.tallies, now);
        let mut cost = SamplesCost::default();
        for (event, (now, sample)) in self.tallies.iter().zip(costs).enumerate() {
            let (Some(sample), seen) =
                (sample, now.since(before.get(event).unwrap_or(&Tally::default())))
            else {
                continue;
            };
            cost.of_loops += sample.of(seen.samples as f64, 0.0).high;
            cost.all += sample.of(seen.samples as f64, seen.in_kernel as f64).high;
        }
        cost
    }

    fn hz(&self) -> Vec<u64> {
        rates_at(&self.rates, self.controller.step())
    }
}

/// The frequency of each event at a step; 0 for events without one.
fn rates_at(rates: &[Vec<u64>], step: usize) -> Vec<u64> {
    rates.iter().map(|of| of.get(step).or(of.last()).copied().unwrap_or(0)).collect()
}

impl Live<'_> {
    /// Begins at the rate that the costs allow.
    pub(super) fn begin_pace(&mut self) -> anyhow::Result<()> {
        let Some(pace) = &self.pace else { return Ok(()) };
        self.events.set_step(pace.controller.step()).context("cannot choose a rate")?;
        self.note_rates()
    }

    /// Looks at what was used since the last look, and changes the rates where the budget wants it.
    pub(super) fn keep_pace(&mut self) -> anyhow::Result<()> {
        let Some(pace) = &mut self.pace else { return Ok(()) };
        let (recorded, throttled) = (self.clock.recorded(), self.shared.throttled());
        // Start-up is apart.
        let recorder_ns = cpu_ns().saturating_sub(self.clock.started_cpu_ns);
        let seen = Seen {
            enabled: recorded.saturating_sub(pace.recorded),
            recorder: Duration::from_nanos(recorder_ns.saturating_sub(pace.recorder_ns)),
            throttled: throttled.saturating_sub(pace.throttled),
            samples: pace.samples(self.shared.tallies(), cost::of_samples(self.session)),
        };
        let changed = pace.controller.look(seen);
        if pace.controller.floor_wins() {
            pace.floor += seen.enabled;
        }
        (pace.recorded, pace.recorder_ns, pace.throttled) = (recorded, recorder_ns, throttled);
        if !changed {
            return Ok(());
        }
        pace.changes += 1;
        self.events.set_step(pace.controller.step()).context("cannot change the rate")?;
        self.note_rates()
    }

    /// Notes the rates in the recording.
    fn note_rates(&self) -> anyhow::Result<()> {
        let Some(pace) = &self.pace else { return Ok(()) };
        let change = RateChange { after_ns: nanos(self.clock.recorded()), hz: pace.hz() };
        // An output that takes nothing more says so when the rings are emptied.
        let _ = self.shared.append(&[&note::encode(&change.to_note())?]);
        Ok(())
    }

    /// What became of the budget, for a ledger that has its costs.
    pub(super) fn kept_budget(&self, ledger: &Ledger) -> Option<ledger::Budget> {
        let pace = self.pace.as_ref()?;
        let spent = SamplingCost::new(ledger, ShareOf::Cpus, cost::cpus(self.session))
            .and_then(|cost| cost.share);
        let hz = pace.hz().into_iter().max().unwrap_or(0);
        let Budget { share: asked, min_hz } = pace.budget;
        // Since the last look, too.
        let rest = if pace.controller.floor_wins() {
            self.clock.recorded().saturating_sub(pace.recorded)
        } else {
            Duration::ZERO
        };
        Some(ledger::Budget {
            asked,
            spent,
            min_hz,
            hz,
            changes: pace.changes,
            floor_ns: nanos(pace.floor + rest),
        })
    }
}
