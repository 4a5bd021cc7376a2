//! Measurements of one run, and the metrics that are compared.

use std::time::Duration;

/// One of the two commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The command after `--`, the baseline.
    A,
    /// The command given to `--vs`.
    B,
}

/// Measurements of one run of one command.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurement {
    /// Time from the command's release to its end.
    pub elapsed: Duration,
    /// User and system time, including that of children it waited for.
    pub cpu: Duration,
    /// The largest resident set of its process, or of a descendant that was waited for, in bytes;
    /// `None` if it isn't known.
    pub peak_memory: Option<u64>,
    /// The count of each event in its unit, in the events' order; an estimate if the event was
    /// multiplexed, `None` if it wasn't counted.
    pub counts: Vec<Option<f64>>,
    /// Its exit status, or 128 + the number of the signal that killed it.
    pub status: u8,
    /// The signal that killed it.
    pub signal: Option<i32>,
}

/// One run of each command, one right after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    /// The command that ran first.
    pub first: Side,
    /// The run of A.
    pub a: Measurement,
    /// The run of B.
    pub b: Measurement,
}

impl Pair {
    /// The run of one command.
    #[must_use]
    pub fn run(&self, side: Side) -> &Measurement {
        if side == Side::A { &self.a } else { &self.b }
    }
}

/// A compared quantity.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// Elapsed time, in seconds.
    Time,
    /// User and system time together, in seconds.
    CpuTime,
    /// Peak resident memory, in bytes.
    PeakMemory,
    /// An event.
    Event {
        /// Its index in [`Measurement::counts`].
        index: usize,
        /// Its name in results.
        name: String,
        /// The unit of a scaled count; empty for plain occurrences.
        unit: String,
        /// Size of one count: 1, or the unit's scale.
        step: f64,
    },
}

impl Metric {
    /// Lists time, CPU time, peak memory, then the events (name, unit, size of one count).
    #[must_use]
    pub fn all(events: impl IntoIterator<Item = (String, String, f64)>) -> Vec<Self> {
        let events = events
            .into_iter()
            .enumerate()
            .map(|(index, (name, unit, step))| Self::Event { index, name, unit, step });
        [Self::Time, Self::CpuTime, Self::PeakMemory].into_iter().chain(events).collect()
    }

    /// Its name in tables and in `--fail-if`.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Time => "time",
            Self::CpuTime => "cpu-time",
            Self::PeakMemory => "peak-memory",
            Self::Event { name, .. } => name,
        }
    }

    /// Its unit: `s`, `bytes`, the event's own, or nothing for plain counts.
    #[must_use]
    pub fn unit(&self) -> &str {
        match self {
            Self::Time | Self::CpuTime => "s",
            Self::PeakMemory => "bytes",
            Self::Event { unit, .. } => unit,
        }
    }

    /// Its resolution: the smallest difference between two runs. Smaller average differences are
    /// not relevant.
    #[must_use]
    pub fn step(&self) -> f64 {
        match self {
            Self::Time => 1e-9,
            // struct rusage counts in microseconds.
            Self::CpuTime => 1e-6,
            // ru_maxrss counts in KiB, memory comes in pages of 4 KiB or more.
            Self::PeakMemory => 4096.0,
            Self::Event { step, .. } => *step,
        }
    }

    /// Its value in one run, in its unit; `None` if it isn't known.
    #[must_use]
    pub fn value_in(&self, run: &Measurement) -> Option<f64> {
        match self {
            Self::Time => Some(run.elapsed.as_secs_f64()),
            Self::CpuTime => Some(run.cpu.as_secs_f64()),
            Self::PeakMemory => run.peak_memory.map(|bytes| bytes as f64),
            Self::Event { index, .. } => run.counts.get(*index).copied().flatten(),
        }
    }
}
