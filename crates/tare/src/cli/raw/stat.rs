use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tare stat make -j8                        what a build cost, with this machine's default events
  tare stat -e instructions:u,branches:u -- ./prog --its-own-option
  tare stat -r 20 -e '{cycles,instructions}' ./prog
  tare stat -a -I 1000 -e context-switches  the whole machine, every second, until Ctrl-C
  tare stat --vs './new 7' ./old 7          compare two commands by pairs of runs
  tare stat -p 4711 --timeout 5000          a running process, for five seconds
  tare stat -x, -o counts.csv ./prog        perf's CSV columns
  tare list                                 the events of this machine";

/// Arguments of `tare stat`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct StatArgs {
    /// Events to count: names, groups in braces, comma lists; see `tare list`
    #[arg(short, long = "event", value_name = "EVENTS", help_heading = "What to count")]
    pub events: Vec<String>,

    /// Count only occurrences of the preceding tracepoint whose fields fit
    #[arg(
        long = "filter",
        value_name = "EXPR",
        allow_hyphen_values = true,
        help_heading = "What to count"
    )]
    pub filters: Vec<String>,

    /// For each --filter the number of -e before it, as typed.
    #[arg(skip)]
    pub filter_positions: Vec<usize>,

    /// More events: -d level 1 caches, -dd TLBs and instruction cache too, -ddd prefetches too
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "What to count")]
    pub detailed: u8,

    /// Only user space, for every event
    #[arg(long, conflicts_with = "all_kernel", help_heading = "What to count")]
    pub all_user: bool,

    /// Only the kernel, for every event
    #[arg(long, help_heading = "What to count")]
    pub all_kernel: bool,

    /// No events at all: only the time
    #[arg(short = 'n', long = "null", conflicts_with_all = ["events", "detailed"], help_heading = "What to count")]
    pub null: bool,

    /// Don't scale: give every event a counter for all of its time, in turns over the runs (-r) or
    /// in time (-p, -a)
    #[arg(long, help_heading = "What to count")]
    pub exact: bool,

    /// Exit with 3 if an event that was asked for could not be counted
    #[arg(long, help_heading = "What to count")]
    pub strict: bool,

    /// Count running processes
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Where")]
    pub pid: Vec<i32>,

    /// Count running threads
    #[arg(
        short,
        long,
        value_name = "TID,…",
        value_delimiter = ',', action = clap::ArgAction::Set,
        conflicts_with = "pid",
        help_heading = "Where"
    )]
    pub tid: Vec<i32>,

    /// Count the whole machine (the default without a command and other targets)
    #[arg(short, long, conflicts_with_all = ["pid", "tid"], help_heading = "Where")]
    pub all_cpus: bool,

    /// Count these CPUs only, as in 0-3,8
    #[arg(short = 'C', long, value_name = "CPUS", conflicts_with_all = ["pid", "tid"], help_heading = "Where")]
    pub cpu: Option<String>,

    /// Count cgroups: one for all events, or one for each event in turn
    #[arg(short = 'G', long, value_name = "NAME,…", value_delimiter = ',', conflicts_with_all = ["pid", "tid", "for_each_cgroup"], help_heading = "Where")]
    pub cgroup: Vec<String>,

    /// Count every event in every one of these cgroups
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set, conflicts_with_all = ["pid", "tid"], help_heading = "Where")]
    pub for_each_cgroup: Vec<String>,

    /// How what the command starts is counted: inherit (from its execve on) or cgroup (no cost per
    /// fork, with its execve) [default: inherit]
    #[arg(long, value_enum, value_name = "HOW", hide_possible_values = true, conflicts_with_all = ["all_cpus", "pid", "tid", "cpu", "cgroup", "for_each_cgroup"], help_heading = "Where")]
    pub follow: Option<super::FollowMode>,

    /// Don't count what the task starts
    #[arg(short = 'i', long, help_heading = "Where")]
    pub no_inherit: bool,

    /// Run the command so often: mean, standard deviation, 95% interval (0: until Ctrl-C)
    #[arg(short, long, value_name = "N", help_heading = "When")]
    pub repeat: Option<u32>,

    /// Print what was counted every so many milliseconds
    #[arg(short = 'I', long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub interval_print: Option<u64>,

    /// Clear the screen before each interval
    #[arg(long, requires = "interval_print", help_heading = "When")]
    pub interval_clear: bool,

    /// Stop after so many intervals
    #[arg(long, value_name = "N", requires = "interval_print", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub interval_count: Option<u64>,

    /// Print the totals too after the intervals; in CSV their first column is `summary`
    #[arg(long, help_heading = "When")]
    pub summary: bool,

    /// Leave the column `summary` out
    #[arg(long, help_heading = "Output")]
    pub no_csv_summary: bool,

    /// Start counting so many milliseconds after the command (-1: when --control says so)
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..), help_heading = "When")]
    pub delay: Option<i64>,

    /// Stop after so many milliseconds; a command is ended with SIGTERM
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub timeout: Option<u64>,

    /// Take enable, disable, ping and stop from a descriptor or FIFO and answer "ack":
    /// `fd:CTL[,ACK]` or `fifo:CTL[,ACK]`
    #[arg(long, value_name = "WHERE", help_heading = "When")]
    pub control: Option<String>,

    /// Run this with `sh -c` before each run, uncounted
    #[arg(long, value_name = "COMMAND", help_heading = "When")]
    pub pre: Option<String>,

    /// Run this with `sh -c` after each run, uncounted
    #[arg(long, value_name = "COMMAND", help_heading = "When")]
    pub post: Option<String>,

    /// Have all written data reach the disks before each run (sync)
    #[arg(short = 'S', long, help_heading = "When")]
    pub sync: bool,

    /// One row for each CPU
    #[arg(short = 'A', long, group = "rows", help_heading = "Rows")]
    pub no_aggr: bool,

    /// One row for each thread (with -p or -t)
    #[arg(long, group = "rows", help_heading = "Rows")]
    pub per_thread: bool,

    /// One row for each core
    #[arg(long, group = "rows", help_heading = "Rows")]
    pub per_core: bool,

    /// One row for each die
    #[arg(long, group = "rows", help_heading = "Rows")]
    pub per_die: bool,

    /// One row for each socket
    #[arg(long, group = "rows", help_heading = "Rows")]
    pub per_socket: bool,

    /// One row for each cache of a level, such as L2; without one, of the last
    #[arg(long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "0", value_parser = cache_level, group = "rows", help_heading = "Rows")]
    pub per_cache: Option<u8>,

    /// One row for each cluster of cores
    #[arg(long, group = "rows", help_heading = "Rows")]
    pub per_cluster: bool,

    /// One row for each NUMA node
    #[arg(long, group = "rows", help_heading = "Rows")]
    pub per_node: bool,

    /// Write to this file instead of stderr (-: stdout)
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Add to the file
    #[arg(long, requires = "output", help_heading = "Output")]
    pub append: bool,

    /// Write to this open descriptor
    #[arg(long, value_name = "FD", conflicts_with = "output", help_heading = "Output")]
    pub log_fd: Option<i32>,

    /// perf's CSV columns with this separator
    #[arg(short = 'x', long, value_name = "SEP", group = "form", allow_hyphen_values = true, value_parser = clap::builder::NonEmptyStringValueParser::new(), help_heading = "Output")]
    pub field_separator: Option<String>,

    /// perf's JSON lines
    #[arg(short = 'j', long = "json-output", group = "form", help_heading = "Output")]
    pub json_lines: bool,

    /// One versioned JSON document of tare's own, with every run
    #[arg(long, group = "form", help_heading = "Output")]
    pub json: bool,

    /// Print nothing
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,

    /// Also the time of each run (with -r)
    #[arg(long, help_heading = "Output")]
    pub table: bool,

    /// Only the derived figures
    #[arg(long, help_heading = "Output")]
    pub metric_only: bool,

    /// Group the digits of large numbers (the default)
    #[arg(short = 'B', long, overrides_with = "no_big_num", help_heading = "Output")]
    pub big_num: bool,

    /// Don't group the digits of large numbers
    #[arg(long, overrides_with = "big_num", help_heading = "Output")]
    pub no_big_num: bool,

    /// A row for each unit of an uncore PMU, instead of their sum
    #[arg(long, help_heading = "Output")]
    pub no_merge: bool,

    /// Say what is done; -vv shows every perf_event_attr
    #[arg(short, long, action = clap::ArgAction::Count, help_heading = "Output")]
    pub verbose: u8,

    /// Comparing two commands.
    #[command(flatten)]
    pub versus: super::VersusArgs,

    /// Whether `--` stands before the command.
    #[arg(skip)]
    pub after_dashes: bool,

    /// The command to count, and its arguments
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// `L2` or `2`, as perf has it; 0 is the last level.
fn cache_level(typed: &str) -> Result<u8, String> {
    let level = typed.trim_start_matches(['l', 'L']).parse::<u8>().ok().filter(|level| *level <= 4);
    level.ok_or_else(|| "a level of caches looks like L2".to_owned())
}
