//! A program that reads SQL and prints a row per line, as JSON.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde::de::DeserializeOwned;

use crate::engine::RunControl;
use crate::error::FleetError;

/// How often it is checked whether the answer is still wanted.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Lines that wait to be read.
const QUEUED_LINES: usize = 1024;

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

/// Takes the lines of a program.
pub(super) type LineSink<'a> = dyn FnMut(&str) -> Result<(), FleetError> + 'a;

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
    let messages = std::thread::spawn(move || read_messages(stderr));
    let (lines, reader) = read_lines(stdout);
    let passed = pass_lines(engine, &lines, control, each);
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
fn read_lines(stdout: ChildStdout) -> (Receiver<std::io::Result<String>>, JoinHandle<()>) {
    let (sender, lines) = sync_channel(QUEUED_LINES);
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (lines, reader)
}

fn pass_lines(
    engine: &'static str,
    lines: &Receiver<std::io::Result<String>>,
    control: &RunControl<'_>,
    each: &mut LineSink<'_>,
) -> Result<(), FleetError> {
    loop {
        control.check()?;
        let line = match lines.recv_timeout(CHECK_INTERVAL) {
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Ok(line) => line,
        };
        let failed = |message| FleetError::Engine { engine, message };
        let line = line.map_err(|error| failed(error.to_string()))?;
        each(&line)?;
    }
}

/// Reads a line of JSON.
pub(super) fn parse<T: DeserializeOwned>(
    engine: &'static str,
    line: &str,
) -> Result<T, FleetError> {
    serde_json::from_str(line)
        .map_err(|error| FleetError::Engine { engine, message: format!("{error}: {line}") })
}

/// Returns the last part of the program's messages.
fn read_messages(mut stderr: impl Read) -> String {
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    while let Ok(read @ 1..) = stderr.read(&mut piece) {
        bytes.extend_from_slice(&piece[..read]);
        let excess = bytes.len().saturating_sub(MESSAGE_BYTES);
        bytes.drain(..excess);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
