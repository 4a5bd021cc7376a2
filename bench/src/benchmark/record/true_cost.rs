//! Records `true`, the smallest command, so that nearly all cost is the recorder's own.

use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::{Variant, rounds};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let [of_tare, of_perf] = ["tare.data", "perf.data"].map(|name| scratch.path(name));
    let recorder = |tool, file| [scratch.recorder(tool, file), vec!["true".to_owned()]].concat();
    let variants = vec![
        Variant::new("true", ["true"]),
        Variant::new("tare record true", recorder(Tool::Tare, &of_tare)),
        Variant::new("perf record true", recorder(Tool::Perf, &of_perf)),
    ];
    let rounds = rounds(&variants, setting.rounds.unwrap_or(100))?;
    let ratios =
        rounds.iter().map(|round| round.usage[1].cpu_ns as f64 / round.usage[2].cpu_ns as f64);
    let measured = Estimate::median(ratios.collect());
    let bound = Bound::AtMost(1.0 / 40.0);
    let finding = Finding { what: "CPU, tare/perf".into(), measured, bound };
    Ok(Report::of_rounds(&variants, &rounds, vec![finding]))
}
