//! `tare record`: samples and tracepoints into a perf.data file.
//!
//! The recorder itself is `tare_record`. This module forks the command and opens the output; `live`
//! runs recorder and command side by side; `wording` words the recorder's errors and warnings;
//! `sample_cost` supplies it with the cost of a sample, measured or published; `replaced` restores
//! the earlier file if a recording can't start.

mod live;
mod replaced;
pub(super) mod sample_cost;
#[cfg(test)]
mod tests;
mod unwinder;
pub(crate) mod wording;

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
use tare_record::options::{Keep, RecorderProgram, Sampling, Target};
use tare_record::output::{Destination, FileSwitch, Output, OutputError};
use tare_record::{Backend, Following, Recorder, RecordingResult, Start};

use self::live::{EndedRecording, LiveRecording};
use self::replaced::ReplacedFile;
use self::unwinder::RecorderUnwinder;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::flame::Flame;
use crate::cli::resolved::record::RecordOptions;
use crate::exit::{Exit, Refusal, say};
use tare_format::printable;

/// Records. `calls_by_programs`: see [`tare_record::options::RecorderOptions::calls_by_programs`].
pub(crate) fn run(raw: raw::RecordArgs, calls_by_programs: bool) -> Outcome {
    let host = Host::default();
    let mut record = RecordOptions::resolve(raw, &host)?;
    record.options.calls_by_programs = calls_by_programs;
    record.options.program = RecorderProgram {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command_line: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
    };
    if record.dry_run {
        return preview(&record, &host);
    }
    let has_command = !record.command.is_empty();
    recorded(&record, &host).map_err(|error| super::remedy::with_status(error, has_command))
}

/// Prints the events that would be opened (`--dry-run`).
fn preview(record: &RecordOptions, host: &Host) -> Outcome {
    let backend = Backend { host: host.clone(), ..Backend::default() };
    let recorder = Recorder::preview(record.options.clone(), backend)
        .map_err(|error| wording::plan_error(&error, host))?;
    say_plan(record, &recorder);
    write!(std::io::stdout(), "{}", recorder.plan())?;
    Ok(Exit::Success)
}

/// Prints where the plan differs from the options. Also prints how the command is followed, with
/// `-v` or `--dry-run`, or if a way that sees more tasks is refused.
fn say_plan(record: &RecordOptions, recorder: &Recorder) {
    if record.quiet && !record.dry_run {
        return;
    }
    let is_fallback = |following: &&Following| following.why.is_some();
    let is_shown =
        |following: &&Following| record.verbose > 0 || record.dry_run || is_fallback(following);
    if let Some(following) = recorder.following().filter(is_shown).filter(|_| !record.quiet) {
        say(&wording::following(following));
    }
    for warning in &recorder.plan().warnings {
        say(&wording::warning(warning));
    }
}

fn recorded(record: &RecordOptions, host: &Host) -> Outcome {
    let files = FileLimit::now();
    let takes_snapshots = record.output.options.switch == Some(FileSwitch::Signal)
        || matches!(record.options.rings.keep, Keep::Last(_));
    let signals = Signals::block_with(takes_snapshots.then_some(Signal::USR2.as_raw()))
        .context("cannot wait for signals")?;
    let backend = Backend { host: host.clone(), ..Backend::default() };
    let recorder = Recorder::new(record.options.clone(), backend)
        .map_err(|error| wording::plan_error(&error, host))?
        .with_costs(sample_cost::known(host.clone()));
    say_plan(record, &recorder);
    if let Some(flame) = &record.output.flame {
        // If it can't be written, the command doesn't run in vain.
        drop(crate::command::output::create(flame)?);
    }
    let command = command(record)?;
    // The child is forked before the events are opened, so that the fork isn't recorded.
    let cgroup = recorder.cgroup();
    let fork = |command| WaitingChild::fork_into(command, &signals, &files, cgroup);
    let child = command.as_ref().map(fork).transpose()?;
    if let Some(priority) = record.options.realtime_priority {
        run_first(priority).map_err(|error| wording::no_priority(Some(priority), error))?;
    }
    let replaced = ReplacedFile::find(&record.output.destination);
    let output = unwound(open(record, &signals)?, &record.options.sampling, &recorder)?;
    // After the fork: the child must not inherit this handler.
    catch_bus_errors();
    let start = Start {
        output,
        command: child.as_ref().map(WaitingChild::pid),
        gives_other_rights: command.as_ref().is_some_and(ChildCommand::gives_other_rights),
        files: Some(&files),
    };
    let plan = (record.verbose > 1).then(|| recorder.plan().to_string());
    let events = recorder.plan().events.len();
    let recording = recorder.start(start).map_err(|error| {
        replaced.into_iter().for_each(ReplacedFile::restore);
        wording::record_error(error, host, &files)
    })?;
    let given_up = keep_while_measuring(still_needed(record));
    if record.verbose > 0 {
        if let Err(error) = given_up {
            say(&format!("tare keeps its capabilities: dropping them failed: {error}"));
        }
        say(&format!("{events} events, {} open files", recording.open_files()));
        let _ = write!(std::io::stderr(), "{}", plan.unwrap_or_default());
    }
    tell_whole_machine(record, host);
    let explain = |error| wording::record_error(error, host, &files);
    let live = LiveRecording::new(record, host, &signals, child, recording)?;
    let ended = live.run(&explain)?;
    show(record, &ended.finished);
    // From here on a signal ends tare: the recording is whole.
    drop(signals);
    record.output.flame.iter().try_for_each(|flame| draw(flame, record, &ended.finished))?;
    Ok(exit(record, &ended))
}

/// Says that the whole machine is recorded, if only a signal ends that.
fn tell_whole_machine(record: &RecordOptions, host: &Host) {
    let online = host.online_cpus().ok();
    let everything =
        matches!(&record.options.target, Target::Cpus(cpus) if online.as_ref() == Some(cpus));
    let ends = !record.command.is_empty() || record.timeout.is_some() || record.control.is_some();
    if everything && !ends && !record.quiet {
        say("recording the whole machine until Ctrl-C");
    }
}

/// Has the output unwind stacks, if the plan has events for that.
pub(super) fn unwound(
    output: Output,
    sampling: &Sampling,
    recorder: &Recorder,
) -> anyhow::Result<Output> {
    let plan = recorder.plan();
    if plan.unwound.is_empty() {
        return Ok(output);
    }
    let unwinder = RecorderUnwinder::new(plan, sampling);
    output.with_unwinder(Box::new(unwinder)).map_err(|error| wording::output_error(&error))
}

/// Capabilities that this recording needs beyond those of every recording. Listing BPF programs
/// after the start, for a later file, kept rings or `--tail-synthesize`, takes `CAP_SYS_ADMIN`;
/// hard links to other users' binaries take `CAP_FOWNER`.
fn still_needed(record: &RecordOptions) -> CapabilitySet {
    let has_later_descriptions = record.output.options.switch.is_some()
        || record.options.rings.keep != Keep::All
        || record.options.synthesize.at_the_end;
    let mut needed = CapabilitySet::empty();
    needed.set(CapabilitySet::SYS_ADMIN, has_later_descriptions);
    needed.set(CapabilitySet::FOWNER, record.options.keep_binaries.is_some());
    needed
}

/// Draws the flame graph of the recording, or of its last file.
fn draw(flame: &Path, record: &RecordOptions, finished: &RecordingResult) -> anyhow::Result<()> {
    let Some(file) = finished.output.files.last() else { return Ok(()) };
    let drawn = Flame::of_recording(file.clone(), flame.to_owned());
    crate::command::flame::draw(&drawn).map_err(|error| {
        let exit = if record.command.is_empty() { Exit::Failure } else { Exit::OwnFailure };
        Refusal { exit, message: format!("--flame: {}", crate::exit::message(&error)) }.into()
    })
}

/// Finds the command, if there is one. If the recording goes to stdout, the command's stdout is
/// tare's stderr, as with perf.
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
        .context("the command has no output: the recording takes stdout, and stderr is closed")?;
    Ok(Some(command.with_standard_files([None, Some(stderr), None])))
}

/// Time between checks whether a FIFO has a reader.
const READER_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Opens the output. Waits until a FIFO has a reader; a signal other than SIGCHLD and SIGUSR2 ends
/// the wait.
fn open(record: &RecordOptions, signals: &Signals) -> anyhow::Result<Output> {
    let mut is_announced = record.quiet;
    loop {
        match Output::open(&record.output.destination, &record.output.options) {
            Err(OutputError::NoReader(path)) => {
                let path = path.display();
                if !std::mem::replace(&mut is_announced, true) {
                    say(&format!("-o {path}: no reader has opened this FIFO; waiting for one"));
                }
                poll(&mut [PollFd::new(signals, PollFlags::IN)], Some(&READER_CHECK))
                    .or_else(|error| if error == Errno::INTR { Ok(0) } else { Err(error) })?;
                let arrived = signals.next()?.filter(|signal| {
                    signal.number != Signal::CHILD.as_raw()
                        && signal.number != Signal::USR2.as_raw()
                });
                if let Some(signal) = arrived {
                    let message =
                        format!("-o {path}: signal {} ended the wait for a reader", signal.number);
                    return Err(Refusal { exit: Exit::from_signal(signal.number), message }.into());
                }
            }
            opened => return opened.map_err(|error| wording::output_error(&error)),
        }
    }
}

/// Prints the ledger as the last lines on stderr. An early end is reported even with `-q`, unless
/// the reader closed the pipe.
fn show(record: &RecordOptions, finished: &RecordingResult) {
    // The reader closed the pipe on purpose.
    if finished.output.stopped == Some(OutputError::Closed) {
        return;
    }
    if let Some(why) = &finished.output.stopped {
        // The ledger's lines have it too, if it was known before the ledger was written.
        let is_in_ledger = !record.quiet && finished.ledger.stopped.is_some();
        match wording::remedy_of_output(why) {
            Some(remedy) if is_in_ledger => say(&format!("to record more: {remedy}")),
            Some(remedy) => say(&format!("the recording ended early: {why}: {remedy}")),
            None if is_in_ledger => {}
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

/// The recorder's own failure outranks the command's status. A closed pipe is not a failure.
fn exit(record: &RecordOptions, ended: &EndedRecording) -> Exit {
    match &ended.finished.output.stopped {
        None | Some(OutputError::Closed) => ended.ending.exit(),
        Some(_) if record.command.is_empty() => Exit::Failure,
        Some(_) => Exit::OwnFailure,
    }
}
