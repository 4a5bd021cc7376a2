//! Tasks to trace, destinations of results, and ring buffers, for `trace`, `sched` and `lock`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::TimeoutArgs;

/// Tasks to trace, and the end of tracing.
#[derive(Debug, clap::Args)]
pub struct TracedArgs {
    /// Trace running processes and their children; several add up, also as -p "$(pidof NAME)"
    #[arg(short, long, value_name = "PID,…", value_parser = parse_tasks, help_heading = "Target")]
    pub pid: Vec<TaskList>,

    /// Trace the whole machine except tare itself
    #[arg(short, long, conflicts_with = "pid", help_heading = "Target")]
    pub all_cpus: bool,

    /// End of tracing.
    #[command(flatten)]
    pub end: TimeoutArgs,

    /// Command to trace, and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND", help_heading = None::<&'static str>)]
    pub command: Vec<OsString>,

    /// Whether `--` stands before the command.
    #[arg(skip)]
    pub after_dashes: bool,
}

/// Ids of tasks from one option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskList(pub Vec<i32>);

/// Parses ids with commas or white space between them.
fn parse_tasks(text: &str) -> Result<TaskList, String> {
    let words = text.split(|c: char| c == ',' || c.is_ascii_whitespace());
    let ids = words
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().map_err(|_| format!("'{word}' is not the id of a process")));
    let ids: Vec<i32> = ids.collect::<Result<_, _>>()?;
    if ids.is_empty() { Err("there is no id of a process".to_owned()) } else { Ok(TaskList(ids)) }
}

impl TracedArgs {
    /// Returns the ids of all `-p`.
    pub(crate) fn pids(&self) -> Vec<i32> {
        self.pid.iter().flat_map(|list| list.0.iter().copied()).collect()
    }
}

/// Destination of the result.
#[derive(Debug, clap::Args)]
pub struct ResultFileArgs {
    /// Write to FILE [default: stderr; with --json or a recording: stdout]
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
}

/// Ring buffer, for `trace` and `sched`.
#[derive(Debug, clap::Args)]
pub struct RingArgs {
    /// Size of the ring buffer: a power of two from 64K to 1G [default: 8M]
    #[arg(long, value_name = "SIZE", help_heading = "Output")]
    pub ring_size: Option<String>,
}
