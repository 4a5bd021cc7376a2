//! `tare record`: samples and tracepoints into a perf.data file.
//!
//! The recorder itself is `tare_record`. What is here is what it leaves to its caller: `live` forks
//! the command, waits for signals and orders, and ends it; `wording` says what the recorder has to
//! say; `sample_cost` is what the recorder is told of samples' costs.

mod live;
pub(super) mod sample_cost;
#[cfg(test)]
mod tests;
pub(super) mod wording;

use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

use anyhow::Context;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use tare_kernel::capabilities::{CapabilitySet, keep_while_measuring};
use tare_kernel::child::{ChildCommand, FileLimit, WaitingChild};
use tare_kernel::file_window::catch_bus_errors;
use tare_kernel::host::Host;
use tare_kernel::schedule::run_first;
use tare_kernel::signals::Signals;
use tare_record::options::{Keep, Program};
use tare_record::output::{Destination, Output, OutputError, Switch};
use tare_record::{Backend, Following, Recorder, Start};

use self::live::{Live, RecordOutcome};
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::flame::Flame;
use crate::cli::resolved::record::RecordOptions;
use crate::exit::{Exit, Refusal, say};
use tare_format::printable;

/// Records. `calls_by_programs`: see [`tare_record::options::Options::calls_by_programs`].
pub(crate) fn run(raw: raw::RecordArgs, calls_by_programs: bool) -> Outcome {
    let host = Host::default();
    let mut record = RecordOptions::resolve(raw, &host)?;
    record.options.calls_by_programs = calls_by_programs;
    record.options.program = Program {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    if record.dry_run {
        return preview(&record, &host);
    }
    let has_command = !record.command.is_empty();
    recorded(&record, &host).map_err(|error| super::remedy::with_status(error, has_command))
}

/// Shows what would be opened.
fn preview(record: &RecordOptions, host: &Host) -> Outcome {
    let backend = Backend { host: host.clone(), ..Backend::default() };
    let recorder = Recorder::preview(record.options.clone(), backend)
        .map_err(|error| wording::plan_error(&error, host))?;
    say_plan(record, &recorder);
    write!(std::io::stdout(), "{}", printable(&recorder.plan().to_string()))?;
    Ok(Exit::Success)
}

/// How the command is followed, and in what the plan differs from what was asked for.
fn say_plan(record: &RecordOptions, recorder: &Recorder) {
    if record.quiet && !record.dry_run {
        return;
    }
    let steps_back = |following: &&Following| following.why.is_some();
    let tells =
        |following: &&Following| record.verbose > 0 || record.dry_run || steps_back(following);
    if let Some(following) = recorder.following().filter(tells).filter(|_| !record.quiet) {
        say(&wording::following(following));
    }
    for warning in &recorder.plan().warnings {
        say(&wording::warning(warning));
    }
}

fn recorded(record: &RecordOptions, host: &Host) -> Outcome {
    let files = FileLimit::now();
    let asks = record.output.options.switch == Some(Switch::Signal)
        || matches!(record.options.rings.keep, Keep::Last(_));
    let signals = Signals::block_with(asks.then_some(Signal::USR2.as_raw()))
        .context("cannot wait for signals")?;
    let backend = Backend { host: host.clone(), ..Backend::default() };
    let recorder = Recorder::new(record.options.clone(), backend)
        .map_err(|error| wording::plan_error(&error, host))?
        .with_costs(sample_cost::known(host.clone()));
    say_plan(record, &recorder);
    if let Some(flame) = &record.output.flame {
        // Where it can't be written, that is said before anything runs.
        crate::command::output::create(flame)?;
    }
    let command = command(record)?;
    // The child is forked before anything is opened, so that none of it is in what is recorded.
    let cgroup = recorder.cgroup();
    let fork = |command| WaitingChild::fork_into(command, &signals, &files, cgroup);
    let child = command.as_ref().map(fork).transpose()?;
    if let Some(priority) = record.options.realtime_priority {
        run_first(priority).map_err(|error| wording::no_priority(Some(priority), error))?;
    }
    let output = open(record, &signals)?;
    // The child has its dispositions of signals by now.
    catch_bus_errors();
    let start = Start {
        output,
        command: child.as_ref().map(WaitingChild::pid),
        gives_other_rights: command.as_ref().is_some_and(ChildCommand::gives_other_rights),
        files: Some(&files),
    };
    let plan = (record.verbose > 1).then(|| recorder.plan().to_string());
    let events = recorder.plan().events.len();
    let recording =
        recorder.start(start).map_err(|error| wording::record_error(error, host, &files))?;
    let given_up = keep_while_measuring(still_needed(record));
    if record.verbose > 0 {
        if let Err(error) = given_up {
            say(&format!("capabilities can't be given up: {error}"));
        }
        say(&format!("{events} events, {} open files", recording.open_files()));
        let _ = write!(std::io::stderr(), "{}", printable(&plan.unwrap_or_default()));
    }
    let explain = |error| wording::record_error(error, host, &files);
    let live = Live::new(record, host, &signals, recording)?;
    let recorded = live.run(child, &explain)?;
    show(record, &recorded);
    if let Some(flame) = &record.output.flame {
        draw(flame, record, &recorded)?;
    }
    Ok(exit(record, &recorded))
}

/// The capabilities that this recording takes beyond those that each does: BPF programs that run
/// when a later file begins are listed for `CAP_SYS_ADMIN` alone, and binaries of others are linked
/// to by their owner or `CAP_FOWNER`.
fn still_needed(record: &RecordOptions) -> CapabilitySet {
    let has_later_descriptions = record.output.options.switch.is_some()
        || record.options.rings.keep != Keep::All
        || record.options.synthesize.at_the_end;
    let mut needed = CapabilitySet::empty();
    needed.set(CapabilitySet::SYS_ADMIN, has_later_descriptions);
    needed.set(CapabilitySet::FOWNER, record.options.keep_binaries.is_some());
    needed
}

/// Draws the flame graph of the recording, of several files of the last one.
fn draw(flame: &Path, record: &RecordOptions, recorded: &RecordOutcome) -> anyhow::Result<()> {
    let Some(file) = recorded.finished.output.files.last() else { return Ok(()) };
    let drawn = Flame::of_recording(file.clone(), flame.to_owned());
    crate::command::flame::draw(&drawn).map_err(|error| {
        let exit = if record.command.is_empty() { Exit::Failure } else { Exit::OwnFailure };
        Refusal { exit, message: format!("--flame: {error:#}") }.into()
    })
}

/// The command, where there is one. Where the recording has stdout, it writes to stderr, as with
/// perf.
fn command(record: &RecordOptions) -> anyhow::Result<Option<ChildCommand>> {
    if record.command.is_empty() {
        return Ok(None);
    }
    let path = std::env::var_os("PATH");
    let command = ChildCommand::find(&record.command, path.as_deref())?;
    if record.output.destination != Destination::Stdout {
        return Ok(Some(command));
    }
    let stderr = std::io::stderr()
        .as_fd()
        .try_clone_to_owned()
        .context("stderr is closed, and stdout takes the recording")?;
    Ok(Some(command.with_standard_files([None, Some(stderr), None])))
}

/// How often a FIFO without a reader is looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Opens the output. A FIFO waits for somebody who reads it, until a signal ends that.
fn open(record: &RecordOptions, signals: &Signals) -> anyhow::Result<Output> {
    let mut is_said = record.quiet;
    loop {
        match Output::open(&record.output.destination, &record.output.options) {
            Err(waits @ OutputError::NoReader(_)) => {
                if !std::mem::replace(&mut is_said, true) {
                    say(&format!("-o {waits} as yet: waiting"));
                }
                poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&LOOK))
                    .or_else(interrupted)?;
                let arrived = signals.next()?.filter(|signal| {
                    signal.number != Signal::CHILD.as_raw()
                        && signal.number != Signal::USR2.as_raw()
                });
                if let Some(signal) = arrived {
                    let message =
                        format!("-o {waits}, and signal {} ended the waiting", signal.number);
                    return Err(
                        Refusal { exit: Exit::Command(by_signal(signal.number)), message }.into()
                    );
                }
            }
            opened => return opened.map_err(|error| wording::output_error(&error)),
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
fn show(record: &RecordOptions, recorded: &RecordOutcome) {
    let RecordOutcome { finished, .. } = recorded;
    // Whoever stopped reading doesn't want to hear of it.
    if finished.output.stopped == Some(OutputError::Closed) {
        return;
    }
    if let Some(why) = &finished.output.stopped {
        // The ledger's lines say it too, if it was known by then.
        let is_said = !record.quiet && finished.ledger.stopped.is_some();
        match wording::remedy_of_output(why) {
            Some(remedy) if is_said => say(&format!("to record more: {remedy}")),
            Some(remedy) => say(&format!("the recording ended early: {why}: {remedy}")),
            None if is_said => {}
            None => say(&format!("the recording ended early: {why}")),
        }
    }
    if record.quiet {
        return;
    }
    let mut stderr = std::io::stderr().lock();
    let file = match &finished.output.files[..] {
        [] => String::new(),
        [file] => format!(" -> {}", file.display()),
        [.., last] => format!(" in all; the last file is {}", last.display()),
    };
    let lines = match record.verbose {
        0 => tare_render::ledger_summary(&finished.ledger),
        _ => tare_render::ledger_lines(&finished.ledger),
    };
    for (line, file) in lines.iter().zip([file].into_iter().chain(std::iter::repeat(String::new())))
    {
        let _ = writeln!(stderr, "tare: {}", printable(&format!("{line}{file}")));
    }
}

fn exit(record: &RecordOptions, recorded: &RecordOutcome) -> Exit {
    let has_command = !record.command.is_empty();
    let stopped =
        recorded.finished.output.stopped.as_ref().filter(|why| **why != OutputError::Closed);
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
