//! One process, and what all of it cost.

use std::io::{Read, Seek, SeekFrom};

use anyhow::Context;
use serde::Serialize;
use tare_kernel::child::{Command, Ended, FileLimit, WaitingChild};
use tare_kernel::signals::Signals;

/// What a process used, with the children that it waited for: `wait4(2)`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Usage {
    /// From its execve until its end was seen.
    pub(crate) elapsed_ns: u64,
    /// User and system time.
    pub(crate) cpu_ns: u64,
    /// The largest resident set of any one of its processes. It can't be less than the benchmark's own, which the child is forked from.
    pub(crate) peak_bytes: u64,
}

/// Runs a command to its end, without a line of it on the terminal.
///
/// # Errors
/// It can't be started, or ended with another status than 0 (a run that failed measures nothing): with what it wrote to stderr.
pub(crate) fn run(words: &[String]) -> anyhow::Result<Usage> {
    let mut log = tempfile::tempfile()?;
    let terminal = rustix::io::dup(std::io::stderr())?;
    rustix::stdio::dup2_stderr(&log)?;
    let ended = start(words);
    rustix::stdio::dup2_stderr(&terminal)?;
    let line = words.join(" ");
    let ended = ended.with_context(|| format!("running '{line}'"))?;
    if ended.status != 0 {
        let mut said = String::new();
        log.seek(SeekFrom::Start(0))?;
        log.read_to_string(&mut said)?;
        anyhow::bail!("'{line}' ended with status {}\n{said}", ended.status);
    }
    let nanos = |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Ok(Usage { elapsed_ns: nanos(ended.elapsed), cpu_ns: nanos(ended.user + ended.system), peak_bytes: ended.peak_memory })
}

fn start(words: &[String]) -> anyhow::Result<Ended> {
    let signals = Signals::block()?;
    let command = Command::find(words, std::env::var_os("PATH").as_deref())?;
    Ok(WaitingChild::fork(&command, &signals, &FileLimit::now())?.start()?.wait()?)
}
