//! What watching costs while it goes on.

use std::fmt::Write;

use serde::Serialize;

/// What is watched now, and what that costs.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LiveFigures {
    /// From when on samples are shown, in seconds before now.
    pub window_s: f64,
    /// Samples a second that each CPU is asked for now; `None` where events are not sampled by time.
    pub hz: Option<u64>,
    /// The recorder's own CPU time since the last figures, as a share of one CPU, in percent.
    pub own_cpu_percent: f64,
    /// What samples took in that time from those that were sampled, as a share of all CPUs that are
    /// recorded, in percent; `None` where that is not known.
    pub samples_percent: Option<f64>,
    /// Nothing is recorded: the user has stopped it for a while.
    pub is_paused: bool,
}

/// The figures in a line.
#[must_use]
pub fn live_line(figures: &LiveFigures) -> String {
    let LiveFigures { window_s, hz, own_cpu_percent, samples_percent, is_paused } = figures;
    let mut line = format!("last {window_s} s");
    // Memory takes all that is written to it.
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
    fn what_is_not_known_is_not_said() {
        let mut figures =
            LiveFigures { window_s: 10.0, own_cpu_percent: 0.5, ..Default::default() };
        assert_eq!(live_line(&figures), "last 10 s, tare takes 0.50% of a CPU");
        figures =
            LiveFigures { hz: Some(99), samples_percent: Some(0.071), is_paused: true, ..figures };
        let all = "last 10 s at 99 Hz, tare takes 0.50% of a CPU, its samples 0.07% of all, paused";
        assert_eq!(live_line(&figures), all);
    }
}
