//! The cost that recording adds to a thread that does nothing.

use anyhow::Context;
use serde_json::json;

use super::SOFTWARE;
use super::recorded::RecorderKind;
use crate::report::{Bound, Estimate, Finding, Report};
use crate::rounds::in_random_order;
use crate::run::succeed;
use crate::scratch::Scratch;
use crate::setting::Setting;

const THREADS: &str = "20000";

pub(crate) fn run(setting: &Setting) -> anyhow::Result<Report> {
    let scratch = Scratch::new(setting)?;
    let command = [setting.workload("threads"), THREADS.to_owned()];
    let events = SOFTWARE.join(",");
    let options = ["-F", "4000", "-e", &events];
    let recorders =
        RecorderKind::ALL.map(|who| (who.name(), scratch.following(who, &options, &command)));
    let ways: Vec<_> =
        std::iter::once(("bare".to_owned(), command.to_vec())).chain(recorders).collect();
    let round = || -> anyhow::Result<Vec<f64>> {
        let thread_ns = |(_, words): &(String, Vec<String>)| {
            let printed = succeed(words)?.stdout;
            printed.trim().parse().with_context(|| format!("'{printed}' is no time"))
        };
        Ok(in_random_order(&ways, thread_ns)?.1)
    };
    round()?;
    let rounds: Vec<Vec<f64>> =
        (0..setting.rounds.unwrap_or(10)).map(|_| round()).collect::<Result<_, _>>()?;
    let of = |at: usize| Estimate::median(rounds.iter().map(|round| round[at]).collect());
    let to_bare =
        |at: usize| Estimate::median(rounds.iter().map(|round| round[at] / round[0]).collect());
    let row = |(at, (name, _)): (usize, &(String, _))| {
        format!("{name:<13} {:>9.2} us a thread, {} times bare", of(at).value / 1e3, to_bare(at))
    };
    let table = ways.iter().enumerate().map(row).collect();
    let cgroup = Finding {
        what: "time per thread, tare cgroup/bare".to_owned(),
        measured: to_bare(2),
        bound: Bound::AtMost(1.2),
    };
    let names: Vec<_> = ways.iter().map(|(name, _)| name).collect();
    Ok(Report { table, findings: vec![cgroup], raw: json!({ "ways": names, "thread_ns": rounds }) })
}
