//! What a flood's recording takes of the whole machine: the recorder, the kernel's threads that write
//! to the disk, and interrupts.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::super::words;
use super::EVENTS;
use crate::report::Estimate;
use crate::rounds::in_random_order;
use crate::run::succeed;
use crate::scratch::{Scratch, Tool};

/// Who records.
const WAYS: [(&str, Tool, &str); 3] = [
    ("tare", Tool::Tare, ""),
    ("tare, through the page cache", Tool::Tare, "--output-path=write"),
    ("perf, default rings", Tool::Perf, ""),
];

/// Seconds of the loop.
const SECONDS: &str = "10";

/// One recording.
#[derive(Clone, Debug, Serialize)]
struct Busy {
    /// Of all CPUs, until what was written is on the disk.
    busy_s: f64,
    /// Of it, the loop's own.
    loop_s: f64,
    file_bytes: u64,
}

impl Busy {
    fn a_gb(&self) -> f64 {
        (self.busy_s - self.loop_s) / (self.file_bytes as f64 / 1e9)
    }
}

/// Each way once.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Round {
    order: Vec<usize>,
    runs: Vec<Busy>,
}

/// Each way so often.
pub(super) fn rounds(scratch: &Scratch<'_>, count: usize) -> anyhow::Result<Vec<Round>> {
    let round = |_| {
        let (order, runs) = in_random_order(&WAYS, |(name, tool, options)| {
            run(scratch, *tool, options).with_context(|| (*name).to_owned())
        })?;
        Ok(Round { order, runs })
    };
    (0..count).map(round).collect()
}

/// A line for each way.
pub(super) fn table(rounds: &[Round]) -> Vec<String> {
    let line = |(at, (name, ..)): (usize, &(&str, Tool, &str))| {
        let a_gb = rounds.iter().map(|round| round.runs[at].a_gb()).collect();
        format!("{name:<34} the machine's busy time, s per GB {}", Estimate::median(a_gb))
    };
    WAYS.iter().enumerate().map(line).collect()
}

/// Busy time for each GB, tare's over perf's.
pub(super) fn ratio(rounds: &[Round]) -> Estimate {
    let ratios = rounds.iter().map(|round| round.runs[0].a_gb() / round.runs[2].a_gb());
    Estimate::median(ratios.collect())
}

fn run(scratch: &Scratch<'_>, tool: Tool, options: &str) -> anyhow::Result<Busy> {
    let [file, left, used] = ["recording", "left", "used"].map(|name| scratch.path(name));
    let text = |path: &Path| path.display().to_string();
    let line = [
        vec![scratch.setting.workload("left"), text(&left)],
        scratch.recorder(tool, &file),
        words(&format!("{EVENTS} {options} --")),
        vec![scratch.setting.workload("used"), text(&used)],
        vec![scratch.setting.workload("flood"), SECONDS.to_owned()],
    ];
    succeed(&line.concat())?;
    let numbers = |path: &Path| -> anyhow::Result<Vec<f64>> {
        let text = std::fs::read_to_string(path)?;
        Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
    };
    let left = numbers(&left)?;
    let used = numbers(&used)?;
    let ([all_ns, left_ns, ..], [loop_us, ..]) = (&left[..], &used[..]) else {
        anyhow::bail!("numbers are missing: {left:?}, {used:?}")
    };
    let file_bytes = std::fs::metadata(&file)?.len();
    for name in ["recording", "recording.old"] {
        let _ = std::fs::remove_file(scratch.path(name));
    }
    Ok(Busy { busy_s: (all_ns - left_ns) / 1e9, loop_s: loop_us / 1e6, file_bytes })
}
