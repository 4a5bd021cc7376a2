//! Measures the stolen time of a sample in a quarter of a second, for a recording on a host without
//! a study or calibration.
//!
//! It uses the study's method ([`super::handler`]) at one rate: a pinned loop reads the CPU's clock
//! while an event of this thread samples it. Each sample's time identifies its gap; the loop's
//! other gaps (ticks, other interrupts, a hypervisor's steal) don't count.

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

/// Sampling rate in Hz: enough for an interval of a few percent, and low enough that caches are as
/// cold as during a recording.
const HZ: u64 = 4000;
/// Length of a slice in nanoseconds.
const SLICE_NS: u64 = 10_000_000;
/// Minimum number of samples for a result.
const LEAST_SAMPLES: u64 = 100;
/// Bytes of the ring buffer: enough for a slice, and within the limit of locked memory beside the
/// ring buffers of a recording.
const RING_BYTES: usize = 64 << 10;
/// Bytes of the ring buffer with copied stacks.
const STACKS_RING_BYTES: usize = 512 << 10;

/// The result of a short measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShortMeasurement {
    /// Microseconds that a sample steals from the program.
    pub stolen_us: Estimate,
    /// Number of samples.
    pub samples: u64,
    /// Average number of entries in their call chains; `None` without call chains.
    pub frames: Option<f64>,
}

/// The reason why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum ShortError {
    /// The loop can't be pinned.
    #[error(transparent)]
    Pin(#[from] PinError),
    /// The event can't be sampled.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The event doesn't occur in a loop, the machine was too busy, or the time too short.
    #[error("only {0} samples of the loop")]
    TooFew(u64),
}

/// Measures the event of an attribute in user mode; `limit_hz` is the kernel's rate limit. After
/// the first slice, none starts that would end later than `time` after the call.
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
    let bytes = if call_graph.has_copies() { STACKS_RING_BYTES } else { RING_BYTES };
    let event = in_user_mode(attr);
    let hz = HZ.min(limit_hz);
    let sampler = Sampler::with_ring(kernel, &event, call_graph, hz, pinned.cpu(), bytes)?;
    let mut runner = SliceRunner::new(SLICE_NS, sampler);
    // The first samples cost more, as the kernel's code isn't cached.
    runner.run_slice(None, &mut Slices::default())?;
    runner.all = super::sampler::DeliveredSamples::default();
    let mut slices = Slices::default();
    while timestamp::raw_ns().saturating_sub(began) + SLICE_NS <= time_ns {
        runner.run_slice(None, &mut slices)?;
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

/// Reduces an attribute to its event, in user mode: the loop runs there, and sampling only user
/// mode needs fewer permissions.
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
            // Settings of a recording that must not be used for the loop.
            flags: Flags::INHERIT | Flags::ENABLE_ON_EXEC | Flags::EXCLUDE_USER,
            precise_ip: 3,
            ..Attr::default()
        }
    }

    #[test]
    fn measures_the_stolen_time_of_a_loop() {
        let began = timestamp::raw_ns();
        let time = Duration::from_millis(150);
        match measure(&System, &cpu_clock(), CallGraph::Fp, u64::MAX, time) {
            Ok(measured) => {
                assert!(measured.stolen_us.value > 0.0, "{measured:?}");
                assert!(measured.samples >= LEAST_SAMPLES && measured.frames.is_some());
            }
            // The machine may be busy.
            Err(ShortError::TooFew(samples)) => println!("skipped: {samples} samples in 150 ms"),
            Err(error) => println!("skipped: {error}"),
        }
        assert!(timestamp::raw_ns() > began);
    }

    #[test]
    fn samples_only_user_mode_and_reports_a_refusal() {
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
