//! One process, and what all of it cost.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use serde::Serialize;
use tare_kernel::command::find_in_path;
use tare_kernel::ended::{Ended, wait_for};

/// What a process used, with the children that it waited for: `wait4(2)`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Usage {
    /// From its execve until its end was seen.
    pub(crate) elapsed_ns: u64,
    /// User and system time.
    pub(crate) cpu_ns: u64,
    /// The largest resident set of any one of its processes. It can't be less than the benchmark's own, whose memory the child
    /// shares until its execve.
    pub(crate) peak_bytes: u64,
}

/// Runs a command to its end, without a line of it on the terminal.
///
/// # Errors
/// It can't be started, or ended with another status than 0 (a run that failed measures nothing): with what it wrote to stderr.
pub(crate) fn run(words: &[String]) -> anyhow::Result<Usage> {
    let mut log = tempfile::tempfile()?;
    let line = words.join(" ");
    let ended = start(words, &log).with_context(|| format!("running '{line}'"))?;
    if ended.status != 0 {
        let mut said = String::new();
        log.seek(SeekFrom::Start(0))?;
        log.read_to_string(&mut said)?;
        anyhow::bail!("'{line}' ended with status {}\n{said}", ended.status);
    }
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(Usage { elapsed_ns: nanos(ended.elapsed), cpu_ns: nanos(ended.user + ended.system), peak_bytes: ended.peak_memory })
}

/// Not by `WaitingChild`: a copy of this process would add what copying costs, half a millisecond, to every figure, and so would
/// failed attempts along `$PATH`. The standard library's spawn shares the memory until execve.
fn start(words: &[String], log: &File) -> anyhow::Result<Ended> {
    let (name, args) = words.split_first().context("no command")?;
    let program =
        if name.contains('/') { name.into() } else { find_in_path(name.as_ref(), std::env::var_os("PATH").as_deref()).context("not found")? };
    let started = Instant::now();
    let child = Command::new(program).args(args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.try_clone()?).spawn()?;
    Ok(wait_for(i32::try_from(child.id())?, started)?)
}
