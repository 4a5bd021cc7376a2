//! The cost of a recorder while it records, without its start and exit.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use serde::Serialize;
use serde_json::json;

use super::words;
use crate::background::kill_group;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::in_random_order;
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;
use crate::watched::ProcessUsage;

/// Time for the recorder to read existing processes and modules.
const BEGINNING: Duration = Duration::from_secs(2);
const MEASURED: Duration = Duration::from_secs(10);

/// Approximate bytes that two idle CPUs at 99 Hz produce in a quarter of a second.
const IDLE_BYTES: &str = "6000";
/// The same for two busy CPUs at 4000 Hz with call chains.
const BUSY_BYTES: &str = "35000";

/// A recorder or a comparison program.
#[derive(Clone, Debug, Serialize)]
struct Case {
    name: &'static str,
    /// `None` to measure the command alone.
    tool: Option<Tool>,
    options: &'static str,
    to_null: bool,
    command: Vec<String>,
}

/// Every case once.
#[derive(Clone, Debug, Serialize)]
struct SteadyRound {
    order: Vec<usize>,
    used: Vec<ProcessUsage>,
}

/// Percent of a CPU.
fn percent(used: &ProcessUsage) -> f64 {
    100.0 * used.cpu_ns as f64 / MEASURED.as_nanos() as f64
}

fn wake_ups_a_second(used: &ProcessUsage) -> f64 {
    used.wake_ups as f64 / MEASURED.as_secs_f64()
}

/// The recorders and the programs that they are compared with.
fn cases(scratch: &Scratch<'_>) -> Vec<Case> {
    // The load outlasts the measurement.
    let busy = [scratch.setting.workload("mix"), "60".to_owned(), "100".to_owned(), "2".to_owned()];
    let case = |name, tool, options, to_null, command: &[String]| Case {
        name,
        tool: Some(tool),
        options,
        to_null,
        command: command.to_vec(),
    };
    let chains = "-F 4000 -g";
    let idle = "-a -F 99";
    // The least that a recorder needs if it writes four times a second.
    let writes = |bytes: &str| {
        let file = scratch.path("recording").display().to_string();
        vec![scratch.setting.workload("wakes"), file, bytes.to_owned()]
    };
    let alone = |name, command| Case { name, tool: None, options: "", to_null: false, command };
    vec![
        case("4000 Hz -g, to a file, tare", Tool::Tare, chains, false, &busy),
        case("4000 Hz -g, to a file, perf", Tool::Perf, chains, false, &busy),
        case("4000 Hz -g, to /dev/null, tare", Tool::Tare, chains, true, &busy),
        case("4000 Hz -g, to /dev/null, perf", Tool::Perf, chains, true, &busy),
        case("99 Hz -a, idle, tare", Tool::Tare, idle, false, &words("sleep 60")),
        case("99 Hz -a, idle, perf", Tool::Perf, idle, false, &words("sleep 60")),
        alone("four writes a second, idle", writes(IDLE_BYTES)),
        // `exec` replaces the shell with the measured program.
        alone(
            "four writes a second, two busy CPUs",
            [
                words("sh -c"),
                vec![format!("{} & exec {}", busy.join(" "), writes(BUSY_BYTES).join(" "))],
            ]
            .concat(),
        ),
    ]
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let cases = cases(&scratch);
    let mut rounds = Vec::new();
    for _ in 0..setting.rounds.unwrap_or(6) {
        let (order, used) = in_random_order(&cases, |case| {
            watch(&scratch, case).with_context(|| case.name.to_owned())
        })?;
        rounds.push(SteadyRound { order, used });
    }
    let of = |at: usize, figure: fn(&ProcessUsage) -> f64| {
        Estimate::from_figures(rounds.iter().map(|round| figure(&round.used[at])).collect())
    };
    let ratio = |at: usize, to: usize| {
        let ratios = rounds.iter().map(|round| percent(&round.used[at]) / percent(&round.used[to]));
        Estimate::of_ratios(ratios)
    };
    let finding = |what: &str, measured, most| Finding {
        what: what.to_owned(),
        measured,
        bound: Bound::AtMost(most),
    };
    let findings = vec![
        finding(
            "4000 Hz -g, two busy CPUs, to a file: CPU time, tare/perf",
            ratio(0, 1),
            1.0 / 3.0,
        ),
        finding("the same over a program that only writes four times a second", ratio(0, 7), 1.3),
        finding("4000 Hz -g, to a file: wake-ups a second, tare", of(0, wake_ups_a_second), 4.5),
        finding("4000 Hz -g, to /dev/null: percent of a CPU, tare", of(2, percent), 0.035),
        finding("99 Hz -a, idle: percent of a CPU, tare", of(4, percent), 0.01),
        // The cost of a wake-up depends on the host; this ratio leaves tare's own share.
        finding("the same over a program that only writes four times a second", ratio(4, 6), 1.3),
        finding("99 Hz -a, idle: wake-ups a second, tare", of(4, wake_ups_a_second), 4.0),
    ];
    let line = |(at, case): (usize, &Case)| {
        let cpu = of(at, percent).value;
        let wake_ups = of(at, wake_ups_a_second).value;
        format!("{:<34} {cpu:>8.4}% of a CPU {wake_ups:>8.1} wake-ups a second", case.name)
    };
    let table = cases.iter().enumerate().map(line).collect();
    Ok(Report { table, findings, raw: json!({ "cases": cases, "rounds": rounds }) })
}

/// A recorder and its load, killed on drop.
struct MeasuredRecorder(Child);

impl Drop for MeasuredRecorder {
    fn drop(&mut self) {
        kill_group(&self.0);
        let _ = self.0.wait();
    }
}

/// Measures a recorder after its start-up.
fn watch(scratch: &Scratch<'_>, case: &Case) -> anyhow::Result<ProcessUsage> {
    let file = if case.to_null { "/dev/null".into() } else { scratch.path("recording") };
    let mut line = Vec::new();
    if let Some(tool) = case.tool {
        line.extend(scratch.recorder(tool, &file));
        line.extend(words(case.options));
        line.push("--".to_owned());
    }
    line.extend(case.command.iter().cloned());
    let (program, arguments) = line.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut recorder = MeasuredRecorder(command.process_group(0).spawn()?);
    std::thread::sleep(BEGINNING);
    let before = ProcessUsage::now(recorder.0.id())?;
    std::thread::sleep(MEASURED);
    let used = ProcessUsage::now(recorder.0.id())?.since(before);
    // A recorder that has exited would use no time.
    anyhow::ensure!(recorder.0.try_wait()?.is_none(), "it has ended");
    drop(recorder);
    for name in ["recording", "recording.old"] {
        let _ = std::fs::remove_file(scratch.path(name));
    }
    Ok(used)
}
