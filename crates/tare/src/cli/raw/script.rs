use std::path::PathBuf;

use super::{EventSwitchArgs, SymbolSearch};

/// Arguments of `tare script`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare script                                 every sample of perf.data, like perf script
  tare script -F comm,tid,time,event,trace    these fields only
  tare script -F +pid,-cpu                    the default fields with one more and one less
  tare script --time 12.5,13 --comms nginx    half a second of one command
  tare record -o - -- make | tare script      while recording

docs/script.md lists the fields.")]
pub struct ScriptArgs {
    /// Recording to read (-: standard input) [default: perf.data, or standard input if it is a pipe]
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Print these fields: a list, optionally for one type of event (hw:, sw:, trace:, raw:,
    /// break:); +FIELD and -FIELD change the default
    #[arg(short = 'F', long, value_name = "FIELDS", allow_hyphen_values = true)]
    pub fields: Vec<String>,

    /// Print one JSON object per line: one for the recording, one per sample, one for losses and the
    /// ledger
    #[arg(long, conflicts_with_all = ["fields", "ns", "reltime", "deltatime", "header", "show_info", "stop_bt"])]
    #[arg(conflicts_with_all = ["dump_raw_trace", "show_bpf_events", "show_text_poke_events"])]
    #[arg(conflicts_with_all = ["show_task_events", "show_mmap_events", "show_switch_events", "show_lost_events"])]
    #[arg(conflicts_with_all = ["show_round_events", "show_namespace_events", "show_cgroup_events"])]
    pub json: bool,

    /// Print the recording's header first: machine, events
    #[arg(long)]
    pub header: bool,

    /// Print the recording's header only
    #[arg(long, conflicts_with = "json")]
    pub header_only: bool,

    /// Add topology, caches and build ids to the header
    #[arg(short = 'I', long)]
    pub show_info: bool,

    /// Print times in nanoseconds
    #[arg(long)]
    pub ns: bool,

    /// Print times since the first sample
    #[arg(long, conflicts_with = "deltatime")]
    pub reltime: bool,

    /// Print times since the previous sample
    #[arg(long)]
    pub deltatime: bool,

    /// Only samples of these commands (thread names)
    #[arg(short = 'c', long, value_name = "NAMES", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub comms: Vec<String>,

    /// Only samples of these processes
    #[arg(long, value_name = "PIDS", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub pid: Vec<i32>,

    /// Only samples of these threads
    #[arg(long, value_name = "TIDS", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub tid: Vec<i32>,

    /// Only samples of these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST")]
    pub cpu: Option<String>,

    /// Only samples in these binaries
    #[arg(long, value_name = "NAMES", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub dsos: Vec<String>,

    /// Only samples in these functions, or at these addresses (0x4007a0)
    #[arg(short = 'S', long, value_name = "SYMBOLS", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub symbols: Vec<String>,

    /// With addresses in -S: length of each range in bytes
    #[arg(
        long,
        value_name = "BYTES",
        requires = "symbols",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub addr_range: u64,

    /// Events that switch samples on and off.
    #[command(flatten)]
    pub switch: EventSwitchArgs,

    /// Print every record as bytes and decoded, in file order
    #[arg(short = 'D', long, alias = "dump-unsorted-raw-trace")]
    pub dump_raw_trace: bool,

    /// Only this range of time: seconds as printed by `tare script`, FROM or TO may be omitted; or
    /// parts of the recording: 10%-20%, or 10%/2 for the second tenth. Several ranges: '1,2 3,' or
    /// 0%-10%,30%-40%
    #[arg(long, value_name = "[FROM],[TO] | FROM%-TO% | PART%/N", allow_hyphen_values = true)]
    pub time: Option<String>,

    /// Omit call chains
    #[arg(short = 'G', long)]
    pub hide_call_graph: bool,

    /// Print at most N frames of a call chain
    #[arg(long, value_name = "N", default_value_t = 127)]
    pub max_stack: usize,

    /// Write each event's lines to a separate file, such as perf.data.cycles.dump
    #[arg(long, conflicts_with_all = ["json", "dump_raw_trace"])]
    pub per_event_dump: bool,

    /// Print the last N basic blocks of each branch stack (-F brstackinsn)
    #[arg(long, value_name = "N")]
    pub max_blocks: Option<usize>,

    /// End call chains at one of these symbols
    #[arg(long, value_name = "SYMBOLS", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub stop_bt: Vec<String>,

    /// Print inlined functions in call chains (needs debug info; with --json source lines too)
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,

    /// Don't look up inlined functions (default)
    #[arg(long)]
    pub no_inline: bool,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,

    /// Print thread records too: fork, exit, comm
    #[arg(long)]
    pub show_task_events: bool,

    /// Print mapping records too
    #[arg(long)]
    pub show_mmap_events: bool,

    /// Print context switches too
    #[arg(long)]
    pub show_switch_events: bool,

    /// Print records of losses too
    #[arg(long)]
    pub show_lost_events: bool,

    /// Print ends of the recorder's rounds too
    #[arg(long)]
    pub show_round_events: bool,

    /// Print namespace records too
    #[arg(long)]
    pub show_namespace_events: bool,

    /// Print records of BPF programs and kernel symbols too
    #[arg(long)]
    pub show_bpf_events: bool,

    /// Print records of changed kernel code too
    #[arg(long)]
    pub show_text_poke_events: bool,

    /// Print full paths of source files
    #[arg(long)]
    pub full_source_path: bool,

    /// Print cgroup records too
    #[arg(long)]
    pub show_cgroup_events: bool,
}
