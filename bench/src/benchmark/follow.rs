//! What recording a shell loop of short processes adds to its elapsed time, by the number of events and by how children are followed.

pub(super) mod build;
pub(super) mod clean;
pub(super) mod coverage;
mod recorded;
pub(super) mod threads;

use anyhow::Context;

use super::Setting;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};

const SOFTWARE: [&str; 5] = ["page-faults", "minor-faults", "context-switches", "cpu-migrations", "major-faults"];
const TRACED: [&str; 5] = ["page-faults", "minor-faults", "context-switches", "kmem:mm_page_alloc", "raw_syscalls:sys_enter"];

const MODES: [&str; 3] = ["cgroup", "system", "inherit"];
/// Commands that one run of the loop starts, twice.
const LOOPS: &str = "500";

/// Software events alone.
pub(crate) fn software(setting: &Setting) -> anyhow::Result<Report> {
    run(setting, SOFTWARE)
}

/// Two tracepoints among them, whose own cost is the floor.
pub(crate) fn traced(setting: &Setting) -> anyhow::Result<Report> {
    run(setting, TRACED)
}

fn run(setting: &Setting, events: [&str; 5]) -> anyhow::Result<Report> {
    // Relative, as the raw figures keep it: an absolute path would tell where this machine has the project.
    let beside = setting.tare.parent().unwrap_or(&setting.tare);
    let folder = tempfile::tempdir_in(beside)?;
    let root = beside.join(folder.path().file_name().context("a folder has a name")?);
    let file = |name: &str| root.join(name).display().to_string();
    let (tare, script) = (setting.tare(), setting.workload("commands.sh"));
    let mut variants = vec![Variant::new("bare", [&script, LOOPS])];
    for number in 1..=events.len() {
        let chosen = events[..number].join(",");
        let (cache, recording) = (file("buildid"), file("perf.data"));
        let options = ["record", "--no-bpf-event", "-o", &recording, "-F", "4000", "-e", &chosen, "--", &script, LOOPS];
        variants.push(Variant::new(format!("perf, {number} events"), [&["perf", "--buildid-dir", &cache], &options[..]].concat()));
        for mode in MODES {
            let follow = format!("--follow={mode}");
            let words = [&tare, "record", "-q", "-o", &recording, &follow, "-F", "4000", "-e", &chosen, "--", &script, LOOPS];
            variants.push(Variant::new(format!("tare {mode}, {number} events"), words));
        }
    }
    let rounds = rounds(&variants, setting.rounds.unwrap_or(20))?;
    let mut report = Report::of_rounds(&variants, &rounds, findings(&rounds, events.len()));
    for number in 1..=events.len() {
        let added = |nth: usize| {
            Estimate::median(rounds.iter().map(|round| 100.0 * (elapsed(round, place(number, nth)) / elapsed(round, 0) - 1.0)).collect())
        };
        let added: Vec<_> = ["perf"].into_iter().chain(MODES).enumerate().map(|(nth, who)| format!("{who} {:+.1}%", added(nth).value)).collect();
        report.table.push(format!("{number} events add to the elapsed time, medians: {}", added.join(", ")));
    }
    Ok(report)
}

/// Among the variants: perf is 0, then come the modes.
fn place(number: usize, nth: usize) -> usize {
    1 + (number - 1) * (1 + MODES.len()) + nth
}

fn elapsed(round: &Round, at: usize) -> f64 {
    round.usage[at].elapsed_ns as f64
}

fn findings(rounds: &[Round], events: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (nth, mode) in MODES.iter().enumerate().take(2).map(|(nth, mode)| (nth + 1, mode)) {
        for number in 1..=events {
            let added = |round: &Round, nth| elapsed(round, place(number, nth)) - elapsed(round, 0);
            // Where noise has perf add nothing the ratio says nothing: medians of both are held against each other.
            let of = |nth| Estimate::median(rounds.iter().map(|round| added(round, nth)).collect()).value;
            let measured = Estimate::exact(of(nth) / of(0));
            findings.push(Finding { what: format!("elapsed added by {number} events, tare {mode}/perf"), measured, bound: Bound::AtMost(1.0 / 3.0) });
        }
        let growth = |round: &Round| (elapsed(round, place(events, nth)) - elapsed(round, place(1, nth))) / elapsed(round, 0);
        let measured = Estimate::median(rounds.iter().map(growth).collect());
        findings.push(Finding {
            what: format!("{events} events instead of 1 add to the elapsed time, tare {mode}"),
            measured,
            bound: Bound::EstimateAtMost(0.03),
        });
    }
    findings
}
