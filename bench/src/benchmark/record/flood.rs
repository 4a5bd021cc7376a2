//! Records a loop of system calls: lost samples, the recorder's cost, and how many calls the loop
//! makes.

use serde_json::json;

use super::trial::{TrialResult, TrialRound, median, ratio, raw, table};
use super::{SYSTEM_CALLS, busy, trial};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let flood = vec![setting.workload("flood")];
    let each = vec!["sh".to_owned(), "-c".to_owned(), on_each_cpu(&setting.workload("flood"))];
    let direct = format!("{SYSTEM_CALLS} --output-path=direct");
    let trials = [
        trial("tare", Tool::Tare, SYSTEM_CALLS, &flood),
        trial("perf, default rings", Tool::Perf, SYSTEM_CALLS, &flood),
        trial("perf -m 2048", Tool::Perf, &format!("{SYSTEM_CALLS} -m 2048"), &flood),
        // Overwritten rings are read only at the end, so the loop runs at the speed that the kernel
        // alone allows.
        trial(
            "the kernel alone (--overwrite)",
            Tool::Tare,
            &format!("{SYSTEM_CALLS} --overwrite"),
            &flood,
        ),
        trial("tare, past the page cache", Tool::Tare, &direct, &flood),
    ];
    let both = [
        trial("tare, on each CPU", Tool::Tare, SYSTEM_CALLS, &each),
        trial("perf -m 2048, on each CPU", Tool::Perf, &trials[2].options.join(" "), &each),
    ];
    let count = setting.rounds.unwrap_or(20);
    let rounds = scratch.rounds(&trials, count)?;
    let on_each = scratch.rounds(&both, count.div_ceil(4))?;
    let of_machine = busy::rounds(&scratch, count.div_ceil(4))?;
    let mut lines = table(&trials, &rounds);
    lines.extend(table(&both, &on_each));
    lines.extend(busy::table(&of_machine));
    for (at, trial) in trials.iter().enumerate() {
        let calls = median(&rounds, at, TrialResult::printed_sum);
        let cpu = median(&rounds, at, TrialResult::cpu_per_gb);
        let cpu = if at != 3 { format!(", CPU s per GB {cpu}") } else { String::new() };
        lines.push(format!("{:<34} calls {calls}{cpu}", trial.name));
    }
    let mut findings = findings(&rounds, &on_each);
    findings.push(Finding {
        what: "the machine's busy time per GB, tare/perf at its default rings".into(),
        measured: busy::ratio(&of_machine),
        bound: Bound::AtMost(0.25),
    });
    Ok(Report {
        table: lines,
        findings,
        raw: json!({
            "one": raw(&trials, &rounds), "each": raw(&both, &on_each), "machine": of_machine
        }),
    })
}

/// Findings of the rounds with one loop and of those with a loop on each CPU. Indices follow the
/// order of the trials in [`run`].
fn findings(rounds: &[TrialRound], on_each: &[TrialRound]) -> Vec<Finding> {
    let lost = |at: usize| {
        Estimate::exact(rounds.iter().map(|round| round.runs[at].lost).max().unwrap_or(0) as f64)
    };
    let share = |run: &TrialResult| run.lost as f64 / (run.lost + run.samples).max(1) as f64;
    let more = on_each.iter().map(|round| share(&round.runs[0]) - share(&round.runs[1])).collect();
    let reached = rounds
        .iter()
        .map(|round| round.runs[0].printed_sum() / round.runs[3].printed_sum())
        .collect();
    vec![
        Finding {
            what: "samples lost, tare, the most of any run".into(),
            measured: lost(0),
            bound: Bound::AtMost(0.0),
        },
        Finding {
            what: "samples lost, tare past the page cache, the most of any run".into(),
            measured: lost(4),
            bound: Bound::AtMost(0.0),
        },
        Finding {
            what: "recorder CPU per GB, tare past the page cache/perf at its default rings".into(),
            measured: ratio(rounds, 4, 1, TrialResult::cpu_per_gb),
            bound: Bound::AtMost(1.0 / 16.0),
        },
        Finding {
            what: "recorder CPU per GB, tare/perf at its default rings".into(),
            measured: ratio(rounds, 0, 1, TrialResult::cpu_per_gb),
            bound: Bound::AtMost(1.0 / 16.0),
        },
        Finding {
            what: "recorder CPU per GB, tare/perf -m 2048".into(),
            measured: ratio(rounds, 0, 2, TrialResult::cpu_per_gb),
            bound: Bound::AtMost(1.0 / 6.0),
        },
        // On a shared machine the ratios of single rounds differ so much that only the estimate is
        // compared.
        Finding {
            what: "calls of the loop, tare/the kernel alone, median".into(),
            measured: Estimate::median(reached),
            bound: Bound::EstimateAtLeast(0.95),
        },
        Finding {
            what: "on each CPU: share of samples lost, tare - perf -m 2048".into(),
            measured: Estimate::median(more),
            bound: Bound::AtMost(0.0),
        },
    ]
}

/// A shell command that floods each CPU for two seconds.
fn on_each_cpu(flood: &str) -> String {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let starts: String = (0..cpus).map(|cpu| format!("'{flood}' 2 {cpu} & ")).collect();
    format!("{starts}wait")
}
