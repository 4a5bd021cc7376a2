//! A command recorded within a budget, and the cost as measured from outside the recorder.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use super::interrupts::{Interrupts, Samples, samples, sum_up, tracer};
use crate::run::{CommandOutput, succeed};
use crate::scratch::Scratch;
use crate::setting::Setting;

/// The weight of one row of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Weight {
    pub(super) samples: f64,
    /// The sum of periods: nanoseconds.
    pub(super) ns: f64,
}

/// A recorded command.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct BudgetRecording {
    pub(super) interrupts: Interrupts,
    /// CPU time of the recorder while the command ran, from the kernel's account of its threads.
    pub(super) recorder_ns: u64,
    /// Elapsed time of the command.
    pub(super) elapsed_ns: u64,
    /// CPU time of the command.
    pub(super) command_ns: u64,
    /// The profile's rows, by function or by command.
    pub(super) rows: BTreeMap<String, Weight>,
    /// Parts of the recording's ledger.
    pub(super) ledger: Value,
    /// The share of the time for which the ledger reports that the lowest rate exceeded the budget;
    /// 0 if the recorder printed no message about it.
    pub(super) floor: f64,
}

/// A folder for recordings and for tare's state. It is removed on drop.
#[derive(Debug)]
pub(super) struct StateFolder<'a> {
    scratch: Scratch<'a>,
    /// An absolute path: tare ignores a relative one.
    state: PathBuf,
}

impl<'a> StateFolder<'a> {
    /// Makes the folder and runs `tare overhead`, as the manual advises.
    pub(super) fn new(setting: &'a Setting) -> anyhow::Result<Self> {
        let scratch = Scratch::new(setting)?;
        let state = scratch.folder().canonicalize()?;
        let place = Self { scratch, state };
        succeed(&place.tare(
            "overhead -e cpu-clock --rates 0,500,1000,2000,4000 --loops counting --pairs 100",
        ))?;
        Ok(place)
    }

    /// The path of a file in the folder.
    fn file(&self, name: &str) -> String {
        self.scratch.path(name).display().to_string()
    }

    /// A command line of the tare under test with this state folder.
    fn tare(&self, line: &str) -> Vec<String> {
        let state = format!("XDG_STATE_HOME={}", self.state.display());
        ["env".to_owned(), state, self.scratch.setting.tare()]
            .into_iter()
            .chain(line.split_whitespace().map(str::to_owned))
            .collect()
    }

    /// Runs a command under the tracer.
    fn traced(&self, words: Vec<String>) -> anyhow::Result<CommandOutput> {
        succeed(&[tracer(&self.scratch.path("trace.data"))?, words].concat())
    }

    /// Sums up the traced interrupts: those of the samples' events, and the number of others.
    fn interrupts(&self, samples: &Samples) -> anyhow::Result<Interrupts> {
        sum_up(&self.scratch.path("trace.data"), samples).context("the trace of interrupts")
    }

    /// Counts sampling interrupts for a second while nothing is recorded but the trace.
    pub(super) fn count_without_recording(&self) -> anyhow::Result<Interrupts> {
        self.traced(vec!["sleep".to_owned(), "1".to_owned()])?;
        self.interrupts(&Samples::new())
    }

    /// Records a command: the name of a workload, and its arguments.
    pub(super) fn record(
        &self,
        options: &str,
        command: &str,
        sort: &str,
    ) -> anyhow::Result<BudgetRecording> {
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
        Ok(BudgetRecording {
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

/// Parses the two readings of `recorded.sh`: the time and the summed CPU time of the threads, in
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

/// The rows of a report, named by command and symbol as far as the entries have them.
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
