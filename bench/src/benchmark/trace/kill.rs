//! Kills tracers at random moments and looks for BPF objects and probes that stay in the kernel.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::{Value, json};

use crate::report::{Bound, Estimate, Finding, Report};
use crate::setting::Setting;

/// Arguments that trace with BPF programs (sums, lines), with BPF programs and perf events, with
/// perf events alone (a recording), and with BPF programs on a function.
fn ways(setting: &Setting) -> [Vec<String>; 5] {
    let function = format!("{}:work", setting.workload("latency"));
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    [
        words(&["-s"]),
        words(&["-o", "/dev/null"]),
        words(&["-F", "all", "--switches", "-e", "read,sched:*", "-o", "/dev/null"]),
        words(&["--data", "/dev/null"]),
        words(&["-o", "/dev/null", "--probe-returns", "--probe", &function]),
    ]
}

/// How long the kernel may take to free a dead process's BPF objects.
const PATIENCE: Duration = Duration::from_secs(10);

/// The ids of all BPF objects of a kind, from bpftool.
fn objects(kind: &str) -> anyhow::Result<BTreeSet<u64>> {
    let output = Command::new("bpftool").args(["-j", kind, "show"]).output().context("bpftool")?;
    let all: Value = serde_json::from_slice(&output.stdout).context("bpftool's list")?;
    let ids = all.as_array().into_iter().flatten().filter_map(|one| one["id"].as_u64());
    Ok(ids.collect())
}

/// The probes defined in tracefs.
fn probes() -> String {
    ["kprobe_events", "uprobe_events"]
        .iter()
        .filter_map(|name| {
            std::fs::read_to_string(Path::new("/sys/kernel/tracing").join(name)).ok()
        })
        .collect()
}

fn now() -> anyhow::Result<(Vec<BTreeSet<u64>>, String)> {
    let kinds = ["prog", "map", "link"].iter().map(|kind| objects(kind));
    Ok((kinds.collect::<Result<_, _>>()?, probes()))
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let count = setting.rounds.unwrap_or(200);
    let before = now()?;
    let ways = ways(setting);
    let mut killed_early = 0;
    for at in 0..count {
        let mut tracer = Command::new(setting.tare())
            .arg("trace")
            .args(&ways[at % ways.len()])
            .args(["--", "sh", "-c", "sleep 0.3"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        std::thread::sleep(Duration::from_secs_f64(0.2 * fastrand::f64()));
        killed_early += u64::from(tracer.try_wait()?.is_none());
        tracer.kill()?;
        tracer.wait()?;
    }
    // The kernel frees some objects asynchronously.
    let ended = Instant::now();
    let mut after = now()?;
    while after != before && ended.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
        after = now()?;
    }
    let left: Vec<usize> = before
        .0
        .iter()
        .zip(&after.0)
        .map(|(before, after)| after.difference(before).count())
        .collect();
    let exact = |what: &str, value: usize| Finding {
        what: what.into(),
        measured: Estimate::exact(value as f64),
        bound: Bound::AtMost(0.0),
    };
    let findings = vec![
        exact("programs left", left[0]),
        exact("maps left", left[1]),
        exact("links left", left[2]),
        exact("probes left in tracefs", usize::from(before.1 != after.1)),
    ];
    let table = vec![format!("{count} tracers, {killed_early} of them killed while they ran")];
    Ok(Report { table, findings, raw: json!({ "killed": killed_early, "left": left }) })
}
