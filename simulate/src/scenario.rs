//! The random choices of a seed: machine, options, disk.

use std::time::Duration;

use fastrand::Rng;
use rustix::io::Errno;
use tare_record::options::Keep;
use tare_record::output::{FileSwitch, OutputOptions, PathChoice};

use crate::disk::{Failing, Faults};

/// A machine, the options of its recording, and the faults of its disk.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// Number of CPUs.
    pub(crate) cpus: u32,
    /// Events, in the syntax of `-e`.
    pub(crate) events: &'static str,
    /// Budget of sampling as a share of the CPUs' time.
    pub(crate) budget: Option<f64>,
    /// Size of each ring in bytes.
    pub(crate) ring_bytes: u64,
    /// Which records the recording keeps.
    pub(crate) keep: Keep,
    /// Whether running tasks are described at the end instead of at the start.
    pub(crate) describes_at_the_end: bool,
    /// Destination of the records.
    pub(crate) to: RecordDestination,
    /// Output options.
    pub(crate) output: OutputOptions,
    /// Whether records pass the stage that unwinds stacks, which has a queue and a thread.
    pub(crate) unwinds: bool,
    /// Faults of the disk.
    pub(crate) faults: Faults,
    /// Whether the kernel produces records while the recorder writes.
    pub(crate) goes_on_meanwhile: bool,
    /// Number of random steps.
    pub(crate) steps: u32,
}

/// Destination of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordDestination {
    /// One file, or several.
    File,
    /// A FIFO.
    Stream,
    /// A sink in this process.
    Sink,
}

const EVENTS: [&str; 4] =
    ["cpu-clock", "cpu-clock,page-faults", "page-faults,context-switches,cpu-clock", "task-clock"];

impl Scenario {
    /// Whether a thread of its own writes the output, or may once a file grows fast.
    pub(crate) fn is_queued(&self) -> bool {
        self.unwinds
            || self.output.compress.is_some()
            || self.output.choice == PathChoice::Direct
            || (self.to == RecordDestination::File
                && self.output.direct_at < OutputOptions::default().direct_at)
            || self.to == RecordDestination::Stream
    }

    /// Draws a scenario.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let to = match rng.u32(..10) {
            0 => RecordDestination::Sink,
            1 => RecordDestination::Stream,
            _ => RecordDestination::File,
        };
        let output = draw_output(rng, to);
        let keep = match rng.u32(..8) {
            0 => Keep::WhatFits,
            1 => Keep::Last(Duration::from_millis(rng.u64(1..3000))),
            _ => Keep::All,
        };
        let events = EVENTS[rng.usize(..EVENTS.len())];
        // Only clock events can change their rate.
        let has_rates = events.split(',').all(|event| event.ends_with("-clock"));
        Self {
            cpus: rng.u32(1..=4),
            events,
            budget: (has_rates && rng.bool()).then(|| [0.001, 0.01, 0.05][rng.usize(..3)]),
            ring_bytes: 4096 << rng.u32(..5),
            keep,
            describes_at_the_end: rng.u32(..8) == 0,
            to,
            faults: draw_faults(rng, to),
            output,
            goes_on_meanwhile: rng.bool(),
            steps: rng.u32(1..60),
            unwinds: rng.u32(..4) == 0,
        }
    }
}

fn draw_output(rng: &mut Rng, to: RecordDestination) -> OutputOptions {
    let switch = (to == RecordDestination::File && rng.u32(..3) == 0).then(|| match rng.u32(..3) {
        0 => FileSwitch::Size(rng.u64(4096..200_000)),
        1 => FileSwitch::Time(Duration::from_millis(rng.u64(100..4000))),
        _ => FileSwitch::Signal,
    });
    OutputOptions {
        choice: if to == RecordDestination::File && rng.u32(..4) == 0 {
            PathChoice::Direct
        } else {
            PathChoice::default()
        },
        compress: (to != RecordDestination::Sink && rng.u32(..4) == 0).then(|| rng.i32(1..4)),
        sync: rng.u32(..6) == 0,
        max_size: (switch.is_none() && rng.u32(..8) == 0).then(|| rng.u64(4096..200_000)),
        switch,
        timestamp: to == RecordDestination::File && rng.u32(..8) == 0,
        queue_bytes: 1 << rng.u32(..21),
        // The growth, in bytes per second, above which `auto` switches to direct output.
        direct_at: if rng.u32(..3) == 0 {
            rng.u64(..50_000)
        } else {
            OutputOptions::default().direct_at
        },
        ..OutputOptions::default()
    }
}

fn draw_faults(rng: &mut Rng, to: RecordDestination) -> Faults {
    let is_odd = rng.bool();
    let failing = (is_odd && rng.u32(..4) == 0).then(|| Failing {
        from: rng.u64(..120),
        for_good: rng.bool(),
        errno: [Errno::IO, Errno::DQUOT, Errno::NOSPC, Errno::FBIG][rng.usize(..4)],
    });
    Faults {
        room: (is_odd && rng.u32(..4) == 0).then(|| rng.u64(1000..300_000)),
        most: if rng.u32(..4) == 0 { rng.usize(1..20_000) } else { usize::MAX },
        failing,
        takes: Duration::from_micros(if rng.u32(..4) == 0 { rng.u64(..100_000) } else { 0 }),
        // Only files can be examined at a given call.
        cut_at: (to == RecordDestination::File && rng.bool()).then(|| rng.u64(..80)),
    }
}
