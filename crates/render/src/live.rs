//! The settings of a live profile, and its cost, in a line.

use std::fmt::Write;

use serde::Serialize;
use tare_format::ledger::SlowRateCause;

/// The settings of a live profile, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveFigures {
    /// Age up to which samples are shown, in seconds.
    pub window_s: f64,
    /// Current sampling frequency in Hz, per CPU; `None` if events have a fixed period.
    pub hz: Option<u64>,
    /// The requested frequency in Hz, where the budget doesn't allow it.
    pub requested_hz: Option<u64>,
    /// Why the frequency is lower than requested.
    pub slow_cause: Option<SlowRateCause>,
    /// The recorder's own CPU time since the last figures, as a share of one CPU, in percent.
    pub own_cpu_percent: f64,
    /// The cost of the samples in that time, as a share of all recorded CPUs, in percent; `None` if
    /// it is unknown.
    pub samples_percent: Option<f64>,
    /// The user has paused recording.
    pub is_paused: bool,
}

/// Formats the figures in one line.
#[must_use]
pub fn live_line(figures: &LiveFigures) -> String {
    let LiveFigures { window_s, hz, own_cpu_percent, samples_percent, is_paused, .. } = figures;
    let mut line = format!("last {window_s} s");
    // Writing to a string can't fail.
    if let Some(hz) = hz {
        let _ = write!(line, " at {hz} Hz");
    }
    if let (Some(requested_hz), Some(cause)) = (figures.requested_hz, figures.slow_cause) {
        let reason = match cause {
            SlowRateCause::Samples => "more samples exceed --max-overhead",
            SlowRateCause::Recorder => "tare's own work used up --max-overhead",
            SlowRateCause::Throttling => "the kernel throttled it",
        };
        let _ = write!(line, " (of {requested_hz}: {reason})");
    }
    let _ = write!(line, ", tare takes {own_cpu_percent:.2}% of a CPU");
    if let Some(percent) = samples_percent {
        let _ = write!(line, ", its samples {percent:.2}% of all");
    }
    if *is_paused {
        line += ", paused";
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_unknown_figures() {
        let mut figures =
            LiveFigures { window_s: 10.0, own_cpu_percent: 0.5, ..Default::default() };
        assert_eq!(live_line(&figures), "last 10 s, tare takes 0.50% of a CPU");
        figures =
            LiveFigures { hz: Some(99), samples_percent: Some(0.071), is_paused: true, ..figures };
        let all = "last 10 s at 99 Hz, tare takes 0.50% of a CPU, its samples 0.07% of all, paused";
        assert_eq!(live_line(&figures), all);
        figures = LiveFigures {
            hz: Some(19),
            requested_hz: Some(999),
            slow_cause: Some(SlowRateCause::Recorder),
            ..LiveFigures::default()
        };
        let slow = "last 0 s at 19 Hz (of 999: tare's own work used up --max-overhead), tare takes 0.00% of a CPU";
        assert_eq!(live_line(&figures), slow);
    }
}
