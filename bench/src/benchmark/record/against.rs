//! The binary before a change against the binary after it: what counting and recording cost.

use anyhow::Context;
use serde_json::json;

use super::trial;
use super::trial::{Round as TrialRound, Run, raw, table};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Variant, rounds};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

/// After over before: the whole interval is to be below.
const NO_SLOWER: Bound = Bound::AtMost(1.03);

const PAIRS: usize = 20;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let before = setting.before.as_ref().context("name the binary before: against FILE")?;
    let count = setting.rounds.unwrap_or(PAIRS);
    let short = short_commands(&scratch, &before.display().to_string());
    let short_rounds = rounds(&short, 10 * count)?;
    let ratio =
        |before: usize| {
            Estimate::of_ratios(short_rounds.iter().map(|round| {
                round.usage[before + 1].cpu_ns as f64 / round.usage[before].cpu_ns as f64
            }))
        };
    let flood = [setting.workload("flood")];
    let spin = vec!["sh".to_owned(), "-c".to_owned(), two_busy(&setting.workload("spin"))];
    let pair = |name: &str, options: &str, command: &[String]| {
        [(Tool::Before, "before"), (Tool::Tare, "after")]
            .map(|(tool, when)| trial(&format!("{name}, {when}"), tool, options, command))
    };
    let flood = pair("flood", "-a -e raw_syscalls:*", &flood);
    let steady = pair("steady, 4000 Hz -g", "-F 4000 -g", &spin);
    let flood_rounds = scratch.rounds(&flood, count)?;
    let steady_rounds = scratch.rounds(&steady, count)?;
    let findings = vec![
        finding("CPU of `stat true`, after/before", ratio(0)),
        finding("CPU of `record true`, after/before", ratio(2)),
        finding("flood: recorder CPU per GB, after/before", trials(&flood_rounds, Run::cpu_per_gb)),
        finding("steady: recorder CPU, after/before", trials(&steady_rounds, |run| run.cpu_s)),
    ];
    let mut report = Report::of_rounds(&short, &short_rounds, findings);
    report.table.extend(table(&flood, &flood_rounds));
    report.table.extend(table(&steady, &steady_rounds));
    report.raw = json!({
        "short": report.raw, "flood": raw(&flood, &flood_rounds), "steady": raw(&steady, &steady_rounds)
    });
    Ok(report)
}

fn finding(what: &str, measured: Estimate) -> Finding {
    Finding { what: what.to_owned(), measured, bound: NO_SLOWER }
}

/// `stat true` and `record true`, each by the binary before and then by the one after.
fn short_commands(scratch: &Scratch<'_>, before: &str) -> Vec<Variant> {
    let after = scratch.setting.tare();
    let stat = |tare: &str| [tare, "stat", "-o", "/dev/null", "true"].map(str::to_owned);
    let record = |tool, file| {
        [scratch.recorder(tool, &scratch.path(file)), vec!["true".to_owned()]].concat()
    };
    vec![
        Variant::new("stat true, before", stat(before)),
        Variant::new("stat true, after", stat(&after)),
        Variant::new("record true, before", record(Tool::Before, "before.data")),
        Variant::new("record true, after", record(Tool::Tare, "after.data")),
    ]
}

/// The second trial over the first, round by round.
fn trials(rounds: &[TrialRound], of: fn(&Run) -> f64) -> Estimate {
    Estimate::of_ratios(rounds.iter().map(|round| of(&round.runs[1]) / of(&round.runs[0])))
}

/// A line of shell that keeps two CPUs busy for some seconds.
fn two_busy(spin: &str) -> String {
    format!("'{spin}' 4000000000 & '{spin}' 4000000000 & wait")
}
