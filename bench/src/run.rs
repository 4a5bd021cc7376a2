//! Runs a command, and returns its cost or its output.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use tare_kernel::command::find_in_path;
use tare_kernel::exit::{ChildExit, wait_for};

/// Elapsed time of a process; CPU time and memory of it and of the children that it waited for,
/// from `wait4(2)`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Usage {
    /// From before the fork until wait4 returned.
    pub(crate) elapsed_ns: u64,
    /// User and system time.
    pub(crate) cpu_ns: u64,
    /// The largest resident set of any one of these processes.
    pub(crate) peak_bytes: u64,
}

/// How a command exited, and its output.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) pid: i32,
    /// The pid of its main thread's first child 100 ms after the start, if it had one then.
    pub(crate) grandchild: Option<i32>,
    pub(crate) ended: ChildExit,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Runs a command to its end and discards its stdout.
///
/// # Errors
/// The command can't be started, or exits with a status other than 0; the error holds its stderr.
pub(crate) fn run(words: &[String]) -> anyhow::Result<Usage> {
    let mut log = tempfile::tempfile()?;
    let line = words.join(" ");
    let started = Instant::now();
    let child = start(words, Stdio::null(), &log).with_context(|| format!("running '{line}'"))?;
    let ended = wait_for(i32::try_from(child.id())?, started)?;
    if ended.status != 0 {
        anyhow::bail!("'{line}' ended with status {}\n{}", ended.status, text_of(&mut log)?);
    }
    let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(Usage {
        elapsed_ns: nanos(ended.elapsed),
        cpu_ns: nanos(ended.user + ended.system),
        peak_bytes: ended.peak_memory.context("unknown peak memory")?,
    })
}

/// Runs a command to its end and keeps its output.
///
/// # Errors
/// The command can't be started.
pub(crate) fn run_for_output(words: &[String]) -> anyhow::Result<CommandOutput> {
    let mut out = tempfile::tempfile()?;
    let mut log = tempfile::tempfile()?;
    let started = Instant::now();
    let child = start(words, out.try_clone()?.into(), &log)
        .with_context(|| format!("running '{}'", words.join(" ")))?;
    let pid = i32::try_from(child.id())?;
    let looker = std::thread::spawn(move || first_child(pid));
    let ended = wait_for(pid, started)?;
    let grandchild = looker.join().unwrap_or(None);
    Ok(CommandOutput {
        pid,
        grandchild,
        ended,
        stdout: text_of(&mut out)?,
        stderr: text_of(&mut log)?,
    })
}

/// Runs a command that must succeed and keeps its output.
///
/// # Errors
/// The command can't be started, or exits with a status other than 0; the error holds its stderr.
pub(crate) fn succeed(words: &[String]) -> anyhow::Result<CommandOutput> {
    let done = run_for_output(words)?;
    anyhow::ensure!(
        done.ended.status == 0,
        "'{}' ended with status {}\n{}",
        words.join(" "),
        done.ended.status,
        done.stderr
    );
    Ok(done)
}

fn first_child(pid: i32) -> Option<i32> {
    std::thread::sleep(Duration::from_millis(100));
    std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))
        .ok()?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Reads a whole file from its start.
fn text_of(file: &mut File) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Starts a command. The program is looked up first: failed attempts along `$PATH` after the fork
/// would add to its CPU time.
fn start(words: &[String], out: Stdio, log: &File) -> anyhow::Result<Child> {
    let (name, args) = words.split_first().context("no command")?;
    let program = if name.contains('/') {
        name.into()
    } else {
        find_in_path(name.as_ref(), std::env::var_os("PATH").as_deref()).context("not found")?
    };
    // With a group id the standard library forks. Otherwise the child would share this process's
    // memory until its execve, and its peak memory would start at this process's.
    Ok(Command::new(program)
        .args(args)
        .gid(rustix::process::getgid().as_raw())
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(log.try_clone()?)
        .spawn()?)
}
