//! The table of the proposal of 2013 that recorders map their output: `record -g` of `openssl
//! speed`, and every system call of the machine.

use serde_json::json;

use super::trial::{Run, ratio, raw, table};
use super::{trial, words};
use crate::report::{Bound, Finding, Report};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// What is recorded, by its name: options and command.
const SUBJECTS: [(&str, &str, &str); 2] = [
    (
        "openssl, record -g -F 4000",
        "-g -e cpu-clock -F 4000",
        "openssl speed -seconds 1 -bytes 1024 sha256",
    ),
    (
        "system calls of the machine",
        "-a -e raw_syscalls:*",
        "dd if=/dev/zero of=/dev/null bs=1 count=500000",
    ),
];

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let mut lines = Vec::new();
    let mut findings = Vec::new();
    let mut all = Vec::new();
    for (name, options, command) in SUBJECTS {
        let command = words(command);
        let mut trials = vec![
            trial("tare, write", Tool::Tare, &format!("{options} --output-path=write"), &command),
            trial("tare, mmap", Tool::Tare, &format!("{options} --output-path=mmap"), &command),
            trial("perf", Tool::Perf, options, &command),
        ];
        // Counting system calls makes each of them dearer, so what they cost is measured apart.
        let counted: Vec<_> = trials
            .iter()
            .cloned()
            .map(|trial| trial::Trial {
                name: format!("{}, counted", trial.name),
                counted: true,
                ..trial
            })
            .collect();
        trials.extend(counted);
        let rounds = scratch.rounds(&trials, setting.rounds.unwrap_or(10))?;
        lines.push(format!("{name}:"));
        lines.extend(table(&trials, &rounds));
        let cost = |run: &Run| run.cpu_s / run.foreign();
        for at in [0, 1] {
            let what = format!("{name}: CPU per million samples, {}/perf", trials[at].name);
            findings.push(Finding {
                what,
                measured: ratio(&rounds, at, 2, cost),
                bound: Bound::AtMost(1.0 / 3.0),
            });
        }
        all.push(json!({ "subject": name, "runs": raw(&trials, &rounds) }));
    }
    Ok(Report { table: lines, findings, raw: json!(all) })
}
