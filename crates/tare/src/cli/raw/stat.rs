use std::ffi::OsString;
use std::path::PathBuf;

use super::definition::{options, with_default};
use super::{
    ControlArgs, EventArgs, FollowMode, InheritArgs, RunningArgs, StepArgs, TimeoutArgs, VersusArgs,
};

/// Events that are counted without `-e`, after a clock, in perf's order.
pub const DEFAULT_EVENTS: &str =
    "context-switches,cpu-migrations,page-faults,cycles,instructions,branches,branch-misses";

const EXAMPLES: &str = "\
Examples:
  tare stat make -j8                        count this machine's default events while make runs
  tare stat -e instructions:u,branches:u -- ./prog --its-own-option
  tare stat -r 20 -e '{cycles,instructions}' ./prog
  tare stat -a -I 1000 -e context-switches  the whole machine, every second, until Ctrl-C
  tare stat --vs './new 7' ./old 7          compare two commands in pairs of runs
  tare stat -p 4711 --timeout 5000          a running process, for five seconds
  tare stat -x, -o counts.csv ./prog        perf's CSV columns
  tare list                                 the events of this machine";

options! {
    /// Arguments of `tare stat`.
    #[derive(Debug, clap::Args)]
    #[command(
        after_help = EXAMPLES,
        mut_arg("events", |arg| {
            with_default(arg, &format!("a clock, {}", DEFAULT_EVENTS.replace(',', ", ")))
        }),
    )]
    pub struct StatArgs {
        /// The counted events.
        #[command(flatten)]
        pub events: CountedEventArgs,

        /// Where events are counted.
        #[command(flatten)]
        pub target: CountedTargetArgs,

        /// Runs, intervals, start and end.
        #[command(flatten)]
        pub schedule: ScheduleArgs,

        /// What a row sums.
        #[command(flatten)]
        pub rows: AggregationArgs,

        /// The output's form and destination.
        #[command(flatten)]
        pub output: StatOutputArgs,

        /// The command to compare with.
        #[command(flatten)]
        pub versus: VersusArgs,

        /// Whether `--` stands before the command.
        #[arg(skip)]
        pub after_dashes: bool,

        /// Command to count, and its arguments
        #[arg(trailing_var_arg = true, value_name = "COMMAND", help_heading = None::<&'static str>)]
        pub command: Vec<OsString>,
    }
}

options! {
    /// Events of `tare stat`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Events")]
    pub struct CountedEventArgs {
        /// Events to count.
        #[command(flatten)]
        pub list: EventArgs,

        /// Add events: -d level 1 and last-level caches, -dd TLBs and the instruction cache,
        /// -ddd prefetches
        #[arg(short, long, action = clap::ArgAction::Count)]
        pub detailed: u8,

        /// Count the events of these metrics of perf, and derive no other figures:
        /// CPUs_utilized, page_faults_per_second, insn_per_cycle, ...
        #[arg(short = 'M', long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub metrics: Vec<String>,

        /// Count no events, only measure time
        #[arg(short = 'n', long = "null", conflicts_with_all = ["events", "detailed", "metrics"])]
        pub null: bool,

        /// Never scale counts: each event gets a counter for the whole measurement, in turns over
        /// the runs (-r) or over time (-p, -a)
        #[arg(long)]
        pub exact: bool,

        /// Exit with status 3 if a requested event could not be counted
        #[arg(long)]
        pub strict: bool,
    }
}

options! {
    /// Targets of `tare stat`.
    #[derive(Debug, clap::Args)]
    #[command(
        next_help_heading = "Target",
        mut_arg("cpu", |arg| arg.conflicts_with_all(["pid", "tid"])),
    )]
    pub struct CountedTargetArgs {
        /// Running tasks, CPUs and cgroups.
        #[command(flatten)]
        pub running: RunningArgs,

        /// Count every event in each of these cgroups
        #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, conflicts_with_all = ["pid", "tid", "cgroup"])]
        pub for_each_cgroup: Vec<String>,

        /// How to count the command's children: `inherit` (from its execve on) or `cgroup` (no cost
        /// per fork, includes its execve) [default: inherit]
        #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, conflicts_with_all = ["all_cpus", "pid", "tid", "cpu", "cgroup", "for_each_cgroup"])]
        pub follow: Option<FollowMode>,

        /// The target's children.
        #[command(flatten)]
        pub children: InheritArgs,
    }
}

options! {
    /// Runs, intervals, start and end of `tare stat`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Schedule")]
    pub struct ScheduleArgs {
        /// Run the command N times, and print mean, standard deviation and 95% interval (0: until
        /// Ctrl-C)
        #[arg(short, long, value_name = "N")]
        pub repeat: Option<u32>,

        /// Print counts every MS milliseconds
        #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
        pub interval_print: Option<u64>,

        /// Clear the screen before each interval
        #[arg(long, requires = "interval_print")]
        pub interval_clear: bool,

        /// Stop after N intervals
        #[arg(long, value_name = "N", requires = "interval_print", value_parser = clap::value_parser!(u64).range(1..))]
        pub interval_count: Option<u64>,

        /// Print totals after the intervals; in CSV their first column is `summary`
        #[arg(long)]
        pub summary: bool,

        /// Start, and control from outside.
        #[command(flatten)]
        pub start: ControlArgs,

        /// End.
        #[command(flatten)]
        pub end: TimeoutArgs,

        /// Run COMMAND with `sh -c` before each run, uncounted
        #[arg(long, value_name = "COMMAND")]
        pub pre: Option<String>,

        /// Run COMMAND with `sh -c` after each run, uncounted
        #[arg(long, value_name = "COMMAND")]
        pub post: Option<String>,

        /// Call sync(2) before each run, so that earlier writes don't disturb it
        #[arg(short = 'S', long)]
        pub sync: bool,
    }
}

options! {
    /// What each row of `tare stat` sums; at most one of these.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Rows")]
    pub struct AggregationArgs {
        /// One row per CPU
        #[arg(short = 'A', long, group = "rows")]
        pub no_aggr: bool,

        /// One row per thread (with -p or -t)
        #[arg(long, group = "rows")]
        pub per_thread: bool,

        /// One row per core
        #[arg(long, group = "rows")]
        pub per_core: bool,

        /// One row per die
        #[arg(long, group = "rows")]
        pub per_die: bool,

        /// One row per socket
        #[arg(long, group = "rows")]
        pub per_socket: bool,

        /// One row per cache of a level, such as L2 (default: the last level)
        #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = cache_level, group = "rows")]
        pub per_cache: Option<u8>,

        /// One row per cluster of cores
        #[arg(long, group = "rows")]
        pub per_cluster: bool,

        /// One row per NUMA node
        #[arg(long, group = "rows")]
        pub per_node: bool,
    }
}

options! {
    /// Output of `tare stat`.
    #[derive(Debug, clap::Args)]
    #[command(next_help_heading = "Output")]
    pub struct StatOutputArgs {
        /// Omit the column `summary` from CSV
        #[arg(long)]
        pub no_csv_summary: bool,

        /// Write to FILE instead of stderr (-: stdout)
        #[arg(short, long, value_name = "FILE")]
        pub output: Option<PathBuf>,

        /// Append to the file
        #[arg(long, requires = "output")]
        pub append: bool,

        /// Write to this open descriptor
        #[arg(long, value_name = "FD", conflicts_with = "output")]
        pub log_fd: Option<i32>,

        /// Print perf's CSV columns with this separator
        #[arg(short = 'x', long, value_name = "SEP", group = "form", allow_hyphen_values = true, value_parser = clap::builder::NonEmptyStringValueParser::new())]
        pub field_separator: Option<String>,

        /// Print perf's JSON lines
        #[arg(short = 'j', long = "json-output", group = "form")]
        pub json_lines: bool,

        /// Print tare's versioned JSON document, with every run
        #[arg(long, group = "form")]
        pub json: bool,

        /// Print nothing
        #[arg(long)]
        pub quiet: bool,

        /// Print the time of each run too (with -r)
        #[arg(long)]
        pub table: bool,

        /// Print derived metrics only
        #[arg(long)]
        pub metric_only: bool,

        /// Group the digits of large numbers (default)
        #[arg(short = 'B', long, overrides_with = "no_big_num")]
        pub big_num: bool,

        /// Don't group the digits of large numbers
        #[arg(long, overrides_with = "big_num")]
        pub no_big_num: bool,

        /// Print a row for each unit of an uncore PMU instead of their sum
        #[arg(long)]
        pub no_merge: bool,

        /// Messages about each step.
        #[command(flatten)]
        pub steps: StepArgs,
    }
}

/// Parses the level of a cache, at most 4: `L2`, as in perf, or `2`; 0 is the last level.
fn cache_level(typed: &str) -> Result<u8, String> {
    let level = typed.trim_start_matches(['l', 'L']).parse::<u8>().ok().filter(|level| *level <= 4);
    level.ok_or_else(|| "a cache level is 0 to 4, such as L2".to_owned())
}
