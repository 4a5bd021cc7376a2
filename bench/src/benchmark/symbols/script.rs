//! `tare script --inline` beside `perf script --inline`: copied stacks of tare's own release binary
//! with all debug info.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::json;

use super::programs;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::{Usage, run as run_command, succeed};
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Target number of samples.
const SAMPLES: f64 = 12_800.0;

/// Indices of the variants.
const FRESH: usize = 0;
const CACHED: usize = 1;
const PERF: usize = 2;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let file = recording(&scratch)?;
    let file = file.display().to_string();
    let cache = format!("XDG_CACHE_HOME={}", scratch.path("cache").display());
    let tare = setting.tare();
    let buildid = scratch.path("buildid").display().to_string();
    let variants = [
        Variant::new("tare, no cache", [&tare, "script", "--inline", "--no-cache", "-i", &file]),
        Variant::new("tare, warm cache", ["env", &cache, &tare, "script", "--inline", "-i", &file]),
        Variant::new(
            "perf",
            ["perf", "--buildid-dir", &buildid, "script", "--inline", "-i", &file],
        ),
    ];
    let counts = variants.iter().map(|variant| counted(&variant.words));
    let counts: Vec<Counts> = counts.collect::<anyhow::Result<_>>()?;
    let all = rounds(&variants, setting.rounds.unwrap_or(5))?;
    let tree = peak_of_tree(&variants[PERF].words)?;
    let mut report = Report::of_rounds(&variants, &all, findings(&all, tree));
    for (variant, counts) in variants.iter().zip(&counts) {
        let Counts { samples, frames, inlined } = counts;
        report.table.push(format!(
            "{}: {samples} samples, {frames} frames, {inlined} of them inlined",
            variant.name
        ));
    }
    report.table.push(format!(
        "perf and the addr2line that it starts: at most {} KiB at a time",
        tree / 1024
    ));
    report.raw = json!({
        "runs": report.raw, "samples": counts[FRESH].samples, "perf_with_addr2line_bytes": tree,
    });
    Ok(report)
}

/// Records tare with all debug info while it reports, by perf: copied stacks, and data mappings
/// (`-d`), which perf needs to unwind them.
fn recording(scratch: &Scratch<'_>) -> anyhow::Result<std::path::PathBuf> {
    let profiled = programs::tare()?.display().to_string();
    let read = scratch.path("read.data").display().to_string();
    let python = scratch.setting.workload("short-python.sh");
    let record = [&scratch.setting.tare(), "record", "-q", "-o", &read, "-F", "20000", "-g", "--"];
    let record = [&record[..], &["sh", &python, "100"]].concat();
    succeed(&record.into_iter().map(str::to_owned).collect::<Vec<_>>())?;
    let reports = format!(
        "for n in 1 2 3; do {profiled} report --json --no-cache -i {read} >/dev/null; \
         {profiled} script -i {read} >/dev/null; {profiled} flame -i {read} -o {read}.html; done"
    );
    let command = ["sh", "-c", &reports].map(str::to_owned);
    let used = run_command(&command)?;
    // The rate that yields about SAMPLES samples.
    let rate = (SAMPLES / (used.cpu_ns as f64 / 1e9)).clamp(100.0, 20_000.0).round().to_string();
    let file = scratch.path("perf.data");
    let mut words = scratch.recorder(crate::scratch::Tool::Perf, Path::new(&file));
    words.extend(
        ["-F", &rate, "-e", "cpu-clock:u", "-d", "--call-graph", "dwarf", "--"].map(str::to_owned),
    );
    words.extend(command);
    succeed(&words)?;
    Ok(file)
}

/// Counts of samples and frames in a script's output.
struct Counts {
    samples: usize,
    frames: usize,
    inlined: usize,
}

fn counted(words: &[String]) -> anyhow::Result<Counts> {
    let text = succeed(words)?.stdout;
    let frames = text.lines().filter(|line| line.starts_with(['\t', ' ']));
    Ok(Counts {
        samples: text.lines().filter(|line| line.contains("cpu-clock")).count(),
        frames: frames.count(),
        inlined: text.lines().filter(|line| line.ends_with("(inlined)")).count(),
    })
}

/// Measures the peak resident bytes of a command and its direct children together, sampled every 20
/// ms. `wait4(2)` doesn't report a process that the command didn't wait for.
fn peak_of_tree(words: &[String]) -> anyhow::Result<u64> {
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut most = 0;
    while child.try_wait()?.is_none() {
        let pid = child.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        let pids = children.split_whitespace().filter_map(|pid| pid.parse().ok()).chain([pid]);
        most = most.max(pids.map(resident_bytes).sum());
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(most)
}

/// Resident bytes of a process; 0 if it has exited.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn findings(rounds: &[Round], tree: u64) -> Vec<Finding> {
    let ratio = |of: fn(&Usage) -> u64, at: usize| {
        Estimate::of_ratios(
            rounds.iter().map(|round| of(&round.usage[at]) as f64 / of(&round.usage[PERF]) as f64),
        )
    };
    let finding = |what: &str, measured, bound| Finding {
        what: what.to_owned(),
        measured,
        bound: Bound::AtMost(bound),
    };
    let of_tree = |at: usize| {
        let peak = rounds.iter().map(|round| round.usage[at].peak_bytes as f64 / tree as f64);
        Estimate::of_ratios(peak)
    };
    let elapsed = |usage: &Usage| usage.elapsed_ns;
    let third = 1.0 / 3.0;
    vec![
        finding("elapsed without a cache, tare/perf", ratio(elapsed, FRESH), 1.0 / 8.0),
        finding("elapsed with a warm cache, tare/perf", ratio(elapsed, CACHED), 1.0 / 25.0),
        finding("peak memory without a cache, tare/perf with its addr2line", of_tree(FRESH), third),
        finding(
            "peak memory with a warm cache, tare/perf with its addr2line",
            of_tree(CACHED),
            third,
        ),
    ]
}
