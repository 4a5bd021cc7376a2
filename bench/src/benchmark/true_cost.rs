//! Counts `true`, the smallest command, so that nearly all cost is the tool's own.

use crate::machine;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::Usage;
use crate::setting::Setting;

const SAME_EVENTS: &str = "task-clock,context-switches,cpu-migrations,page-faults";

/// Indices of the variants.
const TRUE: usize = 0;
const TARE: usize = 1;
const PERF: usize = 2;
const TARE_SAME: usize = 3;
const PERF_SAME: usize = 4;
const STATIC: usize = 5;
const TARE_NULL: usize = 6;
const STATIC_SAME: usize = 7;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let tare = setting.tare();
    let starts = setting.workload("starts");
    let stat = ["stat", "-o", "/dev/null"];
    let counting = |tool: &str, options: &[&str]| -> Vec<String> {
        let words = [&[tool], &stat[..], options, &["true"]].concat();
        words.into_iter().map(str::to_owned).collect()
    };
    let variants = vec![
        Variant::new("true", ["true"]),
        Variant::new("tare, default events", counting(&tare, &[])),
        Variant::new("perf, default events", counting("perf", &[])),
        Variant::new("tare, same events", counting(&tare, &["-e", SAME_EVENTS])),
        Variant::new("perf, same events", counting("perf", &["-e", SAME_EVENTS])),
        Variant::new("a static program", [&starts, "true"]),
        Variant::new("tare, --null", counting(&tare, &["--null"])),
        Variant::new("a static program, same events", [&starts, "-e", "true"]),
    ];
    let rounds = rounds(&variants, setting.rounds.unwrap_or(200))?;
    let findings = findings(&rounds);
    Ok(Report::of_rounds(&variants, &rounds, findings))
}

fn findings(rounds: &[Round]) -> Vec<Finding> {
    let ratio = |of: fn(&Usage) -> u64, [at, to]: [usize; 2]| {
        let ratios =
            rounds.iter().map(|round| of(&round.usage[at]) as f64 / of(&round.usage[to]) as f64);
        Estimate::of_ratios(ratios)
    };
    let more_cpu_ms = |[at, to]: [usize; 2]| {
        let cpu_ms = |round: &Round, at: usize| round.usage[at].cpu_ns as f64 / 1e6;
        Estimate::from_figures(
            rounds.iter().map(|round| cpu_ms(round, at) - cpu_ms(round, to)).collect(),
        )
    };
    // A difference may be negative, so its logarithm may not exist; perf's difference is always far
    // from zero.
    let added = |round: &Round, at: usize| {
        round.usage[at].elapsed_ns as f64 - round.usage[TRUE].elapsed_ns as f64
    };
    let cpu = |usage: &Usage| usage.cpu_ns;
    let finding = |what: &str, measured, most| Finding {
        what: what.to_owned(),
        measured,
        bound: Bound::AtMost(most),
    };
    vec![
        finding(
            "CPU, tare/perf",
            ratio(cpu, [TARE, PERF]),
            if machine::is_amd() { 1.0 / 5.0 } else { 1.0 / 6.0 },
        ),
        finding("peak memory, tare/perf", ratio(|usage| usage.peak_bytes, [TARE, PERF]), 0.25),
        // All of these are static programs with the toolchain's C library.
        finding(
            "CPU of --null above a program that forks, executes and waits, ms",
            more_cpu_ms([TARE_NULL, STATIC]),
            0.4,
        ),
        finding(
            "CPU above such a program with the same events, ms",
            more_cpu_ms([TARE_SAME, STATIC_SAME]),
            0.1,
        ),
        // This ratio shows how much of the first bound the C library, kernel and host use up.
        finding(
            "CPU of such a program with the same events, of perf's",
            ratio(cpu, [STATIC_SAME, PERF_SAME]),
            1.0,
        ),
        finding(
            "elapsed added to bare true with the same events, tare/perf",
            Estimate::from_figures(
                rounds
                    .iter()
                    .map(|round| added(round, TARE_SAME) / added(round, PERF_SAME))
                    .collect(),
            ),
            0.2,
        ),
    ]
}
