//! Makes the runs of a series.

use std::path::Path;
use std::process::{Command as Process, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::Signal;
use tare_events::{EventGroup, Sources};
use tare_format::abi::Count;
use tare_kernel::child::{ChildCommand, ChildExit, FileLimit, WaitingChild};
use tare_kernel::host::Host;
use tare_kernel::open::System;
use tare_kernel::signals::Signals;
use tare_measure::count::{CounterOptions, Counters, Inheritance, Scope, Start};
use tare_measure::series::schedule::{Launcher, SeriesProgress};
use tare_measure::series::{RunFigures, ShellTime};
use tare_measure::statistics::median;

use super::progress::Bar;
use super::revisions::Revisions;
use super::standard_files::{RunOutput, SharedInput};
use crate::cli::resolved::bench::{Bench, BenchCommand, BenchInput, BenchOutput};
use crate::command::remedy;
use crate::command::supervise::run_to_exit;

/// Runs of the shell with an empty command.
const SHELL_RUNS: usize = 30;

/// Longest value of the variable that shifts the stack of each run.
const MOST_SHIFT: usize = 4096;

/// Why a series can't go on.
#[derive(Debug)]
pub(super) enum RunFailure {
    /// The command exited with another status than 0.
    Failed { command: usize, exit: ChildExit },
    /// A hook of the command failed.
    Hook { option: &'static str, line: String, status: ExitStatus },
    /// This signal asked tare to end.
    Interrupted(i32),
    /// Anything else.
    Other(anyhow::Error),
}

impl RunFailure {
    /// Describes the failure with the command's name, and what helps.
    pub(super) fn describe(&self, bench: &Bench) -> String {
        match self {
            Self::Failed { command, exit } => format!(
                "'{}' {}: --show-output shows its output, --ignore-failure uses failed runs too",
                bench.commands[*command].info.name,
                exit.failure().unwrap_or_default()
            ),
            other => other.to_string(),
        }
    }
}

impl std::fmt::Display for RunFailure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Failed { command, exit } => {
                write!(f, "command {} {}", command + 1, exit.failure().unwrap_or_default())
            }
            Self::Hook { option, line, status } => write!(f, "{option} '{line}' failed ({status})"),
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

/// A command, ready to run.
struct ReadyCommand {
    child: ChildCommand,
    output: RunOutput,
}

impl ReadyCommand {
    /// Finds the command's program, in a folder if it is to run there.
    fn find(
        command: &BenchCommand,
        input: &SharedInput,
        folder: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let path = std::env::var_os("PATH");
        let (output, standard) = RunOutput::open(&command.output, input)?;
        let child = match folder {
            Some(folder) => ChildCommand::find_in(folder, &command.words, path.as_deref())?,
            None => ChildCommand::find(&command.words, path.as_deref())?,
        };
        Ok(Self { child: child.with_standard_files(standard), output })
    }
}

/// Runs the commands of a series.
pub(super) struct Runner<'a> {
    bench: &'a Bench,
    host: &'a Host,
    signals: Signals,
    files: FileLimit,
    events: Vec<EventGroup>,
    input: SharedInput,
    /// `None`: its program may not exist before its first setup or preparation.
    commands: Vec<Option<ReadyCommand>>,
    began: Instant,
    bar: Option<Bar>,
    /// The two revisions that the commands run in.
    revisions: Option<&'a Revisions>,
}

impl<'a> Runner<'a> {
    pub(super) fn new(
        bench: &'a Bench,
        events: &[&str],
        host: &'a Host,
        sources: &Sources,
        bar: Option<Bar>,
        revisions: Option<&'a Revisions>,
    ) -> anyhow::Result<Self> {
        let files = FileLimit::now();
        let signals = Signals::block().context("cannot wait for signals")?;
        let input = SharedInput::open(&bench.input)?;
        let ready = |command: &BenchCommand| {
            let is_made = command.setup.is_none() && command.prepare.is_none();
            let is_made = is_made && revisions.is_none();
            is_made.then(|| ReadyCommand::find(command, &input, None)).transpose()
        };
        let commands = bench.commands.iter().map(ready).collect::<anyhow::Result<_>>()?;
        let parse = |name: &&str| tare_events::parse(name, sources);
        let events = events.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self {
            bench,
            host,
            signals,
            files,
            events: events.into_iter().flatten().collect(),
            input,
            commands,
            began: Instant::now(),
            bar,
            revisions,
        })
    }

    /// Removes the progress bar; returns the time since the start.
    pub(super) fn finish(self) -> Duration {
        self.began.elapsed()
    }

    /// Measures the start-up time of the shell, if one runs commands.
    pub(super) fn measure_shell(&mut self) -> Result<Option<ShellTime>, RunFailure> {
        if !self.bench.commands.iter().any(|command| command.info.in_shell) {
            return Ok(None);
        }
        let path = std::env::var_os("PATH");
        let shell = self.bench.shell.shell().into_iter().chain(["-c".to_owned(), String::new()]);
        let shell: Vec<String> = shell.collect();
        let null = SharedInput::open(&BenchInput::Null)?;
        let (output, standard) = RunOutput::open(&BenchOutput::Null, &null)?;
        let child = ChildCommand::find(&shell, path.as_deref())?.with_standard_files(standard);
        let mut ready = ReadyCommand { child, output };
        let mut runs = Vec::with_capacity(SHELL_RUNS);
        for _ in 0..SHELL_RUNS {
            let exit = self.launch(&mut ready, &[])?.0;
            runs.push([exit.elapsed, exit.user, exit.system].map(|time| time.as_secs_f64()));
        }
        // A median: a single stall would be subtracted from every run.
        let middle = |index: usize| {
            let values: Vec<f64> = runs.iter().map(|run| run[index]).collect();
            median(&values).unwrap_or(0.0)
        };
        Ok(Some(ShellTime { elapsed: middle(0), user: middle(1), system: middle(2) }))
    }

    /// Runs a command once with these variables; returns its end and the counts of the events.
    fn launch(
        &mut self,
        ready: &mut ReadyCommand,
        variables: &[(&str, &str)],
    ) -> Result<(ChildExit, Vec<Option<f64>>), RunFailure> {
        self.input.rewind()?;
        ready.output.start_anew()?;
        ready.child.set_variables(variables);
        let child = WaitingChild::fork_lean(&ready.child, &self.signals, &self.files, None)?;
        let counters = self.open_counters(child.pid())?;
        let (exit, signal) = run_to_exit(child, &self.signals)?;
        if let Some(signal) = signal {
            return Err(RunFailure::Interrupted(signal));
        }
        let snapshot = counters.read();
        let count = |index| snapshot.get(index, 0).and_then(Count::scaled);
        Ok((exit, (0..counters.as_slice().len()).map(count).collect()))
    }

    fn open_counters(&self, pid: i32) -> Result<Counters, RunFailure> {
        if self.events.is_empty() {
            return Ok(Counters::default());
        }
        let options = CounterOptions {
            start: Start::OnExec,
            inheritance: Inheritance::Children,
            leave_out_forbidden: true,
            no_cpu_pmu: false,
            pinned: false,
        };
        let opened = Counters::open(&System, &self.events, &Scope::Command(pid), options);
        Ok(opened.map_err(|error| remedy::for_open(&error, self.host, &self.files))?)
    }

    /// Runs a hook in the shell; its output goes where the command's goes.
    fn hook(
        &self,
        option: &'static str,
        line: Option<&String>,
        command: usize,
        variables: &[(&str, &str)],
    ) -> Result<(), RunFailure> {
        let Some(line) = line else { return Ok(()) };
        let shell = self.bench.shell.shell();
        let mut process = Process::new(&shell[0]);
        if let Some(revisions) = self.revisions {
            process.current_dir(revisions.work());
        }
        let shows = self.bench.commands[command].output == BenchOutput::Inherit;
        let output = || if shows { Stdio::inherit() } else { Stdio::null() };
        let status = process
            .args(&shell[1..])
            .args(["-c", line])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(output())
            .stderr(output())
            .status()
            .with_context(|| format!("{option} '{line}'"))?;
        if status.success() {
            return Ok(());
        }
        // The terminal's SIGINT ends the hook and waits for tare.
        match self.signals.next()? {
            Some(signal) if signal.number != Signal::CHILD.as_raw() => {
                Err(RunFailure::Interrupted(signal.number))
            }
            _ => Err(RunFailure::Hook { option, line: line.clone(), status }),
        }
    }
}

impl Launcher for Runner<'_> {
    type Error = RunFailure;

    fn set_up(&mut self, command: usize) -> Result<(), RunFailure> {
        self.hook("--setup", self.bench.commands[command].setup.as_ref(), command, &[])
    }

    fn run(&mut self, command: usize, iteration: Option<usize>) -> Result<RunFigures, RunFailure> {
        let info = &self.bench.commands[command];
        // hyperfine's name, so that its users' commands find the number. A text of random length
        // above the stack shifts it, so that no run profits from a lucky alignment.
        let number = iteration.map_or_else(|| "warmup".to_owned(), |number| number.to_string());
        let shift = "X".repeat(fastrand::usize(..MOST_SHIFT));
        let variables =
            [("HYPERFINE_ITERATION", number.as_str()), ("TARE_BENCH_SHIFT", shift.as_str())];
        if let Some(revisions) = self.revisions {
            revisions.switch_to(command)?;
        }
        self.hook("--prepare", info.prepare.as_ref(), command, &variables)?;
        let began = self.began.elapsed();
        let mut ready = match self.commands[command].take() {
            Some(ready) => ready,
            None => {
                let folder = self.revisions.map(Revisions::work);
                ReadyCommand::find(info, &self.input, folder.as_deref())?
            }
        };
        let launched = self.launch(&mut ready, &variables);
        self.commands[command] = Some(ready);
        let (exit, counts) = launched?;
        if !self.bench.ignored.allow(exit.status) {
            return Err(RunFailure::Failed { command, exit });
        }
        self.hook("--conclude", info.conclude.as_ref(), command, &variables)?;
        Ok(RunFigures { exit, counts, began })
    }

    fn clean_up(&mut self, command: usize) -> Result<(), RunFailure> {
        self.hook("--cleanup", self.bench.commands[command].cleanup.as_ref(), command, &[])
    }

    fn now(&mut self) -> Duration {
        self.began.elapsed()
    }

    fn progress(&mut self, progress: &SeriesProgress<'_>) {
        if let Some(bar) = &mut self.bar {
            bar.update(progress);
        }
    }
}
