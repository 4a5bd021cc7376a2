//! A recorded command, and the exact CPU time of each of its processes.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::Context;
use serde::Serialize;
use tare_format::abi::Sampling;
use tare_format::file::Reader;
use tare_format::record::Sample;
use tare_format::record::kind::PERF_RECORD_SAMPLE;

use crate::run::succeed;
use crate::scratch::{Scratch, Tool};

/// A recorder and its mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RecorderKind {
    Perf,
    /// tare with this value of `--follow`.
    Tare(&'static str),
}

impl RecorderKind {
    /// perf, and tare in each mode.
    pub(super) const ALL: [Self; 4] =
        [Self::Perf, Self::Tare("cgroup"), Self::Tare("system"), Self::Tare("inherit")];

    pub(super) fn name(self) -> String {
        match self {
            Self::Perf => "perf".to_owned(),
            Self::Tare(mode) => format!("tare {mode}"),
        }
    }
}

/// CPU time of the processes with one command name, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Time {
    /// The kernel's count.
    pub(super) exact_s: f64,
    /// The sum of the samples' periods.
    pub(super) sampled_s: f64,
}

/// Samples and CPU time of a recorded command.
#[derive(Clone, Debug, Serialize)]
pub(super) struct RecordedCommand {
    pub(super) samples: u64,
    /// By the last name of each process, so that CPU time before an execve counts for the program.
    pub(super) names: BTreeMap<String, Time>,
}

impl RecordedCommand {
    /// The sampled CPU time, divided by the exact one.
    pub(super) fn coverage(&self) -> f64 {
        let sum = |of: fn(&Time) -> f64| self.names.values().map(of).sum::<f64>();
        sum(|time| time.sampled_s) / sum(|time| time.exact_s)
    }
}

impl Scratch<'_> {
    pub(super) fn recording(&self) -> PathBuf {
        self.path("perf.data")
    }

    /// The whole command line of a recorder that follows a command.
    pub(super) fn following(
        &self,
        who: RecorderKind,
        options: &[&str],
        command: &[String],
    ) -> Vec<String> {
        let mut words = match who {
            RecorderKind::Perf => self.recorder(Tool::Perf, &self.recording()),
            RecorderKind::Tare(mode) => [
                self.recorder(Tool::Tare, &self.recording()),
                vec!["-q".to_owned(), format!("--follow={mode}")],
            ]
            .concat(),
        };
        words.extend(options.iter().map(|&option| option.to_owned()));
        words.push("--".to_owned());
        words.extend(command.iter().cloned());
        words
    }

    /// Records a command and returns sampled and exact CPU time by process name. The recording
    /// stays.
    pub(super) fn follow(
        &self,
        who: RecorderKind,
        options: &[&str],
        command: &[String],
    ) -> anyhow::Result<RecordedCommand> {
        // Processes may have other working folders.
        let used = std::path::absolute(self.path("used"))?;
        let library = std::fs::canonicalize(self.setting.workload("waits.so"))?;
        let mut noted = vec![
            self.setting.workload("waited"),
            library.display().to_string(),
            used.display().to_string(),
        ];
        noted.extend(command.iter().cloned());
        succeed(&self.following(who, options, &noted))?;
        let exact = exact(&std::fs::read_to_string(&used)?)?;
        std::fs::remove_file(&used)?;
        sampled(&self.recording(), &exact)
    }
}

/// The last name and the own CPU time of each process in a file of the workload `waited`, by pid.
fn exact(log: &str) -> anyhow::Result<HashMap<i32, (String, f64)>> {
    let parse = |line: &str| {
        let mut fields = line.splitn(4, ' ');
        Some((
            fields.next()?.parse().ok()?,
            fields.next()?.parse().ok()?,
            fields.next()?.parse().ok()?,
            fields.next()?.to_owned(),
        ))
    };
    let lines: Vec<(i32, i32, f64, String)> = log
        .lines()
        .map(|line| parse(line).with_context(|| format!("'{line}'")))
        .collect::<Result<_, _>>()?;
    let mut of_children: HashMap<i32, f64> = HashMap::new();
    for (waiter, _, us, _) in &lines {
        *of_children.entry(*waiter).or_default() += us;
    }
    // The line with waiter 0 is of `waited` itself, whose time excludes its children's.
    let own = |(waiter, pid, us, name): (i32, i32, f64, String)| {
        let children = of_children.get(&pid).copied().filter(|_| waiter != 0).unwrap_or(0.0);
        (pid, (name, (us - children) / 1e6))
    };
    Ok(lines.into_iter().map(own).collect())
}

/// Attributes samples to processes. A recording of whole CPUs also holds other processes, which are
/// left out.
fn sampled(path: &Path, exact: &HashMap<i32, (String, f64)>) -> anyhow::Result<RecordedCommand> {
    let mut recorded = RecordedCommand { samples: 0, names: BTreeMap::new() };
    for (name, own_s) in exact.values() {
        recorded.names.entry(name.clone()).or_default().exact_s += own_s;
    }
    let mut reader = Reader::open(File::open(path)?).with_context(|| path.display().to_string())?;
    while let Some(entry) = reader.next_record()? {
        if entry.record.kind != PERF_RECORD_SAMPLE {
            continue;
        }
        let sample = Sample::from_record(&entry.record, entry.description.lookup())?;
        let event = entry
            .description
            .lookup()
            .index_of(&entry.record)
            .and_then(|at| entry.description.events().get(at));
        let period_ns = match event.map(|event| event.attr.sampling) {
            Some(Sampling::Period(period)) => period,
            _ => sample.head.period.context("a sample says no period")?,
        };
        let Some((name, _)) = sample.head.pid.and_then(|pid| exact.get(&pid)) else { continue };
        recorded.samples += 1;
        recorded.names.entry(name.clone()).or_default().sampled_s += period_ns as f64 / 1e9;
    }
    anyhow::ensure!(
        reader.losses().is_empty(),
        "{}: not all of it can be read: {:?}",
        path.display(),
        reader.losses()
    );
    Ok(recorded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_children_used_is_not_their_parents() {
        let own = exact("2 3 100 date\n2 4 300 expr\n1 2 1000 sh\n0 1 50 waited\n").unwrap();
        let near = |pid: i32, name: &str, us: f64| {
            own[&pid].0 == name && (own[&pid].1 * 1e6 - us).abs() < 1e-6
        };
        assert!(
            near(2, "sh", 600.0) && near(4, "expr", 300.0) && near(1, "waited", 50.0),
            "{own:?}"
        );
        assert!(exact("1 x 3 sh").is_err());
    }
}
