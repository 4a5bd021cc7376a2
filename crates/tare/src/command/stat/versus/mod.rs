//! `tare stat --vs`: compares two commands by pairs of runs.
//!
//! `runner` makes the runs that `tare_measure::compare` requests; that crate judges them and writes
//! the reports.

mod progress;
mod runner;

use std::io::{IsTerminal, Write};

use anyhow::Context;
use tare_kernel::host::Host;
use tare_measure::compare::pairs::{self, Stop};
use tare_measure::compare::report::{ComparisonReport, ComparisonRequest};
use tare_measure::compare::{Judgement, Rules, document, judge, table};

use self::progress::Bar;
use self::runner::{RunFailure, Runner};
use super::output;
use crate::Outcome;
use crate::cli::resolved::stat::{Destination, Stat, StatForm};
use crate::cli::resolved::versus::{CommandOutput, Versus};
use crate::exit::{Exit, Refusal, say};
use crate::terminal;

pub(super) fn run(stat: &Stat, versus: &Versus, host: &Host) -> Outcome {
    let mut out = output::open(&stat.output)?;
    let to_terminal = match stat.output.destination {
        Destination::Stderr => std::io::stderr().is_terminal(),
        Destination::Stdout => std::io::stdout().is_terminal(),
        _ => false,
    };
    let colour = to_terminal && !terminal::is_plain();
    let shows_bar =
        versus.command_output != CommandOutput::Inherit && std::io::stderr().is_terminal();
    let mut runner = Runner::new(stat, versus, host, shows_bar.then(Bar::default))?;
    let (pairs, stop) = pairs::make(&versus.plan, &mut runner);
    let (spent, notes) = runner.finish();
    let judged = judge(
        &pairs,
        &versus.metrics,
        &Rules { min_effect: versus.min_effect, seed: versus.plan.seed, comparisons: 1 },
    );
    let (stop, failure) = split(stop);
    let request = ComparisonRequest {
        a: &versus.a,
        b: &versus.b,
        metrics: &versus.metrics,
        plan: &versus.plan,
        min_effect: versus.min_effect,
        conditions: &versus.fail_if,
    };
    let comparison = ComparisonReport { request, pairs, judged, stop, spent, notes };
    if !comparison.pairs.is_empty() {
        write(&mut out, stat, &comparison, colour)
            .and_then(|()| out.flush())
            .context("cannot write the results")?;
    }
    match failure {
        Some(failure) => fail(failure),
        None => Ok(exit(stat, &comparison)),
    }
}

/// Returns the stop in a form that can be shown, and its failure if it is one.
fn split(stop: Stop<RunFailure>) -> (Stop<String>, Option<RunFailure>) {
    match stop {
        Stop::Precise => (Stop::Precise, None),
        Stop::Decided => (Stop::Decided, None),
        Stop::MaxPairs => (Stop::MaxPairs, None),
        Stop::MaxTime => (Stop::MaxTime, None),
        Stop::Failed(failure) => (Stop::Failed(failure.to_string()), Some(failure)),
    }
}

fn write(
    out: &mut dyn Write,
    stat: &Stat,
    comparison: &ComparisonReport<'_>,
    colour: bool,
) -> std::io::Result<()> {
    match &stat.output.form {
        StatForm::Csv(separator) => document::csv(out, comparison, separator),
        StatForm::Document => document::json(out, comparison),
        StatForm::Text | StatForm::JsonLines => table::write(out, comparison, colour),
    }
}

fn fail(failure: RunFailure) -> Outcome {
    match failure {
        RunFailure::Interrupted(signal) => Ok(Exit::from_signal(signal)),
        RunFailure::Failed { exit, .. } => {
            Err(Refusal { exit: Exit::Command(exit.status), message: failure.to_string() }.into())
        }
        RunFailure::Other(error) => Err(error),
    }
}

fn exit(stat: &Stat, comparison: &ComparisonReport<'_>) -> Exit {
    let mut exit = Exit::Success;
    for condition in comparison.request.conditions {
        let said = match condition.judge(&comparison.judged) {
            Judgement::Passes => continue,
            Judgement::Fails => "B is beyond it, with all of the 95% interval",
            Judgement::Unknown => "there are too few counts to judge it",
        };
        say(&format!("--fail-if '{condition}': {said}"));
        exit = Exit::Verdict;
    }
    if stat.events.strict && !comparison.notes.missing.is_empty() { Exit::Verdict } else { exit }
}
