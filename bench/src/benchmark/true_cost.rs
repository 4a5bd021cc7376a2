//! The smallest thing to count, so that everything else is the tool's own cost.

use crate::machine;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Round, Variant, rounds};
use crate::run::Usage;
use crate::setting::Setting;

const SAME_EVENTS: &str = "task-clock,context-switches,cpu-migrations,page-faults";

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let tare = setting.tare();
    let variants = vec![
        Variant::new("true", ["true"]),
        Variant::new("tare, default events", [&tare, "stat", "-o", "/dev/null", "true"]),
        Variant::new("perf, default events", ["perf", "stat", "-o", "/dev/null", "true"]),
        Variant::new(
            "tare, same events",
            [&tare, "stat", "-o", "/dev/null", "-e", SAME_EVENTS, "true"],
        ),
        Variant::new(
            "perf, same events",
            ["perf", "stat", "-o", "/dev/null", "-e", SAME_EVENTS, "true"],
        ),
        Variant::new("a static program", [&setting.workload("starts"), "true"]),
        Variant::new("tare, --null", [&tare, "stat", "-o", "/dev/null", "--null", "true"]),
    ];
    let rounds = rounds(&variants, setting.rounds.unwrap_or(200))?;
    let ratio = |of: fn(&Usage) -> u64| {
        Estimate::of_ratios(
            rounds.iter().map(|round| of(&round.usage[1]) as f64 / of(&round.usage[2]) as f64),
        )
    };
    let added_cpu_ms = |round: &Round, [at, to]: [usize; 2]| {
        (round.usage[at].cpu_ns as f64 - round.usage[to].cpu_ns as f64) / 1e6
    };
    // A difference can be negative, so its ratio has no logarithm; what perf adds is always far
    // from zero.
    let added = |round: &Round, at: usize| {
        round.usage[at].elapsed_ns as f64 - round.usage[0].elapsed_ns as f64
    };
    let findings = vec![
        Finding {
            what: "CPU, tare/perf".into(),
            measured: ratio(|usage| usage.cpu_ns),
            bound: Bound::AtMost(if machine::is_amd() { 1.0 / 5.0 } else { 1.0 / 6.0 }),
        },
        Finding {
            what: "peak memory, tare/perf".into(),
            measured: ratio(|usage| usage.peak_bytes),
            bound: Bound::AtMost(0.5),
        },
        // Both are static programs on the C library of the toolchain.
        Finding {
            what: "CPU of --null above a program that forks, executes and waits, ms".into(),
            measured: Estimate::of(
                rounds.iter().map(|round| added_cpu_ms(round, [6, 5])).collect(),
            ),
            bound: Bound::AtMost(0.4),
        },
        Finding {
            what: "elapsed added to bare true with the same events, tare/perf".into(),
            measured: Estimate::of(
                rounds.iter().map(|round| added(round, 3) / added(round, 4)).collect(),
            ),
            bound: Bound::AtMost(0.2),
        },
    ];
    Ok(Report::of_rounds(&variants, &rounds, findings))
}
