//! `tare record`: samples and tracepoints into a perf.data file.
//!
//! `plan` is what is opened, `subjects` on whom, `ring_size` how large the rings are. `session`
//! begins a recording, `live` sees it through, `snapshot` and `finish` dump what is kept back and
//! end it; `followed` is what is known of a command and its children then; `description` and
//! `account` say what it is of and what it cost, `cost` what it cost those who were sampled, `pace`
//! keeps that within a `budget`. The bytes' way is in `crate::pipeline`.

mod account;
mod budget;
mod cost;
mod description;
mod finish;
mod followed;
mod live;
mod pace;
pub(crate) mod plan;
mod ring_size;
mod session;
mod snapshot;
mod subjects;
mod switch;

use std::cell::OnceCell;
use std::io::Write;
use std::os::fd::AsFd;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tare_events::Event;
use tare_kernel::child::{Command, FileLimit};
use tare_kernel::host::Host;
use tare_kernel::open::System;
use tare_kernel::signals::Signals;

use self::finish::Recorded;
use self::plan::Plan;
use self::session::Session;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::record::{Cpus, Keep, Record, Target};
use crate::command::follow::{Following, Wish};
use crate::exit::{Exit, Refusal, say};
use crate::pipeline::output::{Destination, Output, OutputError, Switch};
use tare_format::ledger::FollowMode;
use tare_format::printable;

pub(crate) fn run(raw: raw::Record) -> Outcome {
    let host = Host::default();
    let mut record = Record::resolve(raw, &host)?;
    let follow = follow(&mut record, &host)?;
    if let Some(following) = follow.as_ref().filter(|_| !record.quiet) {
        say(&following.line());
    }
    if record.dry_run {
        let plan = Plan::new(&record, &host, &System)?;
        plan.notes.iter().for_each(|note| say(note));
        write!(std::io::stdout(), "{plan}")?;
        return Ok(Exit::Success);
    }
    let has_command = !record.command.is_empty();
    recorded(&record, follow.as_ref(), &host)
        .map_err(|error| super::remedy::with_status(error, has_command))
}

/// Chooses how a command is followed, and has recorded what that takes.
fn follow(record: &mut Record, host: &Host) -> Result<Option<Following>, Refusal> {
    if record.target != Target::Command(Cpus::All) {
        return Ok(None);
    }
    let says_itself = |event: &Event| event.inherit.is_some();
    let asks = [
        ("-i", !record.inherit),
        ("-s", record.sampling.counts_of_threads),
        (
            "an event's term inherit or no-inherit",
            record.groups.iter().flat_map(|group| &group.events).any(says_itself),
        ),
    ];
    let needs_inherit = asks.into_iter().find(|(_, asked)| *asked).map(|(option, _)| option);
    let following = Following::choose(
        Wish { follow: record.follow, needs_inherit, dry_run: record.dry_run },
        host,
        &System,
    )?;
    let cpus = plan::cpus(&record.target, host)?;
    match following.mode {
        FollowMode::Cgroup => record.target = Target::CommandInCgroup(cpus),
        FollowMode::System => record.target = Target::CommandOnCpus(cpus),
        FollowMode::Inherit => {
            (record.sampling.counts_of_threads, record.sampling.fixed_periods) =
                (record.inherit, record.inherit);
        }
    }
    Ok(Some(following))
}

fn recorded(record: &Record, follow: Option<&Following>, host: &Host) -> Outcome {
    let files = FileLimit::now();
    let asks = record.output.options.switch == Some(Switch::Signal)
        || matches!(record.rings.keep, Keep::Last(_));
    let signals = Signals::block_with(asks.then_some(Signal::USR2.as_raw()))
        .context("cannot wait for signals")?;
    let plan = Plan::new(record, host, &System)?;
    let notes = plan.notes.iter().filter(|_| !record.quiet);
    notes.for_each(|note| say(note));
    let path = std::env::var_os("PATH");
    let command = (!record.command.is_empty())
        .then(|| Command::find(&record.command, path.as_deref()))
        .transpose()?;
    let command = match (command, &record.output.destination) {
        // Where the recording has stdout, the command writes to stderr, as with perf.
        (Some(command), Destination::Stdout) => {
            let stderr = std::io::stderr()
                .as_fd()
                .try_clone_to_owned()
                .context("stderr is closed, and stdout takes the recording")?;
            Some(command.with_standard_files([None, Some(stderr), None]))
        }
        (command, _) => command,
    };
    let session = Session {
        record,
        plan: &plan,
        follow,
        host,
        kernel: &System,
        signals: &signals,
        files,
        command,
        sample_costs: OnceCell::new(),
    };
    let recorded = session.record(&|| open(record, &signals))?;
    show(record, &recorded);
    Ok(exit(record, &recorded))
}

/// How often a FIFO without a reader is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Opens the output. A FIFO waits for somebody who reads it, until a signal ends that.
fn open(record: &Record, signals: &Signals) -> anyhow::Result<Output> {
    let mut is_said = record.quiet;
    loop {
        match Output::open(&record.output.destination, &record.output.options) {
            Err(waits @ OutputError::NoReader(_)) => {
                if !std::mem::replace(&mut is_said, true) {
                    say(&format!("{waits} as yet: waiting"));
                }
                poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&LOOK))
                    .or_else(interrupted)?;
                let arrived = signals.next()?.filter(|signal| {
                    signal.number != Signal::CHILD.as_raw()
                        && signal.number != Signal::USR2.as_raw()
                });
                if let Some(signal) = arrived {
                    let message =
                        format!("{waits}, and signal {} ended the waiting", signal.number);
                    return Err(
                        Refusal { exit: Exit::Command(by_signal(signal.number)), message }.into()
                    );
                }
            }
            opened => return Ok(opened?),
        }
    }
}

fn interrupted(error: Errno) -> Result<usize, Errno> {
    if error == Errno::INTR { Ok(0) } else { Err(error) }
}

/// The status that a shell gives to a death by this signal.
fn by_signal(number: i32) -> u8 {
    u8::try_from(128 + number).unwrap_or(255)
}

/// The ledger, as the last lines on stderr. An early end is said whatever the user wants to hear.
fn show(record: &Record, recorded: &Recorded) {
    // Whoever stopped reading doesn't want to hear of it.
    if recorded.account.stopped == Some(OutputError::Closed) {
        return;
    }
    // The ledger's lines say it too, if it was known by then.
    if let Some(why) = recorded
        .account
        .stopped
        .as_ref()
        .filter(|_| record.quiet || recorded.ledger.stopped.is_none())
    {
        say(&format!("the recording ended early: {why}"));
    }
    if record.quiet {
        return;
    }
    let mut stderr = std::io::stderr().lock();
    let file = recorded.account.files.last().map(|file| format!(" -> {}", file.display()));
    for (line, file) in tare_render::ledger_lines(&recorded.ledger)
        .iter()
        .zip([file.unwrap_or_default()].into_iter().chain(std::iter::repeat(String::new())))
    {
        let _ = writeln!(stderr, "tare: {}", printable(&format!("{line}{file}")));
    }
}

fn exit(record: &Record, recorded: &Recorded) -> Exit {
    let has_command = !record.command.is_empty();
    let stopped = recorded.account.stopped.as_ref().filter(|why| **why != OutputError::Closed);
    match (stopped, recorded.ended, recorded.signal) {
        (Some(_), ..) if has_command => Exit::OwnFailure,
        (Some(_), ..) => Exit::Failure,
        (None, Some(ended), _) => Exit::Command(ended.status),
        (None, None, Some(_)) if has_command => Exit::Command(0),
        (None, None, Some(2)) => Exit::Interrupted,
        (None, None, Some(number)) => Exit::Command(by_signal(number)),
        (None, None, None) => Exit::Success,
    }
}
