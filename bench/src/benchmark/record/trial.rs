//! Runs recorders in interleaved rounds and measures their own cost and their recordings.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};

use super::summary::summarize;
use crate::background::BackgroundLoad;
use crate::report::Estimate;
use crate::rounds::in_random_order;
use crate::run::{CommandOutput, succeed};
use crate::scratch::{Scratch, Tool};

/// The events that are counted around a recorder.
const COUNTED: [&str; 3] = ["raw_syscalls:sys_enter", "page-faults", "task-clock"];

/// A recorder with its options and its command.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Trial {
    pub(super) name: String,
    pub(super) tool: Tool,
    pub(super) options: Vec<String>,
    pub(super) command: Vec<String>,
    /// A shell command that runs beside the recorder.
    pub(super) beside: Option<String>,
    /// Whether `tare stat` counts the recorder's system calls and page faults, which also slows
    /// down the command's system calls.
    pub(super) counted: bool,
    /// The folder of the recording; by default the benchmark's own.
    pub(super) folder: Option<PathBuf>,
}

/// The result of one trial.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TrialResult {
    pub(super) elapsed_s: f64,
    /// CPU time of the recorder without its command, in seconds.
    pub(super) cpu_s: f64,
    pub(super) peak_bytes: u64,
    pub(super) file_bytes: u64,
    /// Bytes of the file in the page cache when the recorder exits; `None` without `fincore`.
    pub(super) cached_bytes: Option<u64>,
    /// Seconds for the first reader to read the whole file.
    pub(super) first_pass_s: f64,
    pub(super) samples: u64,
    /// Samples that name the recorder.
    pub(super) own: u64,
    pub(super) lost: u64,
    /// The recorder's system calls, if counted.
    pub(super) system_calls: Option<f64>,
    /// The recorder's page faults, if counted.
    pub(super) page_faults: Option<f64>,
    /// stdout of the recorder and its command.
    pub(super) printed: String,
    pub(super) ledger: Option<Value>,
}

impl TrialResult {
    /// Samples that don't name the recorder.
    pub(super) fn foreign(&self) -> f64 {
        self.samples.saturating_sub(self.own) as f64
    }

    pub(super) fn cpu_per_gb(&self) -> f64 {
        self.cpu_s / (self.file_bytes as f64 / 1e9)
    }

    /// The sum of the numbers in [`Self::printed`].
    pub(super) fn printed_sum(&self) -> f64 {
        self.printed.split_whitespace().filter_map(|word| word.parse::<f64>().ok()).sum()
    }
}

/// Every trial once.
#[derive(Clone, Debug, Serialize)]
pub(super) struct TrialRound {
    pub(super) order: Vec<usize>,
    pub(super) runs: Vec<TrialResult>,
}

/// Bytes of a file that are in the page cache.
fn cached(file: &Path) -> Option<u64> {
    let output = Command::new("fincore").args(["-nbo", "RES"]).arg(file).output().ok()?;
    String::from_utf8_lossy(&output.stdout).trim().parse().ok()
}

/// Seconds that reading a file takes.
fn first_pass(file: &Path) -> anyhow::Result<f64> {
    let mut file = File::open(file)?;
    let mut buffer = vec![0; 1 << 20];
    let began = Instant::now();
    while file.read(&mut buffer)? > 0 {}
    Ok(began.elapsed().as_secs_f64())
}

impl Scratch<'_> {
    /// Runs every trial once as a warm-up, then `count` rounds, each in a random order.
    pub(super) fn rounds(&self, trials: &[Trial], count: usize) -> anyhow::Result<Vec<TrialRound>> {
        self.round(trials, &BTreeMap::new())?;
        self.cold_rounds(trials, count)
    }

    /// Runs the rounds without a warm-up.
    pub(super) fn cold_rounds(
        &self,
        trials: &[Trial],
        count: usize,
    ) -> anyhow::Result<Vec<TrialRound>> {
        let mut bare = BTreeMap::new();
        for trial in trials.iter().filter(|trial| trial.counted) {
            if !bare.contains_key(&trial.command) {
                bare.insert(trial.command.clone(), self.bare_calls(&trial.command)?);
            }
        }
        (0..count).map(|_| self.round(trials, &bare)).collect()
    }

    /// Every trial once, in a random order.
    fn round(
        &self,
        trials: &[Trial],
        bare: &BTreeMap<Vec<String>, f64>,
    ) -> anyhow::Result<TrialRound> {
        let (order, runs) = in_random_order(trials, |trial| {
            let run = self.run(trial, bare.get(&trial.command).copied().unwrap_or(0.0));
            run.with_context(|| trial.name.clone())
        })?;
        Ok(TrialRound { order, runs })
    }

    fn run(&self, trial: &Trial, bare_calls: f64) -> anyhow::Result<TrialResult> {
        let folder = trial.folder.as_deref().unwrap_or_else(|| self.folder());
        let file = folder.join("recording");
        let used = self.path("used");
        let stat = self.path("stat");
        let mut words = if trial.counted { self.counting(&stat) } else { Vec::new() };
        words.extend(self.recorder(trial.tool, &file));
        words.extend(trial.options.iter().cloned());
        words.push("--".into());
        words.extend(self.using(&used, &trial.command));
        let beside = trial.beside.as_deref().map(BackgroundLoad::start).transpose()?;
        let done = succeed(&words)?;
        drop(beside);
        let [used_us, used_faults] = numbers(&used)?;
        let mut cpu_s = (done.ended.user + done.ended.system).as_secs_f64() - used_us / 1e6;
        let mut system_calls = None;
        let mut page_faults = None;
        if trial.counted {
            let [calls, faults, clock_ms] = counts(&stat)?;
            cpu_s = clock_ms / 1e3 - used_us / 1e6;
            system_calls = Some(calls - bare_calls);
            page_faults = Some(faults - used_faults);
        }
        let cached_bytes = cached(&file);
        let first_pass_s = first_pass(&file)?;
        let found = summarize(
            &file,
            Some(if trial.counted {
                done.grandchild.context("the recorder was not seen")?
            } else {
                done.pid
            }),
        )?;
        let file_bytes = std::fs::metadata(&file)?.len();
        for name in ["recording", "recording.old"] {
            let _ = std::fs::remove_file(folder.join(name));
        }
        let CommandOutput { ended, stdout: printed, .. } = done;
        Ok(TrialResult {
            elapsed_s: ended.elapsed.as_secs_f64(),
            cpu_s,
            peak_bytes: ended.peak_memory.context("unknown peak memory")?,
            file_bytes,
            cached_bytes,
            first_pass_s,
            samples: found.samples,
            own: found.own,
            lost: found.lost,
            system_calls,
            page_faults,
            printed,
            ledger: found.ledger,
        })
    }

    /// The number of system calls of a command without a recorder.
    fn bare_calls(&self, command: &[String]) -> anyhow::Result<f64> {
        let used = self.path("used");
        let stat = self.path("stat");
        let words = [self.counting(&stat), self.using(&used, command)].concat();
        succeed(&words)?;
        Ok(counts(&stat)?[0])
    }

    fn counting(&self, stat: &Path) -> Vec<String> {
        let tare = self.setting.tare();
        let events = COUNTED.join(",");
        let stat = stat.display().to_string();
        [&tare, "stat", "-x,", "-o", &stat, "-e", &events, "--"].map(str::to_owned).to_vec()
    }

    fn using(&self, used: &Path, command: &[String]) -> Vec<String> {
        [&[self.setting.workload("used"), used.display().to_string()], command].concat()
    }
}

/// Parses the two numbers in a file of the workload `used`.
fn numbers(path: &Path) -> anyhow::Result<[f64; 2]> {
    let text = std::fs::read_to_string(path).context("what the command used")?;
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse().ok());
    Ok([numbers.next().context("no CPU time")?, numbers.next().context("no page faults")?])
}

/// The first column of each counted event, in perf's CSV.
fn counts(stat: &Path) -> anyhow::Result<[f64; 3]> {
    let csv = std::fs::read_to_string(stat)?;
    let count = |event: &str| {
        csv.lines()
            .find(|line| line.split(',').nth(2) == Some(event))?
            .split(',')
            .next()?
            .parse()
            .ok()
    };
    let [Some(calls), Some(faults), Some(clock)] = COUNTED.map(count) else {
        anyhow::bail!("counts are missing in:\n{csv}")
    };
    Ok([calls, faults, clock])
}

/// The median of one trial's figure.
pub(super) fn median(
    rounds: &[TrialRound],
    at: usize,
    of: impl Fn(&TrialResult) -> f64,
) -> Estimate {
    Estimate::median(rounds.iter().map(|round| of(&round.runs[at])).collect())
}

/// The median over the rounds of the ratio of two trials' figures.
pub(super) fn ratio(
    rounds: &[TrialRound],
    at: usize,
    to: usize,
    of: impl Fn(&TrialResult) -> f64,
) -> Estimate {
    Estimate::median(rounds.iter().map(|round| of(&round.runs[at]) / of(&round.runs[to])).collect())
}

/// One line of medians per trial.
pub(super) fn table(trials: &[Trial], rounds: &[TrialRound]) -> Vec<String> {
    let mut table = vec![format!(
        "{:<34} {:>9} {:>9} {:>9} {:>10} {:>9} {:>9} {:>8} {:>8}   (medians of {})",
        "",
        "elapsed s",
        "CPU s",
        "MB",
        "samples",
        "own",
        "lost",
        "calls",
        "faults",
        rounds.len()
    )];
    for (at, trial) in trials.iter().enumerate() {
        let value = |of: fn(&TrialResult) -> f64| median(rounds, at, of).value;
        let counted = |of: fn(&TrialResult) -> Option<f64>| {
            let value = median(rounds, at, |run| of(run).unwrap_or(f64::NAN)).value;
            if value.is_nan() { "-".to_owned() } else { format!("{value:.0}") }
        };
        table.push(format!(
            "{:<34} {:>9.3} {:>9.4} {:>9.2} {:>10.0} {:>9.0} {:>9.0} {:>8} {:>8}",
            trial.name,
            value(|run| run.elapsed_s),
            value(|run| run.cpu_s),
            value(|run| run.file_bytes as f64 / 1e6),
            value(|run| run.samples as f64),
            value(|run| run.own as f64),
            value(|run| run.lost as f64),
            counted(|run| run.system_calls),
            counted(|run| run.page_faults),
        ));
    }
    table
}

pub(super) fn raw(trials: &[Trial], rounds: &[TrialRound]) -> Value {
    json!({ "trials": trials, "rounds": rounds })
}
