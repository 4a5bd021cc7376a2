//! The elapsed time that recording adds to a shell loop of short processes, by number of events and
//! by recorder: perf, and tare with each mode of `--follow`.

pub(super) mod build;
pub(super) mod clean;
pub(super) mod coverage;
mod recorded;
pub(super) mod threads;

use self::recorded::RecorderKind;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::scratch::Scratch;
use crate::setting::Setting;

const SOFTWARE: [&str; 5] =
    ["page-faults", "minor-faults", "context-switches", "cpu-migrations", "major-faults"];
const TRACED: [&str; 5] = [
    "page-faults",
    "minor-faults",
    "context-switches",
    "kmem:mm_page_alloc",
    "raw_syscalls:sys_enter",
];

/// Passes of the loop; each starts two commands.
const LOOPS: &str = "500";

/// Bare runs in each round.
const BARE_RUNS: usize = 3;

/// One to five software events.
pub(crate) fn software(setting: &Setting) -> anyhow::Result<Report> {
    run(setting, SOFTWARE)
}

/// One to five events; the last two are tracepoints.
pub(crate) fn traced(setting: &Setting) -> anyhow::Result<Report> {
    run(setting, TRACED)
}

fn run(setting: &Setting, events: [&str; 5]) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let command = [setting.workload("commands.sh"), LOOPS.to_owned()];
    // The bare loop is the base of every comparison and noisy too, so it runs more often.
    let mut variants = vec![Variant::new("bare", command.clone()); BARE_RUNS];
    for number in 1..=events.len() {
        let chosen = events[..number].join(",");
        for who in RecorderKind::ALL {
            let words = scratch.following(who, &["-F", "4000", "-e", &chosen], &command);
            variants.push(Variant::new(format!("{}, {number} events", who.name()), words));
        }
    }
    let rounds = rounds(&variants, setting.rounds.unwrap_or(20))?;
    let mut report = Report::of_rounds(&variants, &rounds, findings(&rounds, events.len()));
    for number in 1..=events.len() {
        let added = |nth: usize| {
            Estimate::median(
                rounds
                    .iter()
                    .map(|round| 100.0 * (elapsed(round, place(number, nth)) / bare(round) - 1.0))
                    .collect(),
            )
        };
        let added: Vec<_> = RecorderKind::ALL
            .iter()
            .enumerate()
            .map(|(nth, who)| format!("{} {:+.1}%", who.name(), added(nth).value))
            .collect();
        report.table.push(format!(
            "{number} events add to the elapsed time, medians: {}",
            added.join(", ")
        ));
    }
    Ok(report)
}

/// The index of a variant: the nth of [`RecorderKind::ALL`] with `number` events.
fn place(number: usize, nth: usize) -> usize {
    BARE_RUNS + (number - 1) * RecorderKind::ALL.len() + nth
}

/// The median of a round's bare runs.
fn bare(round: &Round) -> f64 {
    Estimate::median((0..BARE_RUNS).map(|at| elapsed(round, at)).collect()).value
}

fn elapsed(round: &Round, at: usize) -> f64 {
    round.usage[at].elapsed_ns as f64
}

fn findings(rounds: &[Round], events: usize) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (nth, who) in RecorderKind::ALL.iter().enumerate().skip(1).take(2) {
        let who = who.name();
        // Where perf adds no more than the noise, a ratio per round is meaningless: compare the
        // medians.
        let added = |number, nth| {
            Estimate::median(
                rounds
                    .iter()
                    .map(|round| elapsed(round, place(number, nth)) - bare(round))
                    .collect(),
            )
            .value
        };
        for number in 1..=events {
            let measured = Estimate::exact(added(number, nth) / added(number, 0));
            findings.push(Finding {
                what: format!("elapsed added by {number} events, {who}/perf"),
                measured,
                bound: Bound::AtMost(1.0 / 3.0),
            });
        }
        let all = |nth| (1..=events).map(|number| added(number, nth)).sum::<f64>();
        let measured = Estimate::exact(all(nth) / all(0));
        findings.push(Finding {
            what: format!("elapsed added by 1 to {events} events, their sum, {who}/perf"),
            measured,
            bound: Bound::AtMost(1.0 / 3.0),
        });
        let growth = |round: &Round| {
            (elapsed(round, place(events, nth)) - elapsed(round, place(1, nth))) / bare(round)
        };
        let measured = Estimate::median(rounds.iter().map(growth).collect());
        findings.push(Finding {
            what: format!("{events} events instead of 1 add to the elapsed time, {who}"),
            measured,
            bound: Bound::EstimateAtMost(0.03),
        });
    }
    findings
}
