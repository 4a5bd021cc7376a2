//! Makes the runs of a comparison.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use anyhow::Context;
use tare_format::abi::Count;
use tare_kernel::child::{ChildCommand, ChildExit, FileLimit, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::open::System;
use tare_kernel::signals::Signals;
use tare_measure::compare::pairs::{Bench, Progress};
use tare_measure::compare::report::{EventNotes, MissingEvent, NarrowedEvent};
use tare_measure::compare::{Measurement, Side};
use tare_measure::count::{Counters, Scope, Snapshot, Start};

use super::super::session::Opener;
use super::super::shell;
use super::progress::Bar;
use tare_record::own_file;

use crate::cli::resolved::stat::Stat;
use crate::cli::resolved::versus::{CommandOutput, Versus};
use crate::command::supervise::run_to_exit;

/// Why a comparison can't go on.
#[derive(Debug)]
pub(super) enum RunFailure {
    /// The command exited with another status than 0.
    Failed { side: Side, exit: ChildExit },
    /// This signal asked tare to end.
    Interrupted(i32),
    /// Anything else.
    Other(anyhow::Error),
}

impl std::fmt::Display for RunFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { side, exit } => write!(
                f,
                "command {side:?} {failure}: --command-output inherit shows its output, --ignore-failure compares failed runs too",
                failure = exit.failure().unwrap_or_default()
            ),
            Self::Interrupted(signal) => write!(f, "ended by signal {signal}"),
            Self::Other(error) => f.write_str(&crate::exit::message(error)),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for RunFailure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// Runs A and B.
pub(super) struct Runner<'a> {
    stat: &'a Stat,
    versus: &'a Versus,
    host: &'a Host,
    signals: Signals,
    files: FileLimit,
    a: ChildCommand,
    b: ChildCommand,
    began: Instant,
    bar: Option<Bar>,
    notes: Option<EventNotes>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        stat: &'a Stat,
        versus: &'a Versus,
        host: &'a Host,
        bar: Option<Bar>,
    ) -> anyhow::Result<Self> {
        let files = FileLimit::now();
        let signals = Signals::block().context("cannot wait for signals")?;
        let path = std::env::var_os("PATH");
        let output = match &versus.command_output {
            CommandOutput::File(path) => Some(
                own_file::create(path)
                    .with_context(|| format!("--command-output {}", path.display()))?,
            ),
            _ => None,
        };
        let command = |side| -> anyhow::Result<ChildCommand> {
            let command = ChildCommand::find(versus.words(side), path.as_deref())?;
            Ok(command
                .with_standard_files(standard_files(&versus.command_output, output.as_ref())?))
        };
        let a = command(Side::A)?;
        let b = command(Side::B)?;
        Ok(Self {
            stat,
            versus,
            host,
            signals,
            files,
            a,
            b,
            began: Instant::now(),
            bar,
            notes: None,
        })
    }

    /// Removes the progress bar; returns the time since the start, and the notes on the events.
    pub(super) fn finish(self) -> (Duration, EventNotes) {
        (self.began.elapsed(), self.notes.unwrap_or_default())
    }

    fn one_run(&mut self, side: Side) -> Result<Measurement, RunFailure> {
        let command = if side == Side::A { &self.a } else { &self.b };
        let child = WaitingChild::fork_lean(command, &self.signals, &self.files, None)?;
        let scope = Scope::Command(child.pid());
        let groups = std::slice::from_ref(&self.stat.events.groups);
        let opener =
            Opener { stat: self.stat, host: self.host, kernel: &System, files: &self.files };
        let opened = opener.open(groups, &scope, Start::OnExec)?;
        let counters = opened.first().context("no events")?;
        let (ended, signal) = run_to_exit(child, &self.signals)?;
        if let Some(signal) = signal {
            return Err(RunFailure::Interrupted(signal));
        }
        let snapshot = counters.read();
        if ended.status != 0 && !self.versus.ignore_failure {
            return Err(RunFailure::Failed { side, exit: ended });
        }
        let mut notes = self.notes.take().unwrap_or_else(|| self.event_notes(counters));
        let measurement = measurement(&ended, counters, &snapshot, &mut notes);
        self.notes = Some(notes);
        Ok(measurement)
    }

    /// Notes on the events. All runs open the same ones, so those of the first run hold for all.
    fn event_notes(&self, counters: &Counters) -> EventNotes {
        let mut notes = EventNotes::default();
        let requested = self.stat.events.groups.iter().flat_map(|group| &group.events);
        for (counter, requested) in counters.as_slice().iter().zip(requested) {
            let opened = &counter.subject.event.name;
            match counter.unavailable() {
                Some(reason) => notes.missing.push(MissingEvent {
                    event: requested.name.clone(),
                    reason: reason.to_string(),
                }),
                None if *opened != requested.name => {
                    notes.narrowed.push(NarrowedEvent {
                        requested: requested.name.clone(),
                        opened: opened.clone(),
                    });
                }
                None => {}
            }
        }
        notes
    }
}

fn measurement(
    ended: &ChildExit,
    counters: &Counters,
    snapshot: &Snapshot,
    notes: &mut EventNotes,
) -> Measurement {
    let mut counts = Vec::with_capacity(counters.as_slice().len());
    for (index, counter) in counters.as_slice().iter().enumerate() {
        let count = snapshot.get(index, 0);
        if let Some(count) = count.filter(|count| count.running_ns() > 0) {
            notes.note_share(count.running_ns() as f64 / count.enabled_ns() as f64);
        }
        counts.push(count.and_then(Count::scaled).map(|count| count * counter.subject.event.scale));
    }
    Measurement {
        elapsed: ended.elapsed,
        cpu: ended.user + ended.system,
        peak_memory: ended.peak_memory,
        counts,
        status: ended.status,
        signal: ended.signal,
    }
}

impl Bench for Runner<'_> {
    type Error = RunFailure;

    fn run(&mut self, side: Side) -> Result<Measurement, RunFailure> {
        if let Some(pre) = &self.stat.runs.pre {
            shell("--pre", pre)?;
        }
        let measurement = self.one_run(side)?;
        if let Some(post) = &self.stat.runs.post {
            shell("--post", post)?;
        }
        Ok(measurement)
    }

    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if let Some(bar) = &mut self.bar {
            bar.update(progress);
        }
    }
}

/// Replacements for stdin, stdout and stderr; `None` leaves a file as it is. stdin is always
/// `/dev/null`: a command that runs hundreds of times never reads from the terminal.
fn standard_files(
    output: &CommandOutput,
    file: Option<&File>,
) -> anyhow::Result<[Option<OwnedFd>; 3]> {
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .map(OwnedFd::from)
            .context("/dev/null")
    };
    Ok(match (output, file) {
        (CommandOutput::Inherit, _) => [Some(null()?), None, None],
        (_, Some(file)) => [Some(null()?), Some(file.try_clone()?.into()), Some(null()?)],
        (_, None) => [Some(null()?), Some(null()?), Some(null()?)],
    })
}
