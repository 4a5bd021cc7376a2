//! The time that a sample steals, in a quarter of a second: what a recording can afford at its end,
//! where no study was made.
//!
//! It is the study's own method ([`super::handler`]) at one rate: a pinned loop reads the CPU's clock
//! while an event of this thread samples it. Each sample's own time says which gap is its own; the
//! loop's other gaps (ticks, other interrupts, a hypervisor's steal) stay out.

use std::time::Duration;

use fastrand::Rng;
use tare_events::Event;
use tare_format::abi::{Attr, Flags};
use tare_format::ledger::Estimate;
use tare_kernel::open::Kernel;
use tare_kernel::timestamp;

use super::handler::{SliceRunner, Slices};
use super::pinned::{PinError, PinnedThread};
use super::plan::CallGraph;
use super::sampler::{Sampler, SamplerError};

/// Samples a second: enough for an interval of a few percent, and few enough for caches to be what
/// they are while a program is recorded.
const HZ: u64 = 4000;
/// How long a slice lasts.
const SLICE_NS: u64 = 10_000_000;
/// With fewer samples the figure says nothing.
const LEAST_SAMPLES: u64 = 100;
/// Bytes of the ring buffer: a slice's samples, beside ring buffers that a recording still has.
const RING_BYTES: usize = 64 << 10;
/// The same with copied stacks.
const STACKS_RING_BYTES: usize = 512 << 10;

/// What a sample costs, by a short measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShortMeasurement {
    /// Microseconds that the program does without.
    pub stolen_us: Estimate,
    /// Samples that it comes from.
    pub samples: u64,
    /// Frames in their call chains; none without.
    pub frames: Option<f64>,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum ShortError {
    /// The loop can't be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The event can't be sampled.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The event doesn't occur in a loop, or the machine was too busy.
    #[error("only {0} samples of the loop")]
    TooFew(u64),
}

/// Measures the event of an attribute in user mode, for at most the given time; `limit_hz` is the
/// kernel's rate limit.
///
/// # Errors
/// See [`ShortError`].
pub fn measure(
    kernel: &dyn Kernel,
    attr: &Attr,
    call_graph: CallGraph,
    limit_hz: u64,
    time: Duration,
) -> Result<ShortMeasurement, ShortError> {
    let began = timestamp::raw_ns();
    let time_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let pinned = PinnedThread::to(None)?;
    let bytes = if call_graph == CallGraph::Dwarf { STACKS_RING_BYTES } else { RING_BYTES };
    let event = in_user_mode(attr);
    let hz = HZ.min(limit_hz);
    let sampler = Sampler::with_ring(kernel, &event, call_graph, hz, pinned.cpu(), bytes)?;
    let mut runner = SliceRunner::new(SLICE_NS, sampler);
    // What the first samples find in no cache is not what most cost.
    runner.slice(None, &mut Slices::default())?;
    runner.all = super::sampler::DeliveredSamples::default();
    let mut slices = Slices::default();
    while timestamp::raw_ns().saturating_sub(began) + SLICE_NS <= time_ns {
        runner.slice(None, &mut slices)?;
    }
    let delivered = runner.all;
    let stolen_us = slices.stolen_us(&mut Rng::with_seed(1));
    match stolen_us.filter(|_| slices.samples() >= LEAST_SAMPLES) {
        Some(stolen_us) => Ok(ShortMeasurement {
            stolen_us,
            samples: delivered.samples,
            frames: (call_graph != CallGraph::None)
                .then(|| delivered.frames as f64 / delivered.samples.max(1) as f64),
        }),
        None => Err(ShortError::TooFew(slices.samples())),
    }
}

/// The event alone. A loop is in user mode anyway, and sampling no more takes fewer rights.
fn in_user_mode(attr: &Attr) -> Event {
    let attr = Attr {
        kind: attr.kind,
        config: attr.config,
        config1: attr.config1,
        config2: attr.config2,
        config3: attr.config3,
        flags: Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV,
        ..Attr::default()
    };
    Event::new("calibration", attr)
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use tare_format::abi::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE};
    use tare_kernel::fake::{Scripted, ScriptedAnswer};
    use tare_kernel::open::System;

    use super::*;

    fn cpu_clock() -> Attr {
        Attr {
            kind: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_CPU_CLOCK.into(),
            // What belongs to a recording, and not to the loop.
            flags: Flags::INHERIT | Flags::ENABLE_ON_EXEC | Flags::EXCLUDE_USER,
            precise_ip: 3,
            ..Attr::default()
        }
    }

    #[test]
    fn a_loop_is_sampled_within_its_time() {
        let began = timestamp::raw_ns();
        let time = Duration::from_millis(150);
        match measure(&System, &cpu_clock(), CallGraph::Fp, u64::MAX, time) {
            Ok(measured) => {
                assert!(measured.stolen_us.value > 0.0, "{measured:?}");
                assert!(measured.samples >= LEAST_SAMPLES && measured.frames.is_some());
            }
            // Beside whatever else this machine does.
            Err(ShortError::TooFew(samples)) => println!("skipped: {samples} samples in 150 ms"),
            Err(error) => println!("skipped: {error}"),
        }
        assert!(timestamp::raw_ns() > began);
    }

    #[test]
    fn only_the_loops_user_mode_is_asked_for_and_a_refusal_is_told() {
        let kernel = Scripted::new().rule(|_, _| true, ScriptedAnswer::Refuse(Errno::ACCESS));
        let time = Duration::from_millis(1);
        let error = measure(&kernel, &cpu_clock(), CallGraph::None, 1000, time).unwrap_err();
        assert!(matches!(error, ShortError::Sampler(SamplerError::Open { hz: 1000, .. })));
        let opened = in_user_mode(&cpu_clock()).attr;
        assert_eq!(
            (opened.flags, opened.precise_ip),
            (Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV, 0)
        );
    }
}
