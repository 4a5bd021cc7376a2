//! A shell loop of short processes, each of which inherits every event.

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Variant, rounds};
use crate::setting::Setting;

const EVENTS: &str = "page-faults,minor-faults,major-faults,context-switches,cpu-migrations";

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let tare = setting.tare();
    let script = setting.workload("forks.sh");
    let variants = vec![
        Variant::new("bare", [&script, "2000"]),
        Variant::new("tare", [&tare, "stat", "-o", "/dev/null", "-e", EVENTS, &script, "2000"]),
        Variant::new("perf", ["perf", "stat", "-o", "/dev/null", "-e", EVENTS, &script, "2000"]),
    ];
    let rounds = rounds(&variants, setting.rounds.unwrap_or(40))?;
    let measured = Estimate::of_ratios(
        rounds
            .iter()
            .map(|round| round.usage[1].elapsed_ns as f64 / round.usage[2].elapsed_ns as f64),
    );
    let finding =
        Finding { what: "elapsed, tare/perf".into(), measured, bound: Bound::AtMost(1.05) };
    Ok(Report::of_rounds(&variants, &rounds, vec![finding]))
}
