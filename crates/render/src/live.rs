//! The settings of a live profile, and its cost, in a line.

use std::fmt::Write;

use serde::Serialize;

/// The settings of a live profile, and its cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveFigures {
    /// Age up to which samples are shown, in seconds.
    pub window_s: f64,
    /// Current sampling frequency in Hz, per CPU; `None` if events have a fixed period.
    pub hz: Option<u64>,
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
    let LiveFigures { window_s, hz, own_cpu_percent, samples_percent, is_paused } = figures;
    let mut line = format!("last {window_s} s");
    // Writing to a string can't fail.
    if let Some(hz) = hz {
        let _ = write!(line, " at {hz} Hz");
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
    }
}
