//! `tare stat`: counts a command, running tasks, CPUs or cgroups.
//!
//! `session` holds what all runs share, `live` makes one run, `exact` plans which events count in
//! which run, `input` gives each run the same standard input, and `output` writes results. `versus`
//! compares two commands.

mod exact;
mod input;
mod live;
mod output;
mod session;
mod versus;

use std::process::Command as Process;

use anyhow::Context;
use tare_kernel::child::FileLimit;
use tare_kernel::host::Host;
use tare_kernel::open::System;
use tare_kernel::signals::Signals;
use tare_measure::count::{Aggregation, CountOutcome};
use tare_measure::stat::{Description, MissingEvents, Results};

use self::exact::Turns;
use self::input::RepeatedInput;
use self::output::StatWriter;
use self::session::StatSession;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::stat::{Stat, StatForm, StatTarget};
use crate::command::record::wording::first_threads_only;
use crate::command::supervise::Ending;
use crate::exit::{Exit, Refusal, say};

pub(crate) fn run(raw: raw::StatArgs) -> Outcome {
    let host = Host::default();
    let stat = Stat::resolve(raw, &host)?;
    let has_command = !stat.command.is_empty();
    count(&stat, &host).map_err(|error| super::remedy::with_status(error, has_command))
}

fn count(stat: &Stat, host: &Host) -> Outcome {
    if let Some(versus) = &stat.versus {
        return versus::run(stat, versus, host);
    }
    let files = FileLimit::now();
    let signals = Signals::block().context("cannot wait for signals")?;
    // The output is opened first: if it can't be written, the command doesn't run in vain.
    let keys = stat.aggregation != Aggregation::All;
    let mut writer = StatWriter::open(&stat.output, keys)?;
    let session = StatSession::new(stat, host, &System, &signals, files)?;
    let turns = Turns::plan(stat, &session)?;
    tell_first_threads_only(stat);
    tell_whole_machine(stat);
    let mut results = Results::new(describe(stat), turns.len());
    let mut failed = None;
    let mut last = None;
    let mut number = 0;
    let mut input = RepeatedInput::new();
    while stat.runs.number.is_none_or(|runs| number < runs) {
        if number > 0 {
            input.rewind();
        }
        let ending = count_one_run(stat, &session, &turns, number, &mut results, &mut writer)?;
        number += 1;
        last = Some(ending);
        failed = failed.or(Some(ending.exit()).filter(|_| has_failed(&ending)));
        if ending.signal.is_some() {
            break;
        }
    }
    if !turns.in_time {
        for set in 0..turns.len() {
            tell_missing(stat, &results.add_uncounted(set, &turns.events(set, stat)));
        }
    }
    if stat.schedule.interval.is_none() || stat.schedule.summary {
        writer.totals(&results)?;
    }
    writer.finish(&results)?;
    tell_notes(stat, &results);
    let is_missing = results.rows().iter().any(|row| !matches!(row.last, CountOutcome::Counted(_)));
    Ok(match failed {
        Some(exit) => exit,
        None if stat.events.strict && stat.events.by_name && is_missing => Exit::Verdict,
        None => last.map_or(Exit::Success, |ending| ending.exit()),
    })
}

fn describe(stat: &Stat) -> Description {
    Description {
        target: stat.title(),
        command: stat.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        in_cgroup: matches!(stat.target, StatTarget::CommandInCgroup(_)),
        exact: stat.events.exact,
        repeated: stat.runs.repeated,
        metrics: stat.events.metrics.clone(),
    }
}

/// Whether the command exited with another status than 0.
fn has_failed(ending: &Ending) -> bool {
    ending.exited.is_some() && ending.exit().status() != 0
}

/// Counts one run of the command, or the one session of running targets.
fn count_one_run(
    stat: &Stat,
    session: &StatSession<'_>,
    turns: &Turns,
    number: u32,
    results: &mut Results,
    writer: &mut StatWriter,
) -> anyhow::Result<Ending> {
    if let Some(pre) = &stat.runs.pre {
        shell("--pre", pre)?;
    }
    if stat.runs.sync {
        rustix::fs::sync();
    }
    let ended = live::run(session, turns, number, &mut |run, interval| {
        tell_missing(stat, &results.take_missing(&run.rows, &run.subjects));
        writer.interval(interval, &results.interval_lines(run))
    })?;
    if let Some(post) = &stat.runs.post {
        shell("--post", post)?;
    }
    tell_missing(stat, &results.take_missing(&ended.run.rows, &ended.run.subjects));
    if ended.ending.signal.is_some() && !stat.command.is_empty() {
        results.add_interrupted(ended.run);
    } else {
        results.add(ended.run);
    }
    Ok(ended.ending)
}

/// Names probes that don't count threads that start later, unless data goes to stderr.
fn tell_first_threads_only(stat: &Stat) {
    let is_of_tasks = !stat.output.is_without_messages()
        && matches!(stat.target, StatTarget::Command | StatTarget::Processes(_));
    let events = stat.events.groups.iter().flat_map(|group| &group.events);
    for event in events.filter(|event| is_of_tasks && event.is_uprobe()) {
        say(&first_threads_only(&event.name));
    }
}

/// Says that the whole machine is counted, if only a signal ends that.
fn tell_whole_machine(stat: &Stat) {
    let everything = matches!(stat.target, StatTarget::Cpus { listed: false, .. });
    let schedule = &stat.schedule;
    let ends = schedule.timeout.is_some()
        || schedule.interval_count.is_some()
        || stat.control.is_some()
        || !stat.command.is_empty();
    if everything && !ends && !stat.output.is_without_messages() {
        say("counting the whole machine until Ctrl-C");
    }
}

/// Names the events without a count, and the reason, on stderr. Prints nothing where data goes to
/// stderr: its rows name these events, and `--json` has the reason too.
fn tell_missing(stat: &Stat, missing: &[MissingEvents]) {
    if missing.is_empty() || stat.output.is_without_messages() {
        return;
    }
    let texts: Vec<String> = missing
        .iter()
        .map(|missing| format!("{} ({})", missing.events.join(", "), missing.reason))
        .collect();
    say(&format!("not counted: {}; see `tare doctor`", texts.join("; ")));
}

/// Names failed and interrupted runs on stderr where the output has no place for them: perf's forms
/// don't, unless they are on stderr themselves.
fn tell_notes(stat: &Stat, results: &Results) {
    let has_place = matches!(stat.output.form, StatForm::Text | StatForm::Document);
    if !has_place && !stat.output.is_without_messages() {
        results.notes().iter().for_each(|note| say(note));
    }
}

/// Runs the shell command of `--pre` or `--post`.
fn shell(option: &str, command: &str) -> anyhow::Result<()> {
    let status = Process::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .status()
        .with_context(|| format!("{option} '{command}'"))?;
    if !status.success() {
        return Err(Refusal {
            exit: Exit::OwnFailure,
            message: format!("{option} '{command}' failed ({status}), so no more runs are made"),
        }
        .into());
    }
    Ok(())
}
