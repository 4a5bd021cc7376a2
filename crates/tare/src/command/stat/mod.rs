//! `tare stat`: counts a command, running tasks, CPUs or cgroups.
//!
//! `session` is what all runs share, `live` sees one through, `exact` plans turns, `output` writes
//! what `tare_measure::stat` makes of the counts. `versus` compares two commands.

mod exact;
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
use tare_measure::count::{Aggregation, Outcome as Counted};
use tare_measure::stat::{Description, MissingEvents, Results};

use self::exact::Turns;
use self::live::End;
use self::output::Writer;
use self::session::Session;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::stat::{Stat, StatTarget};
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
    // The output is opened before the command runs: a result that can't be written must not cost a
    // run.
    let keys = stat.aggregation != Aggregation::All;
    let mut writer = Writer::open(&stat.output, keys)?;
    let session = Session::new(stat, host, &System, &signals, files)?;
    let turns = Turns::plan(stat, &session)?;
    let mut results = Results::new(describe(stat), turns.len());
    let mut status = None;
    let mut number = 0;
    let end = loop {
        if stat.runs.is_some_and(|runs| number >= runs) {
            break End::Done;
        }
        let counted = one_run(stat, &session, &turns, number, &mut results, &mut writer)?;
        number += 1;
        status = status.or(counted.status);
        if counted.end != End::Done {
            break counted.end;
        }
    };
    if !turns.in_time {
        for set in 0..turns.len() {
            tell_missing(stat, &results.add_uncounted(set, &turns.events(set, stat)));
        }
    }
    if stat.schedule.interval.is_none() || stat.schedule.summary {
        writer.totals(&results)?;
    }
    writer.finish(&results)?;
    Ok(exit(stat, &results, end, status))
}

fn describe(stat: &Stat) -> Description {
    Description {
        target: stat.title(),
        command: stat.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        in_cgroup: matches!(stat.target, StatTarget::CommandInCgroup(_)),
        exact: stat.exact,
        repeated: stat.repeated,
    }
}

/// How a run ended.
struct OneRun {
    end: End,
    /// The command's status, unless it is 0 or tare ended the command as the user asked.
    status: Option<u8>,
}

/// Counts one run of the command, or the one session of running targets.
fn one_run(
    stat: &Stat,
    session: &Session<'_>,
    turns: &Turns,
    number: u32,
    results: &mut Results,
    writer: &mut Writer,
) -> anyhow::Result<OneRun> {
    if let Some(pre) = &stat.pre {
        shell("--pre", pre)?;
    }
    if stat.sync {
        rustix::fs::sync();
    }
    let ended = live::run(session, turns, number, &mut |run, interval| {
        tell_missing(stat, &results.newly_missing(&run.rows, &run.subjects));
        writer.interval(interval, &results.interval(run))
    })?;
    if let Some(post) = &stat.post {
        shell("--post", post)?;
    }
    tell_missing(stat, &results.newly_missing(&ended.run.rows, &ended.run.subjects));
    let status = ended.run.ended.map(|ended| ended.status);
    let status = status.filter(|&status| status != 0 && !ended.is_own_end(status));
    let end = ended.end;
    results.add(ended.run);
    Ok(OneRun { end, status })
}

/// Tells on stderr which events have no count, and why, in one line. Not where data goes there: the
/// rows say which, `--json` also why.
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

/// Runs a command of the user's own beside the counting, and waits for it.
fn shell(option: &str, command: &str) -> anyhow::Result<()> {
    let status = Process::new("/bin/sh")
        .arg("-c")
        .arg(command)
        .status()
        .with_context(|| format!("{option} '{command}'"))?;
    if !status.success() {
        return Err(Refusal {
            exit: Exit::OwnFailure,
            message: format!("{option} '{command}' failed ({status}): nothing more is run"),
        }
        .into());
    }
    Ok(())
}

fn exit(stat: &Stat, results: &Results, end: End, status: Option<u8>) -> Exit {
    let missing = results.rows().iter().any(|row| !matches!(row.last, Counted::Counted(_)));
    match (status, end) {
        (Some(status), _) => Exit::Command(status),
        _ if stat.strict && stat.by_name && missing => Exit::Verdict,
        (None, End::Signal(_)) if !stat.command.is_empty() => Exit::Command(0),
        (None, End::Signal(2)) => Exit::Interrupted,
        (None, End::Signal(number)) => Exit::Command(u8::try_from(128 + number).unwrap_or(255)),
        (None, _) => Exit::Success,
    }
}
