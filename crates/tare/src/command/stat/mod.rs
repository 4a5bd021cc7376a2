//! `tare stat`: counts a command, running tasks, CPUs or cgroups.
//!
//! `session` is what all runs share, `live` sees one through to its `run`, `exact` plans turns.
//! `report` turns what was counted into lines, and `output` writes them. `versus` compares two
//! commands.

mod exact;
mod live;
mod opening;
mod output;
mod report;
mod run;
mod session;
mod versus;

use std::process::Command as Process;

use anyhow::Context;
use tare_kernel::child::FileLimit;
use tare_kernel::host::Host;
use tare_kernel::open::System;
use tare_kernel::signals::Signals;
use tare_measure::count::Outcome as Counted;

use self::exact::Turns;
use self::output::Writer;
use self::report::Results;
use self::run::{End, Run};
use self::session::Session;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::stat::Stat;
use crate::exit::{Exit, Refusal};

pub(crate) fn run(raw: raw::Stat) -> Outcome {
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
    let mut writer = Writer::open(&stat.output)?;
    let session = Session::new(stat, host, &System, &signals, files)?;
    let turns = Turns::plan(stat, &session)?;
    let mut results = Results::new(stat);
    let mut status = None;
    let mut number = 0;
    let end = loop {
        if stat.runs.is_some_and(|runs| number >= runs) {
            break End::Done;
        }
        let run = one_run(stat, &session, &turns, number, &mut results, &mut writer)?;
        number += 1;
        status = status.or(run.ended.map(|ended| ended.status).filter(|&status| status != 0));
        let end = run.end;
        results.add(run, &turns);
        if end != End::Done {
            break end;
        }
    };
    results.add_missed(&turns);
    if stat.schedule.interval.is_none() || stat.schedule.summary {
        writer.totals(&results)?;
    }
    writer.finish(&results)?;
    Ok(exit(stat, &results, end, status))
}

/// Counts one run of the command, or the one session of running targets.
fn one_run(
    stat: &Stat,
    session: &Session<'_>,
    turns: &Turns,
    number: u32,
    results: &mut Results<'_>,
    writer: &mut Writer,
) -> anyhow::Result<Run> {
    if let Some(pre) = &stat.pre {
        shell("--pre", pre)?;
    }
    let run = live::run(session, turns, number, &mut |run, interval| {
        results.say_what_is_missing(&run.rows, &run.subjects);
        let lines = results.interval(run, interval);
        writer.interval(&lines, results)
    })?;
    if let Some(post) = &stat.post {
        shell("--post", post)?;
    }
    Ok(run)
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

fn exit(stat: &Stat, results: &Results<'_>, end: End, status: Option<u8>) -> Exit {
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
