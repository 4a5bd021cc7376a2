//! How often each event is sampled.

use tare_format::abi::Sampling as Sampled;
use tare_format::abi::bindings::{PERF_TYPE_BREAKPOINT, PERF_TYPE_TRACEPOINT};
use tare_kernel::host::Host;
use tare_measure::event::Event;

use crate::cli::resolved::record::{Rate, Sampling};
use crate::exit::Refusal;

/// Samples a second where the user doesn't say: enough for a percent of a second's work, and no multiple of the tick.
const FREQUENCY: u64 = 999;

/// What a frequency may be at most (`kernel.perf_event_max_sample_rate`).
const LIMIT: &str = "kernel.perf_event_max_sample_rate";

/// Rates within what the kernel allows.
pub(super) struct Rates<'a> {
    sampling: &'a Sampling,
    /// `None` where the kernel doesn't tell: it will refuse what is too much.
    limit: Option<u64>,
    /// What was lowered, said once.
    pub(super) note: Option<String>,
}

impl<'a> Rates<'a> {
    pub(super) fn new(sampling: &'a Sampling, host: &Host) -> Self {
        let limit = host.sysctl(LIMIT).ok().and_then(|limit| u64::try_from(limit).ok()).filter(|&limit| limit > 0);
        Self { sampling, limit, note: None }
    }

    /// How often an event is sampled: as its own terms say, or the command line, or as suits it.
    pub(super) fn of(&mut self, event: &Event) -> Result<Sampled, Refusal> {
        let of_event = event.sampling.rate;
        match (self.sampling.rate, of_event) {
            (Rate::Never, _) => Ok(Sampled::None),
            (_, Sampled::Period(_)) => Ok(of_event),
            (_, Sampled::Frequency(hz)) | (Rate::Frequency(hz), Sampled::None) => self.frequency(hz),
            (Rate::MaxFrequency, Sampled::None) => match self.limit {
                Some(limit) => Ok(Sampled::Frequency(limit)),
                None => Err(Refusal::usage(format!("-F max: {LIMIT} can't be read, give a number"))),
            },
            (Rate::Period(period), Sampled::None) => Ok(Sampled::Period(period)),
            (Rate::OfEvent, Sampled::None) if happens_one_by_one(event) => Ok(Sampled::Period(1)),
            (Rate::OfEvent, Sampled::None) => self.frequency(FREQUENCY),
        }
    }

    fn frequency(&mut self, hz: u64) -> Result<Sampled, Refusal> {
        let Some(limit) = self.limit.filter(|&limit| hz > limit) else { return Ok(Sampled::Frequency(hz)) };
        let raise = format!("{LIMIT} is {limit} (`sudo sysctl {LIMIT}={hz}` raises it)");
        if self.sampling.strict_frequency {
            return Err(Refusal::usage(format!("{hz} samples a second are not allowed: {raise}")));
        }
        self.note.get_or_insert_with(|| format!("{limit} samples a second instead of {hz}: {raise}"));
        Ok(Sampled::Frequency(limit))
    }
}

/// Tracepoints, probes and breakpoints: each occurrence says something of its own.
fn happens_one_by_one(event: &Event) -> bool {
    matches!(event.attr.kind, PERF_TYPE_TRACEPOINT | PERF_TYPE_BREAKPOINT) || super::is_probe(event)
}
