//! A program of three user instructions: one system call of its own, and no count may hold anything
//! of the tool.
//!
//! Its page faults are 1 for the page of its instructions and up to 2 for the stack: execve(2)
//! writes the auxiliary vector below the arguments, at an address that the kernel draws by chance,
//! and in about one run of ten that crosses a page boundary. `setarch -R` takes chance away, so the
//! bound is held against runs under it; the other runs are shown.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Serialize;

use crate::report::{Bound, Estimate, Finding, Report};
use crate::run::run as run_command;
use crate::setting::Setting;

/// The counts of one way to run it, a figure a run.
#[derive(Debug, Serialize)]
struct Series {
    name: &'static str,
    command: Vec<String>,
    system_calls: Vec<u64>,
    page_faults: Vec<u64>,
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let tare = setting.tare();
    let runs = setting.rounds.unwrap_or(100);
    let all = [
        series("tare", &[&tare], setting, runs)?,
        series(
            "tare, fixed addresses",
            &["env", "-i", "PATH=/usr/bin:/bin", "setarch", "-R", &tare],
            setting,
            runs,
        )?,
        series("perf", &["perf"], setting, runs)?,
    ];
    let table = all.iter().map(|s| {
        format!(
            "{:<24} system calls {}; page faults {}",
            s.name,
            spread(&s.system_calls),
            spread(&s.page_faults)
        )
    });
    let wrong = all[..2]
        .iter()
        .flat_map(|series| &series.system_calls)
        .filter(|calls| **calls != 1)
        .count();
    let most = all[1].page_faults.iter().copied().max().unwrap_or(0);
    let findings = vec![
        Finding {
            what: "tare: runs with other than 1 system call".into(),
            measured: Estimate::exact(wrong as f64),
            bound: Bound::AtMost(0.0),
        },
        Finding {
            what: "tare, fixed addresses: most page faults of any run".into(),
            measured: Estimate::exact(most as f64),
            bound: Bound::AtMost(2.0),
        },
    ];
    Ok(Report { table: table.collect(), findings, raw: serde_json::json!(all) })
}

fn series(
    name: &'static str,
    tool: &[&str],
    setting: &Setting,
    runs: usize,
) -> anyhow::Result<Series> {
    let file = tempfile::NamedTempFile::new()?;
    let output = file.path().display().to_string();
    let three = setting.workload("three");
    let options =
        ["stat", "-x,", "-o", &output, "-e", "raw_syscalls:sys_enter,page-faults", &three];
    let command: Vec<String> = tool.iter().chain(&options).map(|word| (*word).to_owned()).collect();
    let mut series = Series { name, command, system_calls: Vec::new(), page_faults: Vec::new() };
    for _ in 0..runs {
        run_command(&series.command)?;
        let text = std::fs::read_to_string(file.path())?;
        series.system_calls.push(count(&text, "raw_syscalls:sys_enter")?);
        series.page_faults.push(count(&text, "page-faults")?);
    }
    Ok(series)
}

/// The first column of the line of an event, in perf's CSV.
fn count(csv: &str, event: &str) -> anyhow::Result<u64> {
    let line = csv.lines().find(|line| line.split(',').nth(2) == Some(event));
    let first = line
        .and_then(|line| line.split(',').next())
        .with_context(|| format!("no '{event}' in:\n{csv}"))?;
    first.parse().with_context(|| format!("'{first}' is no count of {event}"))
}

/// `1 in 93 runs, 2 in 7 runs`.
fn spread(counts: &[u64]) -> String {
    let mut times = BTreeMap::new();
    for count in counts {
        *times.entry(count).or_insert(0u32) += 1;
    }
    times
        .iter()
        .map(|(count, runs)| format!("{count} in {runs} runs"))
        .collect::<Vec<_>>()
        .join(", ")
}
