//! Kills recorders at random moments under load: their files must be readable and recent.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use serde_json::json;

use super::{script, words};
use crate::background::{BackgroundLoad, kill_group};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// Options of the recorders: the default, direct and mapped output path, with and without
/// compression, with and without a tracepoint.
const WAYS: [&str; 9] = [
    "",
    "-e raw_syscalls:*",
    "-e sched:sched_switch",
    "--output-path=direct",
    "--output-path=mmap",
    "--output-path=mmap -e sched:sched_switch",
    "-z",
    "-z -e sched:sched_switch",
    "--output-path=direct -e sched:sched_switch",
];

const FLUSH_S: f64 = 0.25;

/// One recorder that was killed.
#[derive(Clone, Debug, Serialize)]
struct KilledRecorder {
    way: &'static str,
    /// Seconds from the start to the kill.
    after_s: f64,
    tare_samples: u64,
    /// `None` if perf can't read the file.
    perf_samples: Option<u64>,
    /// Seconds from the last sample, or else from the start, to the kill.
    age_s: f64,
    /// Why tare or perf can't read the file.
    error: Option<String>,
}

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let count = setting.rounds.unwrap_or(200);
    let killed: Vec<KilledRecorder> = (0..count)
        .map(|at| kill(&scratch, WAYS[at % WAYS.len()]))
        .collect::<anyhow::Result<_>>()?;
    let bad = killed.iter().filter(|one| one.error.is_some()).count();
    let differ = killed.iter().filter(|one| one.perf_samples != Some(one.tare_samples)).count();
    let mut ages: Vec<f64> = killed.iter().map(|one| one.age_s).collect();
    ages.sort_by(f64::total_cmp);
    let oldest = ages.last().copied().unwrap_or(f64::NAN);
    let late = ages.iter().filter(|age| **age > FLUSH_S + 0.1).count();
    let mut table = vec![format!(
        "{count} killed; age of the last sample: median {:.3} s, oldest {oldest:.3} s; {late} older than the bound",
        Estimate::median(ages).value
    )];
    table.extend(killed.iter().filter_map(|one| {
        Some(format!("{:?} after {:.3} s: {}", one.way, one.after_s, one.error.as_ref()?))
    }));
    let exact = |what: &str, value: f64, most: f64| Finding {
        what: what.into(),
        measured: Estimate::exact(value),
        bound: Bound::AtMost(most),
    };
    let findings = vec![
        exact("recordings that tare script or perf script doesn't read", bad as f64, 0.0),
        exact("recordings in which they count differently", differ as f64, 0.0),
        exact(
            "age of the last sample when the recorder is killed, the most of any, seconds",
            oldest,
            FLUSH_S + 0.1,
        ),
    ];
    Ok(Report { table, findings, raw: json!(killed) })
}

fn kill(scratch: &Scratch<'_>, way: &'static str) -> anyhow::Result<KilledRecorder> {
    use std::os::unix::process::CommandExt;
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let spin = format!("'{}' 99999999999 & ", scratch.setting.workload("spin"));
    let load = BackgroundLoad::start(&format!("{}wait", spin.repeat(cpus)))?;
    let file = scratch.path("killed");
    let recorder = scratch.recorder(Tool::Tare, &file);
    let mut command = Command::new(&recorder[0]);
    command
        .args(&recorder[1..])
        .args(words("-q -a --no-call-graph -F 4000 -e cpu-clock"))
        .args(words(way));
    command.args(["--", "sh", "-c", "while :; do /bin/true; done"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let started = now_s();
    let mut child = command.spawn()?;
    let after_s = 0.2 + 0.8 * fastrand::f64();
    std::thread::sleep(Duration::from_secs_f64((after_s - (now_s() - started)).max(0.0)));
    let ended = now_s();
    child.kill()?;
    child.wait()?;
    // The command survives its recorder.
    kill_group(&child);
    drop(load);
    let mut killed = KilledRecorder {
        way,
        after_s: ended - started,
        tare_samples: 0,
        perf_samples: None,
        age_s: ended - started,
        error: None,
    };
    match script(&scratch.setting.tare(), &file, &["-F", "time", "--ns"]) {
        Ok((0, _)) => {}
        Ok((samples, last)) => {
            let last: f64 = last
                .trim()
                .trim_end_matches(':')
                .parse()
                .with_context(|| format!("'{last}' is no time"))?;
            (killed.tare_samples, killed.age_s) = (samples, ended - last.max(started));
        }
        Err(error) => killed.error = Some(error.to_string()),
    }
    match script("perf", &file, &["-F", "time", "--ns"]) {
        Ok((samples, _)) => killed.perf_samples = Some(samples),
        Err(error) => killed.error = Some(error.to_string()),
    }
    for name in ["killed", "killed.old"] {
        let _ = std::fs::remove_file(scratch.path(name));
    }
    Ok(killed)
}

/// Seconds of the monotonic clock, which recordings use.
fn now_s() -> f64 {
    let time = clock_gettime(ClockId::Monotonic);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
