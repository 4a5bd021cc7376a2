//! The figures of bench/notes/output-path.md: each output path and perf, on a disk and in memory,
//! with and without compression, idle and in a flood, for three kinds of trace.

use std::path::{Path, PathBuf};

use super::trial::{Trial, TrialResult, TrialRound, median, raw};
use super::{trial, words};
use crate::report::Report;
use crate::run::run_for_output;
use crate::scratch::{Folder, Scratch, Tool};
use crate::setting::Setting;

/// Traces by name, with their events.
const TRACES: [(&str, &str); 3] = [
    ("system calls", "raw_syscalls:*"),
    ("page faults", "exceptions:page_fault_*"),
    ("block", "block:*"),
];

const WAYS: [(&str, Tool, &str); 5] = [
    ("tare, auto", Tool::Tare, "--output-path=auto"),
    ("tare, write", Tool::Tare, "--output-path=write"),
    ("tare, mmap", Tool::Tare, "--output-path=mmap"),
    ("tare, direct", Tool::Tare, "--output-path=direct"),
    ("perf", Tool::Perf, ""),
];

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let memory = Folder::new_in(Path::new("/dev/shm"))?;
    let folders = [scratch.path("disk"), memory.path().to_owned()];
    std::fs::create_dir_all(&folders[0])?;
    let mut trials = Vec::new();
    let mut labels = Vec::new();
    for (trace, events) in TRACES {
        for flood in [None, Some(load(trace, &scratch))] {
            for folder in &folders {
                for packed in [false, true] {
                    for (way, tool, option) in WAYS {
                        let options =
                            format!("-a -e {events} {option} {}", if packed { "-z" } else { "" });
                        let at = if flood.is_some() { "flood" } else { "rest" };
                        labels.push(format!(
                            "{trace} | {at} | {} | {} | {way}",
                            file_system(folder)?,
                            if packed { "yes" } else { "no" }
                        ));
                        trials.push(new_trial(&options, tool, &flood, folder));
                    }
                }
            }
        }
    }
    let rounds = scratch.cold_rounds(&trials, setting.rounds.unwrap_or(2))?;
    let mut table = vec![
        "| trace | load | file system | -z | how | CPU ms | elapsed s | system calls | page faults | samples | own | lost | MB | cached MB | first pass ms |".to_owned(),
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    table.extend(labels.iter().enumerate().map(|(at, label)| row(label, &rounds, at)));
    Ok(Report { table, findings: Vec::new(), raw: raw(&trials, &rounds) })
}

fn new_trial(options: &str, tool: Tool, flood: &Option<String>, folder: &Path) -> Trial {
    Trial {
        beside: flood.clone(),
        counted: true,
        folder: Some(folder.to_owned()),
        ..trial(options, tool, options, &words("sleep 0.7"))
    }
}

/// A shell command that causes as many events of a trace as it can.
fn load(trace: &str, scratch: &Scratch<'_>) -> String {
    let file: PathBuf = scratch.path("written");
    match trace {
        "system calls" => format!("'{}' 1000", scratch.setting.workload("flood")),
        "page faults" => "while :; do /bin/true; done".to_owned(),
        _ => format!(
            "while :; do dd if=/dev/zero of='{}' bs=4k count=4000 oflag=direct; done",
            file.display()
        ),
    }
}

fn file_system(folder: &Path) -> anyhow::Result<String> {
    let folder = folder.display().to_string();
    let done =
        run_for_output(&["findmnt", "-n", "-o", "FSTYPE", "-T", &folder].map(str::to_owned))?;
    // If one file system is mounted over another, the last one is visible.
    Ok(done.stdout.lines().next_back().unwrap_or_default().trim().to_owned())
}

fn row(label: &str, rounds: &[TrialRound], at: usize) -> String {
    let value = |of: fn(&TrialResult) -> f64| median(rounds, at, of).value;
    let cpu = value(|run| run.cpu_s * 1e3);
    let size = value(|run| run.file_bytes as f64 / 1e6);
    let elapsed = value(|run| run.elapsed_s);
    let pass = value(|run| run.first_pass_s * 1e3);
    let cached = value(|run| run.cached_bytes.map_or(f64::NAN, |bytes| bytes as f64 / 1e6));
    let counts = [
        value(|run| run.system_calls.unwrap_or(f64::NAN)),
        value(|run| run.page_faults.unwrap_or(f64::NAN)),
        value(|run| run.samples as f64),
        value(|run| run.own as f64),
        value(|run| run.lost as f64),
    ];
    let counts: Vec<String> = counts.iter().map(|count| format!("{count:.0}")).collect();
    let counts = counts.join(" | ");
    format!(
        "| {label} | {cpu:.1} | {elapsed:.2} | {counts} | {size:.2} | {cached:.2} | {pass:.1} |"
    )
}
