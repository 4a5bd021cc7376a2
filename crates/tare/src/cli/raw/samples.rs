use std::path::PathBuf;

use super::SymbolSearch;
use super::definition::options;

/// Samples of a recording, for `flame` and `export`.
#[derive(Debug, clap::Args)]
pub struct SampleArgs {
    /// Recording to read (-: standard input) [default: perf.data]
    #[arg(value_name = "FILE", conflicts_with = "input")]
    pub file: Option<PathBuf>,

    /// Recording to read, as in `tare report`
    #[arg(short, long, value_name = "FILE", help_heading = "Filters")]
    pub input: Option<PathBuf>,

    /// Only these events, such as cpu-clock,page-faults
    #[arg(short, long = "event", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Filters")]
    pub events: Vec<String>,

    /// Show CPU time and off-CPU time (`tare record --off-cpu`) as one event, under the clock's name
    #[arg(long, help_heading = "Filters")]
    pub wall_clock: bool,

    /// Only these commands (thread names)
    #[arg(short, long, alias = "comm", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Filters")]
    pub comms: Vec<String>,

    /// Processes, threads and times.
    #[command(flatten)]
    pub tasks: TaskArgs,

    /// Only these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST", help_heading = "Filters")]
    pub cpu: Option<String>,

    /// Show inlined functions as frames (needs debug info)
    #[arg(long, help_heading = "Symbols", overrides_with = "no_inline")]
    pub inline: bool,

    /// Don't look up inlined functions (default)
    #[arg(long, help_heading = "Symbols", overrides_with = "inline")]
    pub no_inline: bool,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

options! {
    /// Processes, threads and times of samples.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Filters")]
    pub struct TaskArgs {
        /// Only these processes
        #[arg(long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub pid: Vec<i32>,

        /// Only these threads
        #[arg(long, value_name = "TID,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub tid: Vec<i32>,

        /// Only this range of time: seconds as printed by `tare script`, FROM or TO may be omitted;
        /// or parts of the recording: 10%-20%, or 10%/2 for the second tenth. Several ranges:
        /// '1,2 3,' or 0%-10%,30%-40%
        #[arg(long, value_name = "[FROM],[TO] | FROM%-TO% | PART%/N")]
        pub time: Option<String>,

        /// Keep samples of the recorder itself
        #[arg(long)]
        pub include_self: bool,
    }
}
