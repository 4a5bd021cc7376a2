//! The interactive report of 5 million samples with 120,000 distinct call chains beside perf's,
//! each in tmux.

pub(super) mod made;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::Scratch;
use crate::setting::Setting;
use made::SyntheticRecording;

const SAMPLES: u64 = 5_000_000;
const CHAINS: u32 = 120_000;
const SEED: u64 = 12;

/// Interval between captures of the screen.
const LOOK: Duration = Duration::from_millis(20);

/// Longest accepted time of a report.
const PATIENCE: Duration = Duration::from_secs(600);

/// Cost of a report.
#[derive(Clone, Copy, Debug, Serialize)]
struct ReportCost {
    /// Seconds to the first screen.
    first: f64,
    /// Seconds to the complete report.
    last: f64,
    /// Largest resident set in bytes.
    peak_bytes: u64,
    /// Whether the report completed within the accepted time.
    is_whole: bool,
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let file = scratch.path("made.data");
    let bytes = SyntheticRecording { samples: SAMPLES, chains: CHAINS, seed: SEED }.write(&file)?;
    let tare = Path::new(&setting.tare()).canonicalize()?.display().to_string();
    let file = file.canonicalize()?.display().to_string();
    let mut ours = Vec::new();
    let mut theirs = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(3) {
        let whole = |screen: &str| screen.contains("Missing: ") && !screen.contains("loading");
        let begun = |screen: &str| screen.contains("Missing: ");
        let took = shown(&format!("{tare} report --tui -i {file}"), "tare", begun, whole)?;
        ensure!(took.is_whole, "tare: no report within {} s", PATIENCE.as_secs());
        ours.push(took);
        let whole = |screen: &str| screen.contains("Samples: ");
        theirs.push(shown(
            &format!("perf report --tui -i {file}"),
            "perf",
            |screen| !screen.trim().is_empty(),
            whole,
        )?);
    }
    let median = |of: &dyn Fn(usize) -> f64| Estimate::median((0..ours.len()).map(of).collect());
    let findings = vec![
        finding("first screen, seconds", median(&|at| ours[at].first), 1.0),
        finding("last screen, tare/perf", median(&|at| ours[at].last / theirs[at].last), 0.25),
        finding("peak memory, MB", median(&|at| ours[at].peak_bytes as f64 / 1e6), 400.0),
    ];
    let line = |name: &str, took: &ReportCost| {
        let peak = took.peak_bytes / 1_000_000;
        let given_up = if took.is_whole { "" } else { " (given up then)" };
        format!(
            "{name:<5} first screen {:6.2} s, last {:7.2} s{given_up}, peak {peak} MB",
            took.first, took.last
        )
    };
    let table = ours
        .iter()
        .map(|took| line("tare", took))
        .chain(theirs.iter().map(|took| line("perf", took)));
    let table =
        table.chain([format!("{SAMPLES} samples, {CHAINS} chains, {bytes} bytes, seed {SEED}")]);
    let table = table.collect();
    Ok(Report { table, findings, raw: json!({ "bytes": bytes, "tare": ours, "perf": theirs }) })
}

fn finding(what: &str, measured: Estimate, bound: f64) -> Finding {
    Finding { what: what.to_owned(), measured, bound: Bound::AtMost(bound) }
}

/// A tmux server that is killed on drop.
pub(super) struct Terminal(tempfile::TempDir);

impl Terminal {
    /// Makes the server's folder; the first command starts the server.
    pub(super) fn new() -> anyhow::Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    pub(super) fn tmux(&self, words: &[&str]) -> anyhow::Result<String> {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.0.path().join("socket")).args(words).env_remove("TMUX");
        let output = tmux.output().context("tmux is needed: apt-get install tmux")?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

/// Runs a report until it is complete or the accepted time has passed; in the latter case the cost
/// is a lower bound.
fn shown(
    line: &str,
    name: &str,
    is_begun: impl Fn(&str) -> bool,
    is_whole: impl Fn(&str) -> bool,
) -> anyhow::Result<ReportCost> {
    let terminal = Terminal::new()?;
    let line = format!("exec {line}");
    let started = Instant::now();
    terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", &line])?;
    let pid = terminal.tmux(&["display-message", "-p", "#{pane_pid}"])?;
    let mut first = None;
    loop {
        let screen = terminal.tmux(&["capture-pane", "-p"])?;
        let passed = started.elapsed();
        if is_begun(&screen) {
            first.get_or_insert(passed.as_secs_f64());
        }
        let peak_bytes = peak(pid.trim()).with_context(|| format!("{name} has ended"))?;
        let is_whole = first.is_some() && is_whole(&screen);
        if is_whole || passed > PATIENCE {
            let last = passed.as_secs_f64();
            return Ok(ReportCost { first: first.unwrap_or(last), last, peak_bytes, is_whole });
        }
        if screen.contains("Press any key") {
            // perf warns that kernel addresses have no names and waits for a key.
            terminal.tmux(&["send-keys", "Space"])?;
        }
        std::thread::sleep(LOOK);
    }
}

/// The largest resident set of a process, in bytes: `VmHWM` of proc(5).
fn peak(pid: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
