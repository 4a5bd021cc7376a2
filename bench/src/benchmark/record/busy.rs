//! The CPU time that recording a flood takes from the whole machine: the recorder, the kernel
//! threads that write to the disk, and interrupts.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use super::{SYSTEM_CALLS, words};
use crate::report::Estimate;
use crate::rounds::in_random_order;
use crate::run::succeed;
use crate::scratch::{Scratch, Tool};

/// The recorders: name, tool and options.
const WAYS: [(&str, Tool, &str); 3] = [
    ("tare", Tool::Tare, ""),
    ("tare, through the page cache", Tool::Tare, "--output-path=write"),
    ("perf, default rings", Tool::Perf, ""),
];

/// Duration of the loop in seconds.
const SECONDS: &str = "10";

/// CPU time around one recording.
#[derive(Clone, Debug, Serialize)]
struct Busy {
    /// Busy time of all CPUs until the recording is on the disk, in seconds.
    busy_s: f64,
    /// The loop's share of it, in seconds.
    loop_s: f64,
    file_bytes: u64,
}

impl Busy {
    fn seconds_per_gb(&self) -> f64 {
        (self.busy_s - self.loop_s) / (self.file_bytes as f64 / 1e9)
    }
}

/// One recording by each recorder.
#[derive(Clone, Debug, Serialize)]
pub(super) struct BusyRound {
    order: Vec<usize>,
    runs: Vec<Busy>,
}

pub(super) fn rounds(scratch: &Scratch<'_>, count: usize) -> anyhow::Result<Vec<BusyRound>> {
    let round = |_| {
        let (order, runs) = in_random_order(&WAYS, |(name, tool, options)| {
            run(scratch, *tool, options).with_context(|| (*name).to_owned())
        })?;
        Ok(BusyRound { order, runs })
    };
    (0..count).map(round).collect()
}

/// One line per recorder.
pub(super) fn table(rounds: &[BusyRound]) -> Vec<String> {
    let line = |(at, (name, ..)): (usize, &(&str, Tool, &str))| {
        let per_gb = rounds.iter().map(|round| round.runs[at].seconds_per_gb()).collect();
        format!("{name:<34} the machine's busy time, s per GB {}", Estimate::median(per_gb))
    };
    WAYS.iter().enumerate().map(line).collect()
}

/// Busy time per GB without the loop's, tare's over perf's.
pub(super) fn ratio(rounds: &[BusyRound]) -> Estimate {
    let ratios =
        rounds.iter().map(|round| round.runs[0].seconds_per_gb() / round.runs[2].seconds_per_gb());
    Estimate::median(ratios.collect())
}

fn run(scratch: &Scratch<'_>, tool: Tool, options: &str) -> anyhow::Result<Busy> {
    let [file, left, used] = ["recording", "left", "used"].map(|name| scratch.path(name));
    let text = |path: &Path| path.display().to_string();
    let line = [
        vec![scratch.setting.workload("left"), text(&left)],
        scratch.recorder(tool, &file),
        words(&format!("{SYSTEM_CALLS} {options} --")),
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
    let [all_ns, left_ns, ..] = left[..] else { anyhow::bail!("numbers are missing: {left:?}") };
    let [loop_us, ..] = used[..] else { anyhow::bail!("a number is missing: {used:?}") };
    let file_bytes = std::fs::metadata(&file)?.len();
    for name in ["recording", "recording.old"] {
        let _ = std::fs::remove_file(scratch.path(name));
    }
    Ok(Busy { busy_s: (all_ns - left_ns) / 1e9, loop_s: loop_us / 1e6, file_bytes })
}
