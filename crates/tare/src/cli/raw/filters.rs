//! Filters of recorded samples.

use super::definition::options;
use super::task_list::{TaskList, parse_tasks};

options! {
    /// Names of commands, binaries and functions. Their short options differ by command, as in
    /// perf.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Filters")]
    pub struct NameFilterArgs {
        /// Only these commands (thread names)
        #[arg(long, alias = "comm", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub comms: Vec<String>,

        /// Only these binaries
        #[arg(long, alias = "dso", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub dsos: Vec<String>,

        /// Only these functions
        #[arg(long, alias = "symbol", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub symbols: Vec<String>,
    }
}

options! {
    /// Processes, threads, CPUs and times.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Filters")]
    pub struct TaskFilterArgs {
        /// Only these processes
        #[arg(long, value_name = "PID,…", value_parser = parse_tasks)]
        pub pid: Vec<TaskList>,

        /// Only these threads
        #[arg(long, value_name = "TID,…", value_parser = parse_tasks)]
        pub tid: Vec<TaskList>,

        /// CPUs and times.
        #[command(flatten)]
        pub range: RangeArgs,
    }
}

options! {
    /// CPUs and times.
    #[derive(Clone, Debug, clap::Args)]
    pub struct RangeArgs {
        /// Only these CPUs, such as 0,2-3
        #[arg(short = 'C', long, value_name = "LIST")]
        pub cpu: Option<String>,

        /// Only this range of time: seconds as printed by `tare script`, FROM or TO may be omitted;
        /// or parts of the recording: 10%-20%, or 10%/2 for the second tenth. Several ranges:
        /// '1,2 3,' or 0%-10%,30%-40%
        #[arg(long, value_name = "[FROM],[TO] | FROM%-TO% | PART%/N", allow_hyphen_values = true)]
        pub time: Option<String>,
    }
}

options! {
    /// The recorder's own samples.
    #[derive(Clone, Debug, clap::Args)]
    pub struct OwnSampleArgs {
        /// Keep samples of the recorder itself
        #[arg(long)]
        pub include_self: bool,
    }
}

options! {
    /// Recorded events.
    #[derive(Clone, Debug, clap::Args)]
    pub struct EventFilterArgs {
        /// Only these events, such as cpu-clock,page-faults
        #[arg(short, long = "event", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub events: Vec<String>,
    }
}

options! {
    /// Events that switch samples on and off, for `report` and `script`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Filters")]
    pub struct EventSwitchArgs {
        /// Only samples after the first sample of this event
        #[arg(long, value_name = "EVENT")]
        pub switch_on: Option<String>,

        /// Only samples before the next sample of this event
        #[arg(long, value_name = "EVENT")]
        pub switch_off: Option<String>,

        /// Include the samples of --switch-on and --switch-off
        #[arg(long)]
        pub show_on_off_events: bool,
    }
}
