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
use tare_measure::compare::{Measurement, Side};
use tare_measure::count::{Counters, Scope, Snapshot, Start};

use super::super::session::Opener;
use super::super::shell;
use super::progress::Bar;
use tare_record::own_file;

use crate::cli::resolved::stat::Stat;
use crate::cli::resolved::versus::{CommandOutput, Versus};
use crate::command::interrupt::wait;

/// Why a run could not be made or used.
#[derive(Debug)]
pub(super) enum Failure {
    /// The command ended with another status than 0.
    Status { side: Side, status: u8 },
    /// The user ended it with this signal.
    Interrupted(i32),
    /// Anything else.
    Other(anyhow::Error),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Status { side, status } => write!(
                f,
                "command {side:?} ended with status {status}: --command-output inherit shows what it says, --ignore-failure compares such runs too"
            ),
            Self::Interrupted(signal) => write!(f, "ended by signal {signal}"),
            Self::Other(error) => write!(f, "{error:#}"),
        }
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Other(error.into())
    }
}

/// What to know about the counts of all runs, for the notes below the table.
#[derive(Debug, Default)]
pub(super) struct EventNotes {
    pub(super) missing: Vec<MissingEvent>,
    pub(super) narrowed: Vec<NarrowedEvent>,
    /// The smallest share of its time that an event was on a counter; `None` where all were for all
    /// of it.
    pub(super) least_share: Option<f64>,
}

/// An event without a count.
#[derive(Debug)]
pub(super) struct MissingEvent {
    pub(super) event: String,
    pub(super) reason: String,
}

/// An event that counts less than was asked for.
#[derive(Debug)]
pub(super) struct NarrowedEvent {
    pub(super) asked: String,
    /// What was opened.
    pub(super) opened: String,
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
    least_share: f64,
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
                own_file::create(path, false)
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
            least_share: 1.0,
        })
    }

    /// How long it took, and the notes on the events. The progress bar goes.
    pub(super) fn finish(self) -> (Duration, EventNotes) {
        let least_share = (self.least_share < 1.0).then_some(self.least_share);
        (self.began.elapsed(), EventNotes { least_share, ..self.notes.unwrap_or_default() })
    }

    fn one_run(&mut self, side: Side) -> Result<Measurement, Failure> {
        let command = if side == Side::A { &self.a } else { &self.b };
        let child = WaitingChild::fork(command, &self.signals, &self.files)?;
        let scope = Scope::Command(child.pid());
        let groups = std::slice::from_ref(&self.stat.groups);
        let opener =
            Opener { stat: self.stat, host: self.host, kernel: &System, files: &self.files };
        let opened = opener.open(groups, &scope, Start::OnExec)?;
        let counters = opened.first().context("no events")?;
        let (ended, interrupted) =
            wait(child.start().context("cannot start the command")?, &self.signals)?;
        if let Some(signal) = interrupted {
            return Err(Failure::Interrupted(signal));
        }
        let snapshot = counters.read();
        if ended.status != 0 && !self.versus.ignore_failure {
            return Err(Failure::Status { side, status: ended.status });
        }
        if self.notes.is_none() {
            self.notes = Some(self.event_notes(counters));
        }
        Ok(self.measurement(&ended, counters, &snapshot))
    }

    fn measurement(
        &mut self,
        ended: &ChildExit,
        counters: &Counters,
        snapshot: &Snapshot,
    ) -> Measurement {
        let mut counts = Vec::with_capacity(counters.as_slice().len());
        for (index, counter) in counters.as_slice().iter().enumerate() {
            let count = snapshot.get(index, 0);
            if let Some(count) = count.filter(|count| count.running_ns() > 0) {
                self.least_share =
                    self.least_share.min(count.running_ns() as f64 / count.enabled_ns() as f64);
            }
            counts.push(
                count.and_then(Count::scaled).map(|count| count * counter.subject.event.scale),
            );
        }
        Measurement {
            elapsed: ended.elapsed,
            cpu: ended.user + ended.system,
            peak_memory: ended.peak_memory,
            counts,
        }
    }

    /// The events of the first run are those of all.
    fn event_notes(&self, counters: &Counters) -> EventNotes {
        let mut notes = EventNotes::default();
        let asked = self.stat.groups.iter().flat_map(|group| &group.events);
        for (counter, asked) in counters.as_slice().iter().zip(asked) {
            let opened = &counter.subject.event.name;
            match counter.unavailable() {
                Some(reason) => notes
                    .missing
                    .push(MissingEvent { event: asked.name.clone(), reason: reason.to_string() }),
                None if *opened != asked.name => {
                    notes
                        .narrowed
                        .push(NarrowedEvent { asked: asked.name.clone(), opened: opened.clone() });
                }
                None => {}
            }
        }
        notes
    }
}

impl Bench for Runner<'_> {
    type Error = Failure;

    fn run(&mut self, side: Side) -> Result<Measurement, Failure> {
        if let Some(pre) = &self.stat.pre {
            shell("--pre", pre)?;
        }
        let measurement = self.one_run(side)?;
        if let Some(post) = &self.stat.post {
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

/// What stands in for stdin, stdout and stderr: a command that runs hundreds of times gets no
/// terminal to read from.
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
