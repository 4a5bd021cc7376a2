//! `tare bench`: runs commands in interleaved rounds and compares them with the first one.
//!
//! `runner` makes the runs that `tare_measure::series` requests, `standard_files` gives each the
//! same input and a place for its output, `revisions` builds two revisions for `--compare`, `ledger` notes what the machine does meanwhile, and
//! `exports` writes files. That crate judges the runs and writes the text.

mod exports;
mod ledger;
mod progress;
mod revisions;
mod runner;
mod standard_files;

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Context;
use tare_events::Sources;
use tare_kernel::host::Host;
use tare_measure::compare::Judgement;
use tare_measure::series::schedule::{self, SeriesRuns, SeriesStop};
use tare_measure::series::text::{self, TextOptions, TimeUnit};
use tare_measure::series::{
    Baseline, CommandRuns, Comparison, SeriesNotes, SeriesReport, ShellTime, ci, document,
};

use self::exports::Exports;
use self::ledger::Ledger;
use self::progress::Bar;
use self::revisions::Revisions;
use self::runner::{RunFailure, Runner};
use crate::Outcome;
use crate::cli::raw::{self, BenchFormat, OutputStyle, TimeUnitName};
use crate::cli::resolved::bench::{Bench, BenchOutput};
use crate::exit::{Exit, Refusal, say};
use crate::terminal;

/// Events that every run counts, where the machine has counters.
const EVENTS: [&str; 2] = ["instructions", "cycles"];

pub(crate) fn run(raw: &raw::BenchArgs) -> Outcome {
    let host = Host::default();
    let sources = Sources::new(host.clone());
    let events: &[&str] = if sources.lacks_cpu_pmu() { &[] } else { &EVENTS };
    let mut bench = Bench::resolve(raw, events)?;
    compare(raw, &mut bench, events, &host, &sources)
        .map_err(|error| super::remedy::with_status(error, true))
}

fn compare(
    raw: &raw::BenchArgs,
    bench: &mut Bench,
    events: &[&str],
    host: &Host,
    sources: &Sources,
) -> Outcome {
    let exports = exports::open(&raw.exports)?;
    let baseline = read_baseline(&raw.judged, host)?;
    let revisions = match &raw.judged.compare {
        Some(revision) => Some(Revisions::build(revision, &raw.judged.builds)?),
        None => None,
    };
    if let Some(revisions) = &revisions {
        for (command, name) in bench.commands.iter_mut().zip(&revisions.names) {
            command.info.name = format!("{name}: {}", command.info.name);
        }
        if revisions.are_identical(&bench.commands[0].words) {
            return finish(raw, &identical(bench), &exports, host);
        }
    }
    let bench = &*bench;
    let style = raw.shown.style;
    let ledger = Ledger::begin(host);
    let mut runner =
        Runner::new(bench, events, host, sources, bar(bench, style), revisions.as_ref())?;
    let shell = match runner.measure_shell() {
        Ok(shell) => shell,
        Err(failure) => return fail(failure, bench),
    };
    let (made, failure) = split(schedule::make(&bench.plan, &mut runner));
    let spent = runner.finish();
    let mut report = report(bench, made, shell, spent, ledger.end(host));
    report.judge();
    if let Some(baseline) = &baseline {
        report.baseline = baseline.compare(&report);
        if report.baseline.is_empty() {
            say("--baseline: the file has none of these commands");
        }
    }
    let has_runs = report.runs.iter().any(|runs| !runs.is_empty());
    match failure {
        Some(failure) if has_runs => {
            finish(raw, &report, &exports, host)?;
            fail(failure, bench)
        }
        Some(failure) => fail(failure, bench),
        None => finish(raw, &report, &exports, host),
    }
}

/// The results, without the shell's time and without verdicts.
fn report(
    bench: &Bench,
    made: SeriesRuns<String>,
    shell: Option<ShellTime>,
    spent: Duration,
    machine: Vec<String>,
) -> SeriesReport {
    let mut report = SeriesReport {
        commands: bench.commands.iter().map(|command| command.info.clone()).collect(),
        runs: made.runs,
        metrics: bench.metrics.clone(),
        comparisons: Vec::new(),
        baseline: Vec::new(),
        plan: bench.plan.clone(),
        min_effect: bench.min_effect,
        conditions: bench.conditions.clone(),
        notes: SeriesNotes {
            stop: made.stop,
            is_sequential: made.is_sequential,
            spent,
            shell,
            machine,
        },
    };
    if let Some(shell) = shell {
        for (runs, command) in report.runs.iter_mut().zip(&report.commands) {
            if command.in_shell {
                runs.subtract_shell(shell.elapsed, shell.user, shell.system);
            }
        }
    }
    report
}

/// Shows and exports the results.
fn finish(raw: &raw::BenchArgs, report: &SeriesReport, exports: &Exports, host: &Host) -> Outcome {
    show(raw, report, host).context("cannot write the results")?;
    exports.write(report, raw, host)?;
    Ok(exit(report))
}

/// The report of two revisions whose programs are the same.
fn identical(bench: &Bench) -> SeriesReport {
    SeriesReport {
        commands: bench.commands.iter().map(|command| command.info.clone()).collect(),
        runs: vec![CommandRuns::new(bench.plan.events); bench.commands.len()],
        metrics: bench.metrics.clone(),
        comparisons: vec![Comparison { command: 1, judged: Vec::new(), is_identical: true }],
        baseline: Vec::new(),
        plan: bench.plan.clone(),
        min_effect: bench.min_effect,
        conditions: bench.conditions.clone(),
        notes: SeriesNotes {
            stop: SeriesStop::Settled,
            is_sequential: false,
            spent: Duration::ZERO,
            shell: None,
            machine: Vec::new(),
        },
    }
}

/// Reads the baseline, if one is given. It must be of this machine, unless that doesn't matter.
fn read_baseline(raw: &raw::BenchJudgeArgs, host: &Host) -> anyhow::Result<Option<Baseline>> {
    let Some(path) = &raw.baseline else { return Ok(None) };
    let named = format!("--baseline {}", path.display());
    let text = std::fs::read_to_string(path).with_context(|| named.clone())?;
    let baseline =
        Baseline::parse(&text).map_err(|problem| Refusal::usage(format!("{named}: {problem}")))?;
    let here = ledger::machine(host);
    let other = baseline.host.as_ref().filter(|known| **known != here);
    match other {
        Some(known) if !raw.allow_other_host => Err(Refusal::usage(format!(
            "{named}: these runs were made on another machine ({known}; this is {here}); --allow-other-host compares them all the same"
        ))
        .into()),
        _ => Ok(Some(baseline)),
    }
}

/// A progress bar on stderr's terminal, unless the style has none or the commands write there.
fn bar(bench: &Bench, style: OutputStyle) -> Option<Bar> {
    let moves = match style {
        OutputStyle::Basic | OutputStyle::Color | OutputStyle::None => false,
        OutputStyle::Auto | OutputStyle::Nocolor => std::io::stderr().is_terminal(),
        OutputStyle::Full => true,
    };
    let is_shared = bench.commands.iter().any(|command| command.output == BenchOutput::Inherit);
    (moves && !is_shared).then(Bar::default)
}

/// Returns the runs with a stop that can be shown, and its failure if it is one.
fn split(made: SeriesRuns<RunFailure>) -> (SeriesRuns<String>, Option<RunFailure>) {
    let (stop, failure) = match made.stop {
        SeriesStop::Settled => (SeriesStop::Settled, None),
        SeriesStop::MaxRuns => (SeriesStop::MaxRuns, None),
        SeriesStop::MaxTime => (SeriesStop::MaxTime, None),
        SeriesStop::Failed(failure) => (SeriesStop::Failed(failure.to_string()), Some(failure)),
    };
    (SeriesRuns { runs: made.runs, stop, is_sequential: made.is_sequential }, failure)
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
    match raw.shown.form {
        BenchFormat::Text => {}
        BenchFormat::Markdown => return ci::markdown(&mut out, report),
        BenchFormat::Junit => return ci::junit(&mut out, report),
        BenchFormat::Github => {
            exports::append_job_summary(report)?;
            return ci::github(&mut out, report);
        }
    }
    let colour = match raw.shown.style {
        OutputStyle::None => return Ok(()),
        OutputStyle::Auto => std::io::stdout().is_terminal() && !terminal::is_plain(),
        OutputStyle::Full | OutputStyle::Color => true,
        OutputStyle::Basic | OutputStyle::Nocolor => false,
    };
    text::write(&mut out, report, TextOptions { colour, ..text_options(raw) })
        .and_then(|()| out.flush())
}

/// What the text shows, without colours.
fn text_options(raw: &raw::BenchArgs) -> TextOptions {
    TextOptions {
        colour: false,
        unit: unit(raw),
        in_command_order: raw.shown.sort_method == raw::SortMethod::Command,
        plot: raw.shown.plot,
    }
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
    for comparison in report.comparisons.iter().chain(&report.baseline) {
        let name = &report.commands[comparison.command].name;
        for condition in &report.conditions {
            let said = match report.judgement(condition, comparison) {
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
