//! `tare bench`: runs commands in interleaved rounds and compares them with the first one.
//!
//! `runner` makes the runs that `tare_measure::series` requests, `standard_files` gives each the
//! same input and a place for its output, `ledger` notes what the machine does meanwhile, and
//! `exports` writes files. That crate judges the runs and writes the text.

mod exports;
mod ledger;
mod progress;
mod runner;
mod standard_files;

use std::io::{IsTerminal, Write};

use anyhow::Context;
use tare_events::Sources;
use tare_kernel::host::Host;
use tare_measure::compare::Judgement;
use tare_measure::series::schedule::{self, Made, SeriesStop};
use tare_measure::series::text::{self, TextOptions, TimeUnit};
use tare_measure::series::{SeriesNotes, SeriesReport, document};

use self::ledger::Ledger;
use self::progress::Bar;
use self::runner::{RunFailure, Runner};
use crate::Outcome;
use crate::cli::raw::{self, Style, TimeUnitName};
use crate::cli::resolved::bench::{Bench, BenchOutput};
use crate::exit::{Exit, Refusal, say};
use crate::terminal;

/// Events that every run counts, where the machine has counters.
const EVENTS: [&str; 2] = ["instructions", "cycles"];

pub(crate) fn run(raw: &raw::BenchArgs) -> Outcome {
    let host = Host::default();
    let sources = Sources::new(host.clone());
    let events: &[&str] = if sources.lacks_cpu_pmu() { &[] } else { &EVENTS };
    let bench = Bench::resolve(raw, events)?;
    compare(raw, &bench, events, &host, &sources)
        .map_err(|error| super::remedy::with_status(error, true))
}

fn compare(
    raw: &raw::BenchArgs,
    bench: &Bench,
    events: &[&str],
    host: &Host,
    sources: &Sources,
) -> Outcome {
    let exports = exports::open(&raw.exports)?;
    let style = raw.shown.style;
    let ledger = Ledger::begin(host);
    let mut runner = Runner::new(bench, events, host, sources, bar(bench, style))?;
    let shell = match runner.measure_shell() {
        Ok(shell) => shell,
        Err(failure) => return fail(failure, bench),
    };
    let (made, failure) = split(schedule::make(&bench.plan, &mut runner));
    let spent = runner.finish();
    let mut report = SeriesReport {
        commands: bench.commands.iter().map(|command| command.info.clone()).collect(),
        runs: made.runs,
        metrics: bench.metrics.clone(),
        comparisons: Vec::new(),
        plan: bench.plan.clone(),
        min_effect: bench.min_effect,
        conditions: bench.conditions.clone(),
        notes: SeriesNotes {
            stop: made.stop,
            is_sequential: made.is_sequential,
            spent,
            shell,
            machine: ledger.end(host),
        },
    };
    if let Some(shell) = shell {
        for (runs, command) in report.runs.iter_mut().zip(&report.commands) {
            if command.in_shell {
                runs.subtract_shell(shell.elapsed, shell.user, shell.system);
            }
        }
    }
    report.judge();
    let has_runs = report.runs.iter().any(|runs| !runs.is_empty());
    if has_runs {
        show(raw, &report, host).context("cannot write the results")?;
        exports.write(&report, raw, host)?;
    }
    match failure {
        Some(failure) => fail(failure, bench),
        None => Ok(exit(&report)),
    }
}

/// A progress bar on stderr's terminal, unless the style has none or the commands write there.
fn bar(bench: &Bench, style: Style) -> Option<Bar> {
    let moves = match style {
        Style::Basic | Style::Color | Style::None => false,
        Style::Auto | Style::Nocolor => std::io::stderr().is_terminal(),
        Style::Full => true,
    };
    let is_shared = bench.commands.iter().any(|command| command.output == BenchOutput::Inherit);
    (moves && !is_shared).then(Bar::default)
}

/// Returns the runs with a stop that can be shown, and its failure if it is one.
fn split(made: Made<RunFailure>) -> (Made<String>, Option<RunFailure>) {
    let (stop, failure) = match made.stop {
        SeriesStop::Settled => (SeriesStop::Settled, None),
        SeriesStop::MaxRuns => (SeriesStop::MaxRuns, None),
        SeriesStop::MaxTime => (SeriesStop::MaxTime, None),
        SeriesStop::Failed(failure) => (SeriesStop::Failed(failure.to_string()), Some(failure)),
    };
    (Made { runs: made.runs, stop, is_sequential: made.is_sequential }, failure)
}

/// The unit of times, if one is set.
fn unit(raw: &raw::BenchArgs) -> Option<TimeUnit> {
    raw.shown.time_unit.map(|unit| match unit {
        TimeUnitName::Microsecond => TimeUnit::Microsecond,
        TimeUnitName::Millisecond => TimeUnit::Millisecond,
        TimeUnitName::Second => TimeUnit::Second,
    })
}

fn show(raw: &raw::BenchArgs, report: &SeriesReport, host: &Host) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    if raw.json.json {
        return document::json(&mut out, report, &ledger::machine(host));
    }
    let colour = match raw.shown.style {
        Style::None => return Ok(()),
        Style::Auto => std::io::stdout().is_terminal() && !terminal::is_plain(),
        Style::Full | Style::Color => true,
        Style::Basic | Style::Nocolor => false,
    };
    let options = TextOptions {
        colour,
        unit: unit(raw),
        in_command_order: raw.shown.sort_method == raw::SortMethod::Command,
        plot: raw.shown.plot,
    };
    text::write(&mut out, report, options).and_then(|()| out.flush())
}

fn fail(failure: RunFailure, bench: &Bench) -> Outcome {
    match failure {
        RunFailure::Interrupted(signal) => Ok(Exit::from_signal(signal)),
        RunFailure::Failed { .. } | RunFailure::Hook { .. } => {
            let message = failure.describe(bench);
            Err(Refusal { exit: Exit::Failure, message }.into())
        }
        RunFailure::Other(error) => Err(error),
    }
}

fn exit(report: &SeriesReport) -> Exit {
    let mut exit = Exit::Success;
    for comparison in &report.comparisons {
        let name = &report.commands[comparison.command].name;
        for condition in &report.conditions {
            let said = match condition.judge(&comparison.judged) {
                Judgement::Passes => continue,
                Judgement::Fails => format!("'{name}' is beyond it, with all of the 95% interval"),
                Judgement::Unknown => format!("'{name}' has too few counts to judge it"),
            };
            say(&format!("--fail-if '{condition}': {said}"));
            exit = Exit::Verdict;
        }
    }
    exit
}
