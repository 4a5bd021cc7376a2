//! Where tare's own CPU time goes: profiles of tare by tare and by perf, and the CPU time of
//! minimal programs that do the same work. bench/notes/costs.md discusses the results.

mod floor;
mod profile;

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde_json::json;

use self::profile::{Profile, Weights};
use super::words;
use crate::background::kill_group;
use crate::report::{Estimate, Report};
use crate::run::{run as used_by, succeed};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;
use crate::watched::ProcessUsage;

/// Default number of repetitions of a short command.
const TIMES: usize = 200;
/// Time between a recorder's start and its profile.
const BEGINNING: Duration = Duration::from_secs(1);
/// Duration of each measurement of a running program.
const WATCHED: Duration = Duration::from_secs(8);

/// A command of tare to profile.
struct Case {
    name: &'static str,
    /// The command line.
    words: Vec<String>,
    /// Whether the command exits at once; it is then repeated and profiled as a whole.
    is_short: bool,
}

/// Profiles of one case.
struct CostProfile {
    /// CPU time in microseconds, per run or per second.
    us: f64,
    by_tare: Weights,
    by_perf: Weights,
    /// Bytes per second written to its file; 0 for a short command.
    bytes: f64,
}

/// Profiles each case by tare and by perf.
pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let times = setting.rounds.unwrap_or(TIMES);
    let mut table = Vec::new();
    let mut raw = Vec::new();
    for case in cases(&scratch) {
        let found =
            if case.is_short { short(&scratch, &case, times) } else { long(&scratch, &case) };
        let found = found.with_context(|| case.name.to_owned())?;
        let floors = floor::measure_floors(&scratch, case.is_short, found.bytes)?;
        table.extend(lines(&case, &found, &floors));
        raw.push(json!({
            "case": case.name, "us": found.us, "bytes_a_second": found.bytes, "floors": floors,
            "by_tare": found.by_tare.scaled(found.us), "by_perf": found.by_perf.scaled(found.us),
        }));
    }
    Ok(Report { table, findings: Vec::new(), raw: json!(raw) })
}

fn cases(scratch: &Scratch<'_>) -> Vec<Case> {
    let setting = scratch.setting;
    let tare = setting.tare();
    let file = scratch.path("recording");
    let recorder = |options: &str, command: &[String]| {
        let options = [words(options), vec!["--".to_owned()]].concat();
        [scratch.recorder(Tool::Tare, &file), options, command.to_vec()].concat()
    };
    // The load outlasts the profile.
    let busy = [setting.workload("mix"), "60".to_owned(), "100".to_owned(), "2".to_owned()];
    let flood = [setting.workload("flood"), "60".to_owned()];
    let long = |name, words| Case { name, words, is_short: false };
    vec![
        Case {
            name: "stat true",
            words: [tare, "stat".to_owned()]
                .into_iter()
                .chain(words("-o /dev/null true"))
                .collect(),
            is_short: true,
        },
        Case { name: "record true", words: recorder("-q", &words("true")), is_short: true },
        long("flood: raw_syscalls -a", recorder("-q -a -e raw_syscalls:*", &flood)),
        long("steady: 4000 Hz -g, two busy CPUs", recorder("-q -F 4000 -g", &busy)),
        long("idle: 99 Hz -a", recorder("-q -a -F 99", &words("sleep 60"))),
    ]
}

/// The lines of one case: phases, functions, floors.
fn lines(case: &Case, found: &CostProfile, floors: &[(String, f64)]) -> Vec<String> {
    let unit = if case.is_short { "us a run" } else { "us a second" };
    let mut lines = vec![
        String::new(),
        format!("**{}**: {:.0} {unit}", case.name, found.us),
        String::new(),
        format!("| phase | {unit} by tare | by perf |"),
        "|---|---|---|".to_owned(),
    ];
    let us = |share: Option<f64>| {
        share.map_or("-".to_owned(), |share| format!("{:.1}", share * found.us))
    };
    let row = |name: &str, tare: f64, perf: Option<f64>| {
        format!("| {name} | {} | {} |", us(Some(tare)), us(perf))
    };
    let phases = found.by_tare.phases(10);
    lines.extend(phases.iter().map(|(name, share)| row(name, *share, found.by_perf.phase(name))));
    lines.extend([
        String::new(),
        format!("| function | {unit} by tare | by perf |"),
        "|---|---|---|".to_owned(),
    ]);
    let functions = found.by_tare.functions(15);
    lines.extend(
        functions
            .iter()
            .map(|(name, share)| row(&format!("`{name}`"), *share, found.by_perf.function(name))),
    );
    lines.extend([String::new(), format!("| floor | {unit} |"), "|---|---|".to_owned()]);
    lines.extend(floors.iter().map(|(name, us)| format!("| {name} | {us:.1} |")));
    lines
}

/// Profiles a short command, repeated, with its children.
fn short(scratch: &Scratch<'_>, case: &Case, times: usize) -> anyhow::Result<CostProfile> {
    let used = (0..times.div_ceil(4).max(5))
        .map(|_| used_by(&case.words).map(|usage| usage.cpu_ns as f64 / 1e3))
        .collect::<anyhow::Result<Vec<f64>>>()?;
    let again = "n=$1; shift; while [ $n -gt 0 ]; do \"$@\" 2>/dev/null; n=$((n-1)); done";
    let shell = ["sh", "-c", again, "again", &times.to_string()].map(str::to_owned).to_vec();
    let command = [shell, case.words.clone()].concat();
    let profile = |tool| {
        let profile = Profile::new(scratch, tool);
        succeed(&profile.of_command(&command))?;
        // The shell that repeats the command doesn't count.
        profile.weights(&["tare", "true"])
    };
    let by_tare = profile(Tool::Tare)?;
    let by_perf = profile(Tool::Perf)?;
    Ok(CostProfile { us: Estimate::median(used).value, by_tare, by_perf, bytes: 0.0 })
}

/// A recorder that is killed with its command on drop.
struct ProfiledRecorder(Child);

impl Drop for ProfiledRecorder {
    fn drop(&mut self) {
        kill_group(&self.0);
        let _ = self.0.wait();
    }
}

/// Profiles a long-running recorder after its start-up: first its CPU time alone, then under each
/// profiler.
fn long(scratch: &Scratch<'_>, case: &Case) -> anyhow::Result<CostProfile> {
    let (us, bytes) = {
        let recorder = start(scratch, case)?;
        let file = scratch.path("recording");
        let length = || std::fs::metadata(&file).map_or(0, |found| found.len());
        let began = Instant::now();
        let before = ProcessUsage::now(recorder.0.id())?;
        let long = length();
        std::thread::sleep(WATCHED);
        let used = ProcessUsage::now(recorder.0.id())?.since(before);
        let seconds = began.elapsed().as_secs_f64();
        (used.cpu_ns as f64 / 1e3 / seconds, length().saturating_sub(long) as f64 / seconds)
    };
    let profile = |tool| {
        let recorder = start(scratch, case)?;
        let profile = Profile::new(scratch, tool);
        succeed(&profile.of_process(recorder.0.id(), WATCHED))?;
        drop(recorder);
        profile.weights(&["tare", "tare-output"])
    };
    let by_tare = profile(Tool::Tare)?;
    let by_perf = profile(Tool::Perf)?;
    Ok(CostProfile { us, by_tare, by_perf, bytes })
}

fn start(scratch: &Scratch<'_>, case: &Case) -> anyhow::Result<ProfiledRecorder> {
    use std::os::unix::process::CommandExt;
    for name in ["recording", "recording.old"] {
        let _ = std::fs::remove_file(scratch.path(name));
    }
    let (program, arguments) = case.words.split_first().context("no command")?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let recorder = ProfiledRecorder(command.process_group(0).spawn()?);
    std::thread::sleep(BEGINNING);
    Ok(recorder)
}
