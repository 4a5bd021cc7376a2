use std::ffi::OsString;
use std::path::PathBuf;

use super::{ResultFileArgs, RingArgs, TracedArgs};

const EXAMPLES: &str = "\
Examples:
  tare trace ./prog                         each system call, like strace
  tare trace --calls %file,!access --failures ./prog
  tare trace -tt -T --min-duration 10ms -p 4711
  tare trace -F all -e openat,sched:sched_process_* ./prog    with page faults and tracepoints between calls
  tare trace --data trace.data ./prog       a file for tare trace -i, tare script and perf
  tare trace -s make -j8                    number and time of a build's system calls
  tare trace -s --hist --calls %network -p 4711 --timeout 5000
  tare trace -s -a --per-cgroup --timeout 1000    the whole machine for a second, by cgroup
  tare trace -s --json -o calls.json ./prog
  tare trace --probe ./prog:parse --hist ./prog           durations of a function's calls, and the slowest ones
  tare trace --each --probe './prog:open_file name=+0(%di):string $retval:s32' ./prog
  tare trace --usdt libc:setjmp -p 4711                   number of hits of a static probe (USDT)
  tare trace --kprobe 'vfs_read $arg3' -a --timeout 1000  a kernel function, for a second";

const OUTPUT: &str =
    "Write to FILE [default: stderr; for --json and for tables of -p and -a: stdout]";

/// Arguments of `tare trace`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    group = clap::ArgGroup::new("functions").args(["probe", "kprobe", "usdt"]).multiple(true)
        .conflicts_with_all(["data", "calls", "failures", "stacks", "decode_fds", "string_limit", "faults", "switches", "format", "with_summary"]),
    group = clap::ArgGroup::new("format")
        .args(["timestamps", "relative_timestamps", "trace_path", "strings_in_hex", "no_abbrev", "syscall_number"])
        .multiple(true).conflicts_with_all(["summary", "data"]),
    group = clap::ArgGroup::new("sums").args(["summary", "probe", "kprobe", "usdt"]).multiple(true),
    mut_arg("ring_size", |arg| arg.conflicts_with("summary")),
    mut_arg("output", |arg| arg.help(OUTPUT)),
)]
pub struct TraceArgs {
    /// Show totals instead of each call: number, time, errors
    #[arg(short, long, visible_short_alias = 'c', help_heading = "Report")]
    pub summary: bool,

    /// Show each call, and the totals at the end
    #[arg(short = 'C', visible_short_alias = 'S', long, conflicts_with_all = ["summary", "data", "json"], help_heading = "Report")]
    pub with_summary: bool,

    /// Only failed calls
    #[arg(long, visible_short_alias = 'Z', conflicts_with = "summary", help_heading = "Report")]
    pub failures: bool,

    /// Only calls of at least this duration: 10us, 1ms, 2s
    #[arg(long, value_name = "TIME", conflicts_with = "summary", help_heading = "Report")]
    pub min_duration: Option<String>,

    /// Show the files of descriptors, such as 3</etc/passwd>; twice: also socket addresses and
    /// device numbers
    #[arg(short = 'y', long, action = clap::ArgAction::Count, conflicts_with_all = ["summary", "data"], help_heading = "Report")]
    pub decode_fds: u8,

    /// Show the call chain of each call
    #[arg(short = 'k', long, visible_alias = "stack-trace", conflicts_with_all = ["summary", "data"], help_heading = "Report")]
    pub stacks: bool,

    /// perf's --call-graph: how chains are found has no meaning here
    #[arg(long, value_name = "HOW", hide = true, conflicts_with_all = ["summary", "data"])]
    pub call_graph: Option<String>,

    /// perf's --duration: the shortest duration in milliseconds
    #[arg(long, value_name = "MS", hide = true, conflicts_with_all = ["summary", "min_duration"])]
    pub duration: Option<f64>,

    /// Stop after this number of lines
    #[arg(long, value_name = "N", conflicts_with_all = ["summary", "data"], help_heading = "Report")]
    pub max_events: Option<u64>,

    /// Show the duration of each call
    #[arg(short = 'T', long, alias = "time", conflicts_with = "summary", help_heading = "Report")]
    pub durations: bool,

    /// Time of day before each line; twice: with microseconds; three times: seconds since 1970
    #[arg(short, long, visible_alias = "absolute-timestamps", action = clap::ArgAction::Count, help_heading = "Report")]
    pub timestamps: u8,

    /// Time since the line before, in seconds
    #[arg(short, long, help_heading = "Report")]
    pub relative_timestamps: bool,

    /// Only calls that name this path, or a descriptor of its file; several add up
    #[arg(short = 'P', long, value_name = "PATH", help_heading = "Report")]
    pub trace_path: Vec<OsString>,

    /// Strings with bytes other than ASCII text in hexadecimal; twice: all strings
    #[arg(short = 'x', long, action = clap::ArgAction::Count, help_heading = "Report")]
    pub strings_in_hex: u8,

    /// Show environments of programs: their first 32 variables
    #[arg(short = 'v', long, alias = "verbose", help_heading = "Report")]
    pub no_abbrev: bool,

    /// Number of each call before its name
    #[arg(short = 'n', long, help_heading = "Report")]
    pub syscall_number: bool,

    /// Bytes to show of strings and buffers, also as `-s BYTES`; paths are shown in full
    #[arg(
        long,
        value_name = "BYTES",
        conflicts_with = "summary",
        default_value_t = 32,
        value_parser = clap::value_parser!(u16).range(0..=4000),
        help_heading = "Report"
    )]
    pub string_limit: u16,

    /// Only these system calls: names, patterns such as 'epoll_*', classes such as %file, or ! and
    /// a list to exclude (strace's `-e trace=…` is accepted too). A name with a colon, such as
    /// sched:sched_wakeup, adds a tracepoint between the calls. `signal=…` selects signals in the
    /// same way. Several add up
    #[arg(short = 'e', long, aliases = ["event", "expr"], value_name = "CALLS", help_heading = "Report")]
    pub calls: Vec<String>,

    /// Show page faults between calls: all, major (read from disk) or minor
    #[arg(
        short = 'F',
        long,
        visible_alias = "pf",
        value_name = "all|maj|min",
        conflicts_with_all = ["summary", "data"],
        help_heading = "Report"
    )]
    pub faults: Option<String>,

    /// Show calls too, where -e names page faults only
    #[arg(long, hide = true, overrides_with = "no_syscalls")]
    pub syscalls: bool,

    /// Show no calls, only page faults and tracepoints
    #[arg(long, conflicts_with_all = ["summary", "data"], help_heading = "Report")]
    pub no_syscalls: bool,

    /// Show when threads leave a CPU and return to one
    #[arg(long, visible_alias = "sched", conflicts_with_all = ["summary", "data"], help_heading = "Report")]
    pub switches: bool,

    /// Totals per thread
    #[arg(long, requires = "summary", help_heading = "Report")]
    pub per_thread: bool,

    /// Totals per cgroup (version 2)
    #[arg(long, requires = "summary", conflicts_with = "per_thread", help_heading = "Report")]
    pub per_cgroup: bool,

    /// Show a histogram of each call's durations
    #[arg(long, requires = "sums", help_heading = "Report")]
    pub hist: bool,

    /// Time a function of a program: number and durations of its calls, and origin of the slowest.
    /// Arguments to read from each call follow in perf probe's syntax: %di, +8(%di), $arg1,
    /// $retval, with :u32, :string and so on
    #[arg(long, value_name = "FILE:FUNCTION [ARG…]", help_heading = "Functions")]
    pub probe: Vec<String>,

    /// Time the calls of --probe even where a probe on their return could end the program: by
    /// default such calls are counted only
    #[arg(long, requires = "probe", help_heading = "Functions")]
    pub probe_returns: bool,

    /// Time a kernel function, as --probe does
    #[arg(long, value_name = "FUNCTION [ARG…]", help_heading = "Functions")]
    pub kprobe: Vec<String>,

    /// Count hits of a static probe (USDT) in FILE [default: the command's file, or the files
    /// mapped by the processes of -p]
    #[arg(long, value_name = "[FILE:]PROVIDER:NAME", help_heading = "Functions")]
    pub usdt: Vec<String>,

    /// Show each call at its return, with its arguments
    #[arg(long, requires = "functions", help_heading = "Functions")]
    pub each: bool,

    /// Show the N slowest calls of each function
    #[arg(long, value_name = "N", requires = "functions", default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=32), help_heading = "Functions")]
    pub slowest: u32,

    /// Show the calls of a recording of `tare trace --data` or `perf trace record` (-: standard
    /// input)
    #[arg(
        short,
        long,
        value_name = "FILE",
        conflicts_with_all = ["pid", "all_cpus", "command", "timeout", "summary", "with_summary", "functions", "data"],
        help_heading = "Target"
    )]
    #[arg(conflicts_with_all = ["timestamps", "trace_path", "decode_fds", "stacks", "faults", "switches", "ring_size"])]
    pub input: Option<PathBuf>,

    /// Tasks to trace.
    #[command(flatten)]
    pub traced: TracedArgs,

    /// No effect (an option of strace): children are always followed
    #[arg(short = 'f', long, alias = "force", help_heading = "Target")]
    pub follow_forks: bool,

    /// Destination of the result.
    #[command(flatten)]
    pub result: ResultFileArgs,

    /// Record the system calls into a perf.data file instead of showing them; --ring-size is then
    /// per CPU, 8M to 32M by default
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = ["summary", "calls", "failures", "min_duration", "durations", "string_limit", "json", "output"],
        help_heading = "Output"
    )]
    pub data: Option<PathBuf>,

    /// Ring buffer.
    #[command(flatten)]
    pub ring: RingArgs,

    /// Print JSON: with -s one versioned document, otherwise one object per line
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// Turns strace's `-s BYTES` of `tare trace` into `--string-limit=BYTES`: without a number, `-s`
/// shows totals. Letters of other options may stand before the `s`.
pub(super) fn join_string_limit(args: &mut Vec<OsString>) {
    let word = |args: &[OsString], at: usize| {
        args.get(at).and_then(|word| word.to_str()).map(str::to_owned)
    };
    if word(args, 1).as_deref() != Some("trace") {
        return;
    }
    let mut at = 2;
    while let Some(option) = word(args, at).filter(|word| word.starts_with('-') && word != "--") {
        let letters = option.strip_suffix('s').filter(|rest| !rest.starts_with("--"));
        let limit =
            word(args, at + 1).filter(|next| next.bytes().all(|byte| byte.is_ascii_digit()));
        match (letters, limit) {
            (Some(letters), Some(limit)) => {
                let mut words = vec![OsString::from(format!("--string-limit={limit}"))];
                words.extend((letters != "-").then(|| OsString::from(letters)));
                args.splice(at..at + 2, words);
            }
            // The value of an option of one letter is never an option itself.
            _ if TAKE_VALUES.contains(&&*option) => at += 1,
            _ => {}
        }
        at += 1;
    }
}

/// Options whose value is the next word.
const TAKE_VALUES: [&str; 25] = [
    "-i",
    "--input",
    "--event",
    "--expr",
    "--duration",
    "--max-events",
    "--call-graph",
    "-e",
    "-p",
    "-o",
    "-F",
    "-P",
    "--calls",
    "--pid",
    "--output",
    "--faults",
    "--trace-path",
    "--min-duration",
    "--string-limit",
    "--data",
    "--ring-size",
    "--timeout",
    "--probe",
    "--kprobe",
    "--usdt",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_after_s_is_strace_s_string_limit() {
        let joined = |line: &str| {
            let mut args = line.split(' ').map(OsString::from).collect();
            join_string_limit(&mut args);
            args.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
        };
        assert_eq!(joined("tare trace -s 100 -p 7"), "tare trace --string-limit=100 -p 7");
        assert_eq!(joined("tare trace -tts 9 ls"), "tare trace --string-limit=9 -tt ls");
        assert_eq!(joined("tare trace -e read -s 9 ls"), "tare trace -e read --string-limit=9 ls");
        assert_eq!(joined("tare trace -p 9 -s ls"), "tare trace -p 9 -s ls");
        for same in ["tare trace -s ls 7", "tare trace ls -s 7", "tare stat -s 7", "tare trace -s"]
        {
            assert_eq!(joined(same), same);
        }
    }
}
