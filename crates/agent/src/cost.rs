//! What a recording costs, and what its recorder knows about itself.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tare_profile::Losses;
use tare_record::Recording;
use tare_store::Figures;

use crate::window::ClosedWindow;
use crate::writer::FinishedWindow;

/// What a recording has cost up to the last window.
#[derive(Clone, Copy, Debug, Default)]
pub struct CostMeter {
    /// CPU time of this process, in microseconds.
    pub cpu_us: u64,
    /// Time for sampling in the kernel, in microseconds.
    pub kernel_us: u64,
    /// Samples and records that were lost.
    pub lost: u64,
}

/// What the recorder knows about itself.
#[derive(Clone, Copy, Debug)]
pub struct RecorderFacts {
    /// The sampling rate, in Hz.
    pub rate_hz: u64,
    /// Number of CPUs.
    pub cpus: u64,
    /// Time that samples have taken in the kernel, in microseconds.
    pub kernel_us: u64,
}

impl RecorderFacts {
    /// Asks the recorder.
    #[must_use]
    pub fn read(recording: &Recording) -> Self {
        let kernel_s = recording.cost_of_samples().map_or(0.0, |us| us.value * 1e-6);
        let kernel = Duration::try_from_secs_f64(kernel_s).unwrap_or_default();
        let kernel_us = u64::try_from(kernel.as_micros()).unwrap_or(u64::MAX);
        Self { rate_hz: recording.rate_hz().unwrap_or(0), cpus: recording.cpus() as u64, kernel_us }
    }
}

impl CostMeter {
    /// Returns the costs and losses since the last call.
    #[must_use]
    pub fn read(&mut self, kernel_us: u64, losses: &Losses) -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let now = Self {
            cpu_us: u64::try_from(cpu.tv_sec).unwrap_or(0) * 1_000_000
                + u64::try_from(cpu.tv_nsec).unwrap_or(0) / 1000,
            kernel_us,
            lost: losses.lost_samples + losses.lost_records,
        };
        let before = std::mem::replace(self, now);
        Self {
            cpu_us: now.cpu_us.saturating_sub(before.cpu_us),
            kernel_us: now.kernel_us.saturating_sub(before.kernel_us),
            lost: now.lost.saturating_sub(before.lost),
        }
    }
}

/// Ends a window, with what was lost and used since the last one.
#[must_use]
pub fn finish_window(
    window: ClosedWindow,
    cost: CostMeter,
    facts: RecorderFacts,
) -> FinishedWindow {
    let ClosedWindow { builder, counts } = window;
    let figures = Figures {
        samples: counts.samples,
        lost: cost.lost,
        truncated: counts.truncated,
        unnamed: counts.unnamed,
        recorder_cpu_us: cost.cpu_us,
        kernel_us: cost.kernel_us,
        rate_millihertz: facts.rate_hz * 1000,
        cpus: facts.cpus,
    };
    let bytes = builder.memory();
    FinishedWindow { segment: Arc::new(builder.finish(figures)), samples: counts.samples, bytes }
}
