//! CPU time and memory of the agent: at rest, beside a loop of compilations at 19 and 99 Hz, and
//! beside it those of another profiler (`--peer`).

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;

use super::agent;
use super::segments::{self, StoredSegment};
use crate::background::{BackgroundLoad, RunningProgram};
use crate::benchmark::follow::build::rules;
use crate::benchmark::zstd;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::in_random_order;
use crate::scratch::Scratch;
use crate::setting::Setting;

/// Length of a run.
const SECONDS: u64 = 900;

/// A profiler with the machine that it watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Case {
    Idle,
    Build19,
    Build99,
    Peer19,
}

impl Case {
    fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle machine, 19 Hz",
            Self::Build19 => "compilations, 19 Hz",
            Self::Build99 => "compilations, 99 Hz",
            Self::Peer19 => "the peer, compilations, 19 Hz",
        }
    }

    /// Limits of the CPU time in percent of a CPU, and of the peak memory in MB.
    fn limits(self) -> Option<[f64; 2]> {
        match self {
            Self::Idle => Some([0.1, 40.0]),
            Self::Build19 => Some([1.0, 100.0]),
            Self::Build99 => Some([2.0, 100.0]),
            Self::Peer19 => None,
        }
    }
}

/// What a profiler used in a run.
#[derive(Clone, Debug, Serialize)]
struct CostRun {
    seconds: f64,
    /// CPU time of the process, with that of its start.
    cpu_s: f64,
    peak_bytes: u64,
    /// Bytes of the store's files.
    store_bytes: u64,
    segments: Vec<StoredSegment>,
}

impl CostRun {
    fn cpu_percent(&self) -> f64 {
        100.0 * self.cpu_s / self.seconds
    }

    fn sum(&self, of: fn(&StoredSegment) -> u64) -> f64 {
        self.segments.iter().map(of).sum::<u64>() as f64
    }
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let objects = scratch.path("objects");
    std::fs::create_dir(&objects)?;
    let makefile = scratch.path("Makefile");
    std::fs::write(&makefile, rules(&zstd::sources()?, &objects))?;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let build = format!("while :; do make -s -j{cpus} -B -f '{}'; done", makefile.display());
    let mut cases = vec![Case::Idle, Case::Build19, Case::Build99];
    cases.extend(setting.peer.is_some().then_some(Case::Peer19));
    let mut rounds: Vec<Vec<CostRun>> = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(1) {
        rounds.push(in_random_order(&cases, |case| measure(&scratch, *case, &build))?.1);
    }
    let mut table = Vec::new();
    let mut findings = Vec::new();
    for (at, case) in cases.iter().enumerate() {
        let runs: Vec<&CostRun> = rounds.iter().map(|round| &round[at]).collect();
        table.push(line(*case, &runs));
        findings.extend(case_findings(*case, &runs));
    }
    Ok(Report { table, findings, raw: json!({ "cases": cases, "rounds": rounds }) })
}

fn line(case: Case, runs: &[&CostRun]) -> String {
    let total = |of: &dyn Fn(&CostRun) -> f64| runs.iter().map(|run| of(run)).sum::<f64>();
    let samples = total(&|run| run.sum(|segment| segment.samples));
    let mut line = format!(
        "{}: {:.2}% of a CPU, peak {:.1} MB",
        case.name(),
        100.0 * total(&|run| run.cpu_s) / total(&|run| run.seconds),
        runs.iter().map(|run| run.peak_bytes).max().unwrap_or(0) as f64 / 1e6
    );
    if samples > 0.0 {
        line += &format!(
            ", {samples} samples, {} lost, {:.2}% with incomplete stacks, {:.2} bytes per sample",
            total(&|run| run.sum(|segment| segment.lost)),
            100.0 * total(&|run| run.sum(|segment| segment.truncated)) / samples,
            total(&|run| run.store_bytes as f64) / samples
        );
    }
    line
}

fn case_findings(case: Case, runs: &[&CostRun]) -> Vec<Finding> {
    let Some([cpu, memory]) = case.limits() else { return Vec::new() };
    let median =
        |of: &dyn Fn(&CostRun) -> f64| Estimate::median(runs.iter().map(|run| of(run)).collect());
    let finding = |what: &str, measured, most| Finding {
        what: format!("{what}, {}", case.name()),
        measured,
        bound: Bound::AtMost(most),
    };
    vec![
        finding("CPU time, % of a CPU", median(&CostRun::cpu_percent), cpu),
        finding("peak memory, MB", median(&|run| run.peak_bytes as f64 / 1e6), memory),
    ]
}

fn measure(scratch: &Scratch<'_>, case: Case, build: &str) -> anyhow::Result<CostRun> {
    let setting = scratch.setting;
    let store = scratch.path("store");
    let load = (case != Case::Idle).then(|| BackgroundLoad::start(build)).transpose()?;
    let mut command = match case {
        Case::Peer19 => peer(setting.peer.as_deref().context("no peer was given")?),
        Case::Build99 => agent(&setting.tare, &store, &["--frequency", "99"]),
        Case::Idle | Case::Build19 => agent(&setting.tare, &store, &[]),
    };
    let began = Instant::now();
    let profiler = RunningProgram::start(&mut command)?;
    std::thread::sleep(Duration::from_secs(setting.seconds.unwrap_or(SECONDS)));
    let (cpu_s, peak_bytes) = usage(profiler.pid())?;
    let seconds = began.elapsed().as_secs_f64();
    profiler.stop()?;
    drop(load);
    let mut run = CostRun { seconds, cpu_s, peak_bytes, store_bytes: 0, segments: Vec::new() };
    if case != Case::Peer19 {
        run.segments = segments::read(&store)?.segments;
        run.store_bytes = segments::bytes(&store)?;
        std::fs::remove_dir_all(&store)?;
    }
    Ok(run)
}

/// The command line of opentelemetry-ebpf-profiler. It sends to a closed port.
fn peer(path: &Path) -> Command {
    let mut command = Command::new(path);
    command.args(["-collection-agent", "127.0.0.1:9", "-disable-tls", "-samples-per-second", "19"]);
    command
}

/// CPU time in seconds and peak memory in bytes of a process, with its threads that have ended.
fn usage(pid: u32) -> anyhow::Result<(f64, u64)> {
    let read = |name| std::fs::read_to_string(format!("/proc/{pid}/{name}"));
    let stat = read("stat").with_context(|| format!("process {pid} has ended"))?;
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat has a name")?;
    let ticks = fields.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
    let status = read("status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|kib| kib.split_whitespace().next()?.parse::<u64>().ok());
    let peak = peak.context("/proc/PID/status has VmHWM")?;
    let ticks_per_s = rustix::param::clock_ticks_per_second();
    ensure!(ticks_per_s > 0, "the clock has ticks");
    Ok((ticks as f64 / ticks_per_s as f64, peak << 10))
}
