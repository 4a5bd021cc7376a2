//! Tasks to trace and destinations of results, for `trace`, `sched` and `lock`; ring buffers, for
//! `trace` and `sched`.

use std::ffi::OsString;
use std::path::PathBuf;

use super::TimeoutArgs;
use super::task_list::{TaskList, parse_tasks};

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

impl TracedArgs {
    /// Returns the ids of all `-p`.
    pub(crate) fn pids(&self) -> Vec<i32> {
        TaskList::ids(&self.pid)
    }
}

/// Destination of the result.
#[derive(Debug, clap::Args)]
pub struct ResultFileArgs {
    /// Write to FILE [default: stdout]
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
