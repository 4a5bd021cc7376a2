//! `tare overhead --with`: a program bare and under profilers, in rounds.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use anyhow::Context;
use tare_kernel::child::{ChildCommand, FileLimit, WaitingChild};
use tare_kernel::signals::Signals;
use tare_measure::compare::{Measurement, Rules};
use tare_measure::overhead::profiled::{ProfiledProgram, ProfilerCost, stop_name};
use tare_measure::overhead::rounds::{self, Stop};

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::overhead::ProfilerComparison;
use crate::command::supervise::run_to_exit;
use crate::exit::{Exit, Refusal};

/// Why a run can't be used.
enum RunFailure {
    /// It ended with this status.
    Status { variant: usize, status: u8 },
    /// A signal to tare ended it.
    Interrupted(i32),
    /// Anything else.
    Other(anyhow::Error),
}

pub(super) fn run(with: &ProfilerComparison, raw: &raw::OverheadArgs) -> Outcome {
    let began = Instant::now();
    let (rounds, stop) = {
        let signals = Signals::block().context("cannot wait for signals")?;
        let commands = commands(with)?;
        let mut run = |variant: usize| one_run(&commands[variant], variant, with, &signals);
        rounds::make(&with.plan, commands.len(), &mut run, &mut || began.elapsed())
    };
    let stop_name = stop_name(&stop);
    let failure = if let Stop::Failed(failure) = stop { Some(failure) } else { None };
    match failure {
        Some(RunFailure::Interrupted(signal)) if rounds.is_empty() => {
            return Ok(Exit::from_signal(signal));
        }
        Some(RunFailure::Status { variant, status }) => {
            return Err(refusal(with, variant, status).into());
        }
        Some(RunFailure::Other(error)) => return Err(error),
        _ => {}
    }
    let rules = Rules {
        min_effect: with.min_effect,
        seed: with.plan.seed,
        comparisons: with.profilers.len(),
    };
    let cost = |(index, words): (usize, &Vec<OsString>)| {
        ProfilerCost::judge(line(words), index, &rounds, &rules)
    };
    let program = ProfiledProgram {
        command: line(&with.command),
        profilers: with.profilers.iter().enumerate().map(cost).collect(),
        rounds,
        stop: stop_name,
        seconds: began.elapsed().as_secs_f64(),
        seed: with.plan.seed,
        min_effect: with.min_effect,
    };
    let mut out = io::stdout().lock();
    match (raw.json.json, raw.csv) {
        (true, _) => program.write_json(&mut out)?,
        (_, true) => program.write_csv(&mut out)?,
        _ => program.write_text(&mut out)?,
    }
    Ok(match failure {
        Some(RunFailure::Interrupted(signal)) => Exit::from_signal(signal),
        _ => Exit::Success,
    })
}

fn refusal(with: &ProfilerComparison, variant: usize, status: u8) -> Refusal {
    let what = variant.checked_sub(1).and_then(|at| with.profilers.get(at)).map_or_else(
        || "the bare command".to_owned(),
        |words| format!("the command under '{}'", line(words)),
    );
    let message = format!(
        "{what} ended with status {status}: run it by hand to see why, or use --ignore-failure"
    );
    Refusal { exit: Exit::Command(status), message }
}

fn line(words: &[OsString]) -> String {
    words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn commands(with: &ProfilerComparison) -> anyhow::Result<Vec<ChildCommand>> {
    let path = std::env::var_os("PATH");
    let bare: &[OsString] = &[];
    let prefixes = std::iter::once(bare).chain(with.profilers.iter().map(Vec::as_slice));
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map(OwnedFd::from)
            .context("/dev/null")
    };
    let command = |prefix: &[OsString]| -> anyhow::Result<ChildCommand> {
        let words = [prefix, &with.command].concat();
        Ok(ChildCommand::find(&words, path.as_deref())?.with_standard_files([
            Some(null()?),
            Some(null()?),
            Some(null()?),
        ]))
    };
    prefixes.map(command).collect()
}

fn one_run(
    command: &ChildCommand,
    variant: usize,
    with: &ProfilerComparison,
    signals: &Signals,
) -> Result<Measurement, RunFailure> {
    let other = |error: anyhow::Error| RunFailure::Other(error);
    let child = WaitingChild::fork(command, signals, &FileLimit::now())
        .map_err(|error| other(error.into()))?;
    let (ended, signal) = run_to_exit(child, signals).map_err(other)?;
    if let Some(signal) = signal {
        return Err(RunFailure::Interrupted(signal));
    }
    if ended.status != 0 && !with.ignore_failure {
        return Err(RunFailure::Status { variant, status: ended.status });
    }
    let counts =
        [ended.page_faults, ended.context_switches].map(|count| Some(count as f64)).to_vec();
    Ok(Measurement {
        elapsed: ended.elapsed,
        cpu: ended.user + ended.system,
        peak_memory: ended.peak_memory,
        counts,
        status: ended.status,
        signal: ended.signal,
    })
}
