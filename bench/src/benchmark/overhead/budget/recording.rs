//! A command that was recorded within a budget, with what others than its recorder saw of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use super::interrupts::{Interrupts, Samples, samples, sum_up, tracer};
use crate::run::{Outcome, succeed};
use crate::scratch::Scratch;
use crate::setting::Setting;

/// What one row of a profile stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Weight {
    pub(super) samples: f64,
    /// The sum of periods: nanoseconds.
    pub(super) ns: f64,
}

/// A command that was recorded.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Recording {
    pub(super) interrupts: Interrupts,
    /// CPU time of the recorder while the command ran, from the kernel's account of its threads.
    pub(super) recorder_ns: u64,
    /// How long that was.
    pub(super) elapsed_ns: u64,
    /// CPU time of the command.
    pub(super) command_ns: u64,
    /// The profile by the keys that were asked for.
    pub(super) rows: BTreeMap<String, Weight>,
    /// What the recorder says itself.
    pub(super) ledger: Value,
    /// For what share of the time the ledger says, also in its text, that the floor won.
    pub(super) floor: f64,
}

/// Where recordings and the state of tare are. It is gone at the end.
#[derive(Debug)]
pub(super) struct StateFolder<'a> {
    scratch: Scratch<'a>,
    /// An absolute path, or it would not count.
    state: PathBuf,
}

impl<'a> StateFolder<'a> {
    /// Also studies what samples cost here, as users are advised to.
    pub(super) fn new(setting: &'a Setting) -> anyhow::Result<Self> {
        let scratch = Scratch::new(setting)?;
        let state = scratch.folder().canonicalize()?;
        let place = Self { scratch, state };
        succeed(&place.tare(
            "overhead -e cpu-clock --rates 0,500,1000,2000,4000 --loops counting --pairs 100",
        ))?;
        Ok(place)
    }

    /// A file of the folder.
    fn file(&self, name: &str) -> String {
        self.scratch.path(name).display().to_string()
    }

    /// A command of the measured tare, with a state of its own.
    fn tare(&self, line: &str) -> Vec<String> {
        let state = format!("XDG_STATE_HOME={}", self.state.display());
        ["env".to_owned(), state, self.scratch.setting.tare()]
            .into_iter()
            .chain(line.split_whitespace().map(str::to_owned))
            .collect()
    }

    /// Runs a command under the tracer.
    fn traced(&self, words: Vec<String>) -> anyhow::Result<Outcome> {
        succeed(&[tracer(&self.scratch.path("trace.data"))?, words].concat())
    }

    /// What the tracer saw of the events that these samples are of.
    fn interrupts(&self, samples: &Samples) -> anyhow::Result<Interrupts> {
        sum_up(&self.scratch.path("trace.data"), samples).context("the trace of interrupts")
    }

    /// Interrupts that sample while nobody records, which the tracer's own would be among.
    pub(super) fn nobody(&self) -> anyhow::Result<Interrupts> {
        self.traced(vec!["sleep".to_owned(), "1".to_owned()])?;
        self.interrupts(&Samples::new())
    }

    /// Records a command, the name of a workload and its arguments.
    pub(super) fn record(
        &self,
        options: &str,
        command: &str,
        sort: &str,
    ) -> anyhow::Result<Recording> {
        let data = self.file("perf.data");
        let looks = self.file("looks");
        let (program, arguments) = command.split_once(' ').unwrap_or((command, ""));
        let mut words = self.tare(&format!("record -e cpu-clock {options} -o {data} --"));
        words.extend([
            self.scratch.setting.workload("recorded.sh"),
            looks.clone(),
            self.scratch.setting.workload(program),
        ]);
        words.extend(arguments.split_whitespace().map(str::to_owned));
        let done = self.traced(words)?;
        let ((begin_ns, before_ns), (end_ns, after_ns)) =
            two_looks(&std::fs::read_to_string(looks)?)?;
        let report = succeed(&self.tare(&format!("report --json -G --sort {sort} -i {data}")))?;
        let report: Value = serde_json::from_str(&report.stdout)?;
        let ledger = &report["ledger"];
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let floor =
            number(&ledger["budget"]["floor_ns"]) as f64 / number(&ledger["recorded_ns"]) as f64;
        Ok(Recording {
            interrupts: self.interrupts(&samples(data.as_ref()).context("the recording")?)?,
            recorder_ns: after_ns.saturating_sub(before_ns),
            elapsed_ns: end_ns.saturating_sub(begin_ns),
            command_ns: number(&ledger["command"]["user_ns"])
                + number(&ledger["command"]["system_ns"]),
            rows: rows(&report["events"][0]),
            ledger: json!({
                "recorded_ns": ledger["recorded_ns"], "budget": ledger["budget"], "sampling": ledger["sampling"], "cost": ledger["cost"],
                "sample_us": ledger["events"][0]["sample_cost"]["us"], "samples": ledger["events"][0]["samples"], "throttled": ledger["throttled"],
            }),
            floor: if done.stderr.contains("budget: exceeded for") { floor } else { 0.0 },
        })
    }
}

/// The two looks of `recorded.sh`: when each was, and the sum of what threads had used, all in
/// nanoseconds.
fn two_looks(text: &str) -> anyhow::Result<((u64, u64), (u64, u64))> {
    let mut looks: Vec<(u64, u64)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("at "), looks.last_mut()) {
            (Some(time), _) => looks.push((time.parse()?, 0)),
            (None, Some(look)) => {
                look.1 += line.split(' ').next().unwrap_or(line).parse::<u64>()?;
            }
            (None, None) => anyhow::bail!("'{line}' belongs to no look"),
        }
    }
    match looks[..] {
        [before, after] => Ok((before, after)),
        _ => anyhow::bail!("{} looks at the recorder instead of two", looks.len()),
    }
}

/// The rows of a report by their command and function, as far as they have these.
fn rows(event: &Value) -> BTreeMap<String, Weight> {
    let mut rows: BTreeMap<String, Weight> = BTreeMap::new();
    for entry in event["entries"].as_array().into_iter().flatten() {
        let name = ["comm", "symbol"]
            .iter()
            .filter_map(|key| entry[key].as_str())
            .collect::<Vec<_>>()
            .join(" ");
        let row = rows.entry(name).or_default();
        row.samples += entry["own"]["samples"].as_f64().unwrap_or(0.0);
        row.ns += entry["own"]["period"].as_f64().unwrap_or(0.0);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_sums_over_threads() {
        assert_eq!(
            two_looks("at 10\n5 1 1\n6 1 1\nat 30\n9 2 2\n7 2 2\n").unwrap(),
            ((10, 11), (30, 16))
        );
        assert!(two_looks("at 10\n5 1 1\n").is_err() && two_looks("5 1 1\n").is_err());
    }
}
