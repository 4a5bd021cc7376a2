//! `tare top` and `perf top` on the whole machine at 99 Hz, each in its own terminal: CPU time
//! after the first ten seconds. Also the memory of the library behind `tare top` over a day of
//! short processes.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::tui::Terminal;
use crate::background::RunningProgram;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::in_random_order;
use crate::setting::Setting;
use crate::watched::ProcessUsage;

/// Time for both to read symbols and draw the first screens.
const BEGINNING: Duration = Duration::from_secs(10);
/// The default window of `tare top`, so all samples from before the measurement leave it.
const MEASURED: Duration = Duration::from_secs(10);

/// The load: two threads, busy three quarters of the time.
const LOAD: [&str; 3] = ["100000", "75", "2"];

/// Samples of a day on two CPUs at 99 Hz.
const SAMPLES: u64 = 99 * 2 * 86_400;
const PROCESSES: u64 = 100_000;

/// CPU time and wake-ups of each tool.
#[derive(Debug, Serialize)]
struct TopRound {
    tare: ProcessUsage,
    perf: ProcessUsage,
    tare_with_chains: ProcessUsage,
    perf_with_chains: ProcessUsage,
}

/// Percent of a CPU.
fn percent(used: &ProcessUsage) -> f64 {
    100.0 * used.cpu_ns as f64 / MEASURED.as_nanos() as f64
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let tare = setting.tare.canonicalize()?.display().to_string();
    let mut load = Command::new(setting.workload("mix"));
    let _load = RunningProgram::start(load.args(LOAD))?;
    let lines = [
        format!("{tare} top -a -F 99"),
        "perf top -a -F 99".to_owned(),
        format!("{tare} top -a -F 99 -g"),
        "perf top -a -F 99 -g".to_owned(),
    ];
    let mut rounds = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(6) {
        let (_, used) = in_random_order(&lines, |line| watch(line))?;
        let [tare, perf, tare_with_chains, perf_with_chains] = used[..] else { continue };
        rounds.push(TopRound { tare, perf, tare_with_chains, perf_with_chains });
    }
    let ratio = |of: fn(&TopRound) -> f64| Estimate::of_ratios(rounds.iter().map(of));
    let bound = Bound::AtMost(1.0 / 3.0);
    let finding = |what: &str, measured| Finding { what: what.to_owned(), measured, bound };
    let findings = vec![
        finding("CPU time, tare/perf", ratio(|round| percent(&round.tare) / percent(&round.perf))),
        finding(
            "CPU time with call chains, tare/perf",
            ratio(|round| percent(&round.tare_with_chains) / percent(&round.perf_with_chains)),
        ),
    ];
    let line = |round: &TopRound| {
        let used = |used: &ProcessUsage| {
            let wake_ups = used.wake_ups as f64 / MEASURED.as_secs_f64();
            format!("{:.3}% ({wake_ups:.1} wake-ups a second)", percent(used))
        };
        format!(
            "of a CPU: tare {}, perf {}; with call chains tare {}, perf {}",
            used(&round.tare),
            used(&round.perf),
            used(&round.tare_with_chains),
            used(&round.perf_with_chains)
        )
    };
    let table = rounds.iter().map(line).collect();
    Ok(Report { table, findings, raw: json!({ "load": LOAD, "rounds": rounds }) })
}

/// Measures a program in a terminal after its start-up.
fn watch(line: &str) -> anyhow::Result<ProcessUsage> {
    let terminal = Terminal::new()?;
    let line = format!("exec {line}");
    terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", &line])?;
    let pid = terminal.tmux(&["display-message", "-p", "#{pane_pid}"])?;
    let pid = pid.trim().parse().context("tmux names no process")?;
    std::thread::sleep(BEGINNING);
    let before = ProcessUsage::now(pid)?;
    std::thread::sleep(MEASURED);
    let used = ProcessUsage::now(pid)?.since(before);
    let screen = terminal.tmux(&["capture-pane", "-p"])?;
    ensure!(screen.contains('%'), "'{line}' shows nothing:\n{screen}");
    Ok(used)
}

/// The output of tare-replay's example `live_memory`; memory in bytes.
#[derive(Debug, Deserialize, Serialize)]
struct ReplayedDay {
    samples: u64,
    shown: u64,
    warm_resident: u64,
    warm_peak: u64,
    end_resident: u64,
    end_peak: u64,
}

pub(crate) fn memory(_setting: &Setting) -> anyhow::Result<Report> {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--quiet", "--profile", "dist", "--target-dir", "target/distributed"]);
    cargo.args(["-p", "tare-replay", "--example", "live_memory"]);
    ensure!(cargo.status()?.success(), "the example of the library can't be built");
    let mut example = Command::new("target/distributed/dist/examples/live_memory");
    let output = example.args([SAMPLES, PROCESSES].map(|number| number.to_string())).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let played: ReplayedDay = serde_json::from_slice(&output.stdout)?;
    let grown = |before: u64, after: u64| (after as f64 - before as f64) / f64::from(1 << 20);
    let finding = |what: &str, mib| Finding {
        what: what.to_owned(),
        measured: Estimate::exact(mib),
        bound: Bound::AtMost(1.0),
    };
    let findings = vec![
        finding("resident memory grows by, MiB", grown(played.warm_resident, played.end_resident)),
        finding("peak memory grows by, MiB", grown(played.warm_peak, played.end_peak)),
    ];
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let table = vec![format!(
        "{} samples of {PROCESSES} processes: peak {:.1} MiB after the first twentieth, {:.1} MiB at the end; {} samples shown",
        played.samples,
        mib(played.warm_peak),
        mib(played.end_peak),
        played.shown
    )];
    Ok(Report { table, findings, raw: json!(played) })
}
