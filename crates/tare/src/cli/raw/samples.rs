use std::path::PathBuf;

use super::SymbolSearch;

/// Which samples of a recording are taken, by every command that hands them on.
#[derive(Debug, clap::Args)]
pub struct SampleArgs {
    /// The recording (-: standard input) [default: perf.data]
    #[arg(value_name = "FILE", conflicts_with = "input")]
    pub file: Option<PathBuf>,

    /// The same, as in `tare report`
    #[arg(short, long, value_name = "FILE", help_heading = "Which")]
    pub input: Option<PathBuf>,

    /// Only these events, such as cpu-clock,page-faults
    #[arg(short, long = "event", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub events: Vec<String>,

    /// CPU time and off-CPU time (`tare record --off-cpu`) as one: all of the tasks' time, under the
    /// clock's name
    #[arg(long, help_heading = "Which")]
    pub wall_clock: bool,

    /// Only these commands (names of threads)
    #[arg(short, long, alias = "comm", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub comms: Vec<String>,

    /// Whose samples.
    #[command(flatten)]
    pub tasks: TaskArgs,

    /// Only these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST", help_heading = "Which")]
    pub cpu: Option<String>,

    /// Only samples from one time to another: seconds as in `tare script`, either may be left out
    /// ('1,2 3,' are two ranges); or parts of the recording: 10%-20%, 10%/2 which is the second
    /// tenth, several with commas between them
    #[arg(long, value_name = "[FROM],[TO] | FROM%-TO% | PART%/N", help_heading = "Which")]
    pub time: Option<String>,

    /// Keep samples of the recorder itself
    #[arg(long, help_heading = "Which")]
    pub include_self: bool,

    /// Show functions that the compiler put into others as frames of their own (needs debug info)
    #[arg(long, help_heading = "Symbols", overrides_with = "no_inline")]
    pub inline: bool,

    /// Don't (the default)
    #[arg(long, help_heading = "Symbols", overrides_with = "inline")]
    pub no_inline: bool,

    /// Where names are looked for.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

/// Processes and threads.
#[derive(Clone, Debug, clap::Args)]
pub struct TaskArgs {
    /// Only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub pid: Vec<i32>,

    /// Only these threads
    #[arg(long, value_name = "TID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Which")]
    pub tid: Vec<i32>,
}
