//! A program that reads a question and prints a row per line, as JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::JoinHandle;

use rustix::process::{Pid, Signal, kill_process_group};

use crate::engine::lines::{LineSender, channel};
use crate::engine::{LineSink, RunControl};
use crate::error::FleetError;

/// Starts a line on standard error that tells how far the program is.
const PROGRESS: &str = "progress: ";

/// Bytes of the program's messages that an error has.
const MESSAGE_BYTES: usize = 4000;

/// A running program. It is killed with its own children when this is dropped.
struct EngineProcess(Child);

impl Drop for EngineProcess {
    fn drop(&mut self) {
        let group = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        if let Some(group) = group.filter(|_| !matches!(self.0.try_wait(), Ok(Some(_)))) {
            // It fails if the program has ended.
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Runs a program with `input` as its standard input, and passes on its lines.
pub(super) fn run(
    engine: &'static str,
    mut command: Command,
    input: &str,
    control: &RunControl<'_>,
    each: &mut LineSink<'_>,
) -> Result<(), FleetError> {
    // Ctrl-C reaches tare alone, which then ends the program.
    command.process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let program = command.get_program().to_string_lossy().into_owned();
    let start = |source| FleetError::Start { program: program.clone(), source };
    let mut process = EngineProcess(command.spawn().map_err(start)?);
    let pipes = (process.0.stdin.take(), process.0.stdout.take(), process.0.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err(start(std::io::ErrorKind::BrokenPipe.into()));
    };
    let input = input.to_owned();
    // A program that fails before it has read all of its input says why on stderr.
    let writer = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let (sender, lines) = channel();
    let told = sender.clone();
    let messages = std::thread::spawn(move || read_messages(stderr, &told));
    let reader = read_lines(stdout, sender);
    let passed = lines.pass(engine, control, each);
    if passed.is_err() {
        drop(lines);
        drop(process);
        return passed;
    }
    let status = process.0.wait().map_err(start)?;
    let message = messages.join();
    // Both ended with the process.
    let _ = reader.join();
    let _ = writer.join();
    if status.success() {
        Ok(())
    } else {
        let message = message.unwrap_or_default();
        let message = message.trim();
        let message = if message.is_empty() { status.to_string() } else { message.to_owned() };
        Err(FleetError::Engine { engine, message })
    }
}

/// Reads lines on a thread.
fn read_lines(stdout: ChildStdout, sender: LineSender) -> JoinHandle<()> {
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            if !sender.send(line.map_err(|error| error.to_string())) {
                return;
            }
        }
    })
}

/// Passes on the program's progress. Returns the last part of its other messages.
fn read_messages(stderr: impl Read, told: &LineSender) -> String {
    let mut messages = String::new();
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut stderr).take(MESSAGE_BYTES as u64).read_until(b'\n', &mut line) {
        let text = String::from_utf8_lossy(&line);
        match text.strip_prefix(PROGRESS) {
            Some(progress) => told.tell(progress.trim()),
            None => messages.push_str(&text),
        }
        line.clear();
        let excess = messages.len().saturating_sub(MESSAGE_BYTES);
        let excess = (excess..=messages.len()).find(|at| messages.is_char_boundary(*at));
        messages.drain(..excess.unwrap_or(0));
    }
    messages
}
