//! Records an idle machine, where a recorder that records its own activity mostly sees itself.

use super::trial;
use super::trial::{TrialResult, median, raw, table};
use crate::report::{Bound, Estimate, Finding, Report};
use crate::scratch::{Scratch, Tool};
use crate::setting::Setting;

const EVENTS: &str = "-a -e raw_syscalls:*,sched:sched_switch";

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let sleep = super::words("sleep 1");
    let trials = [
        trial("tare", Tool::Tare, EVENTS, &sleep),
        trial("tare --include-self", Tool::Tare, &format!("{EVENTS} --include-self"), &sleep),
        trial("perf", Tool::Perf, EVENTS, &sleep),
    ];
    let rounds = scratch.rounds(&trials, setting.rounds.unwrap_or(15))?;
    let most = |at: usize, of: fn(&TrialResult) -> f64| {
        Estimate::exact(rounds.iter().map(|round| of(&round.runs[at])).fold(0.0, f64::max))
    };
    let of_allowed = |run: &TrialResult| run.file_bytes as f64 / (300e3 + 120.0 * run.foreign());
    let findings = vec![
        Finding {
            what: "own events, tare, the most of any run".into(),
            measured: most(0, |run| run.own as f64),
            bound: Bound::AtMost(0.0),
        },
        Finding {
            what: "own events, tare --include-self, the most of any run".into(),
            measured: most(1, |run| run.own as f64),
            bound: Bound::AtMost(199.0),
        },
        Finding {
            what:
                "the file's size, tare, as a share of 300 kB + 120 B for each foreign event, median"
                    .into(),
            measured: median(&rounds, 0, of_allowed),
            bound: Bound::AtMost(1.0),
        },
        Finding {
            what: "the same, the most of any run".into(),
            measured: most(0, of_allowed),
            bound: Bound::AtMost(1.0),
        },
    ];
    let mut table = table(&trials, &rounds);
    let share = median(&rounds, 2, |run| 100.0 * run.own as f64 / run.samples.max(1) as f64).value;
    table.push(format!("of perf's samples {share:.2}% are its own"));
    Ok(Report { table, findings, raw: raw(&trials, &rounds) })
}
