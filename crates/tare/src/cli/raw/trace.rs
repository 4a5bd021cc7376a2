use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  tare trace ./prog                         each system call, as strace shows it
  tare trace --calls %file,!access --failures ./prog
  tare trace -T --min-duration 10ms -p 4711
  tare trace -F all -e openat,sched:sched_process_* ./prog    page faults and tracepoints between calls
  tare trace --data trace.data ./prog       into a file for tare script and perf
  tare trace -s make -j8                    which system calls a build made, how often and for how long
  tare trace -s --hist --calls %network -p 4711 --timeout 5000
  tare trace -s -a --per-cgroup --timeout 1000    the whole machine for a second, by cgroup
  tare trace -s --json -o calls.json ./prog
  tare trace --probe ./prog:parse --hist ./prog           how long each call of a function took, and the slowest
  tare trace --each --probe './prog:open_file name=+0(%di):string $retval:s32' ./prog
  tare trace --usdt libc:setjmp -p 4711                   how often a process passes a place that it names itself
  tare trace --kprobe 'vfs_read $arg3' -a --timeout 1000  a function of the kernel, for a second";

/// Arguments of `tare trace`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    group = clap::ArgGroup::new("functions").args(["probe", "kprobe", "usdt"]).multiple(true)
        .conflicts_with_all(["data", "calls", "failures", "stacks", "decode_fds", "string_limit", "faults", "switches"]),
    group = clap::ArgGroup::new("sums").args(["summary", "probe", "kprobe", "usdt"]).multiple(true),
)]
pub struct TraceArgs {
    /// Show sums instead of each call: how often, how long, which errors
    #[arg(short, long, help_heading = "What to show")]
    pub summary: bool,

    /// Only calls that failed
    #[arg(
        long,
        visible_short_alias = 'Z',
        conflicts_with = "summary",
        help_heading = "What to show"
    )]
    pub failures: bool,

    /// Only calls that took at least so long: 10us, 1ms, 2s
    #[arg(long, value_name = "TIME", conflicts_with = "summary", help_heading = "What to show")]
    pub min_duration: Option<String>,

    /// Show what descriptors stand for: 3</etc/passwd>; twice: also addresses of sockets and numbers
    /// of devices
    #[arg(short = 'y', long, action = clap::ArgAction::Count, conflicts_with_all = ["summary", "data"], help_heading = "What to show")]
    pub decode_fds: u8,

    /// Show the call chain of each call, with the names of functions
    #[arg(short = 'k', long, visible_alias = "stack-trace", conflicts_with_all = ["summary", "data"], help_heading = "What to show")]
    pub stacks: bool,

    /// Show how long each call took
    #[arg(short = 'T', long, conflicts_with = "summary", help_heading = "What to show")]
    pub durations: bool,

    /// How many bytes of strings and buffers are shown; paths are shown whole [default: 32]
    #[arg(
        long,
        value_name = "BYTES",
        conflicts_with = "summary",
        value_parser = clap::value_parser!(u16).range(0..=4000),
        help_heading = "What to show"
    )]
    pub string_limit: Option<u16>,

    /// Only these system calls: names, classes as %file, all but those behind ! (`-e trace=…` of
    /// strace is taken too). A name with a colon, as sched:sched_wakeup, is a tracepoint, shown
    /// between them
    #[arg(short = 'e', long, value_name = "CALLS", help_heading = "What to show")]
    pub calls: Option<String>,

    /// Show page faults between calls: all, major ones (that read a disk) or minor ones
    #[arg(
        short = 'F',
        long,
        visible_alias = "pf",
        value_name = "all|maj|min",
        conflicts_with_all = ["summary", "data"],
        help_heading = "What to show"
    )]
    pub faults: Option<String>,

    /// Show when threads leave their CPU, and come back to one
    #[arg(long, visible_alias = "sched", conflicts_with_all = ["summary", "data"], help_heading = "What to show")]
    pub switches: bool,

    /// Sums for each thread
    #[arg(long, requires = "summary", help_heading = "What to show")]
    pub per_thread: bool,

    /// Sums for each cgroup (version 2)
    #[arg(
        long,
        requires = "summary",
        conflicts_with = "per_thread",
        help_heading = "What to show"
    )]
    pub per_cgroup: bool,

    /// How the durations of each call are distributed
    #[arg(long, requires = "sums", help_heading = "What to show")]
    pub hist: bool,

    /// How often a function of a program is called, how long it takes, what the slowest calls came
    /// from; behind it what is read of each call, as perf probe has it: %di, +8(%di), $arg1,
    /// $retval, with :u32, :string and so on
    #[arg(long, value_name = "FILE:FUNCTION [ARG…]", help_heading = "Functions")]
    pub probe: Vec<String>,

    /// The same of a function of the kernel
    #[arg(long, value_name = "FUNCTION [ARG…]", help_heading = "Functions")]
    pub kprobe: Vec<String>,

    /// How often a place is passed that a program names itself (USDT); in the command's file, or
    /// what the processes of -p have mapped, unless a file is told
    #[arg(long, value_name = "[FILE:]PROVIDER:NAME", help_heading = "Functions")]
    pub usdt: Vec<String>,

    /// Show each call, as it returns, with what is read of it
    #[arg(long, requires = "functions", help_heading = "Functions")]
    pub each: bool,

    /// How many of the slowest calls of each function are shown [default: 3]
    #[arg(long, value_name = "N", requires = "functions", value_parser = clap::value_parser!(u32).range(0..=32), help_heading = "Functions")]
    pub slowest: Option<u32>,

    /// Trace running processes, and what they start
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Where")]
    pub pid: Vec<i32>,

    /// Trace the whole machine but tare itself
    #[arg(short, long, conflicts_with = "pid", help_heading = "Where")]
    pub all_cpus: bool,

    /// Follow what is started: that is always so, and the option is taken for strace's sake
    #[arg(short = 'f', long, help_heading = "Where")]
    pub follow_forks: bool,

    /// Stop after so many milliseconds; a command is ended with SIGTERM
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..), help_heading = "When")]
    pub timeout: Option<u64>,

    /// Write to this file instead of stderr (with --json: instead of stdout)
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,

    /// Record the system calls into a perf.data file instead of showing them
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["summary", "calls", "failures", "min_duration", "durations", "string_limit", "json", "output"],
        help_heading = "Output"
    )]
    pub data: Option<PathBuf>,

    /// How much may wait in the kernel for tare: 64K to 1G, a power of two [default: 8M; --data: 8M to 32M for each CPU]
    #[arg(long, value_name = "SIZE", conflicts_with = "summary", help_heading = "Output")]
    pub ring_size: Option<String>,

    /// Print JSON: with -s a document with a version, else an object a line
    #[arg(long, help_heading = "Output")]
    pub json: bool,

    /// The command to trace, and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
