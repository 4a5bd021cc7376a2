//! How often each event is sampled.

use std::cell::OnceCell;

use tare_events::Event;
use tare_format::abi::Sampling as Sampled;
use tare_format::abi::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE, PERF_TYPE_TRACEPOINT,
};
use tare_kernel::host::Host;
use tare_kernel::open::Kernel;

use super::is_clock;
use super::speed::cycles_per_second;
use crate::error::PlanError;
use crate::options::{Rate, Sampling};
use crate::warning::Warning;
use tare_format::ledger::FixedPeriod;

/// Default frequency in Hz: ten samples per percent of a second, and no multiple of the timer tick.
const FREQUENCY: u64 = 999;

/// The limit on frequencies.
const LIMIT: &str = "kernel.perf_event_max_sample_rate";

/// Nanoseconds per second.
const NANOSECONDS: u64 = 1_000_000_000;

/// Sampling rates within the kernel's limit.
pub(super) struct Rates<'a> {
    sampling: &'a Sampling,
    host: &'a Host,
    kernel: &'a dyn Kernel,
    /// The limit in Hz; `None` if it can't be read or isn't positive: the kernel then refuses
    /// higher frequencies.
    limit: Option<u64>,
    /// A warning if a frequency was lowered, given once.
    pub(super) warning: Option<Warning>,
    /// Cycles of a CPU per second, once computed.
    speed: OnceCell<Option<u64>>,
}

impl<'a> Rates<'a> {
    pub(super) fn new(sampling: &'a Sampling, host: &'a Host, kernel: &'a dyn Kernel) -> Self {
        let limit = host
            .sysctl(LIMIT)
            .ok()
            .and_then(|limit| u64::try_from(limit).ok())
            .filter(|&limit| limit > 0);
        Self { sampling, host, kernel, limit, warning: None, speed: OnceCell::new() }
    }

    /// Returns the rate of an event: from its own terms, from the options, or its default. With
    /// [`Rate::Never`] no event is sampled.
    pub(super) fn rate_for(&mut self, event: &Event) -> Result<Sampled, PlanError> {
        let of_event = event.sampling.rate;
        match (self.sampling.rate, of_event) {
            (Rate::Never, _) => Ok(Sampled::None),
            (_, Sampled::Period(_)) => Ok(of_event),
            (_, Sampled::Frequency(hz)) | (Rate::Frequency(hz), Sampled::None) => {
                self.frequency(hz)
            }
            (Rate::MaxFrequency, Sampled::None) => match self.limit {
                Some(limit) => Ok(Sampled::Frequency(limit)),
                None => Err(PlanError::NoMaxRate),
            },
            (Rate::Period(period), Sampled::None) => Ok(Sampled::Period(period)),
            (Rate::OfEvent, Sampled::None) if is_always_sampled(event) => Ok(Sampled::Period(1)),
            (Rate::OfEvent, Sampled::None) => self.frequency(FREQUENCY),
        }
    }

    /// Returns the period for a frequency, for events that advance steadily. With a frequency, the
    /// kernel would make each child find the period anew, from 1 or from another task's. Returns
    /// `None` for other events, and if children inherit nothing.
    pub(super) fn fixed(&mut self, event: &Event, rate: Sampled) -> Option<FixedPeriod> {
        let Sampled::Frequency(hz) = rate else { return None };
        if !self.sampling.fixed_periods || event.inherit == Some(false) {
            return None;
        }
        let a_second = if is_clock(&event.attr) {
            NANOSECONDS
        } else if is_cycles(event) {
            let host = self.host;
            let kernel = self.kernel;
            (*self.speed.get_or_init(|| cycles_per_second(host, kernel)))?
        } else {
            return None;
        };
        Some(FixedPeriod { hz, period: (a_second / hz).max(1), a_second })
    }

    fn frequency(&mut self, hz: u64) -> Result<Sampled, PlanError> {
        let Some(limit) = self.limit.filter(|&limit| hz > limit) else {
            return Ok(Sampled::Frequency(hz));
        };
        if self.sampling.strict_frequency {
            return Err(PlanError::RateNotAllowed { asked_hz: hz, limit_hz: limit });
        }
        self.warning.get_or_insert(Warning::LowerRate { asked_hz: hz, limit_hz: limit });
        Ok(Sampled::Frequency(limit))
    }
}

/// Whether every occurrence is sampled by default: tracepoints, probes and breakpoints.
fn is_always_sampled(event: &Event) -> bool {
    matches!(event.attr.kind, PERF_TYPE_TRACEPOINT | PERF_TYPE_BREAKPOINT) || super::is_probe(event)
}

/// Whether the event is generic cycles. For one kind of cores, the upper bits hold that PMU's
/// number (`PERF_PMU_TYPE_SHIFT`).
fn is_cycles(event: &Event) -> bool {
    event.attr.kind == PERF_TYPE_HARDWARE
        && event.attr.config & u64::from(u32::MAX) == u64::from(PERF_COUNT_HW_CPU_CYCLES)
}
