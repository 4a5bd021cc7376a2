use std::path::PathBuf;

use super::definition::with_default;
use super::{
    ChainLengthArgs, EventSwitchArgs, FilePartArgs, InlineArgs, InputArgs, NameFilterArgs,
    PrecisionArgs, SymbolSearch, TaskFilterArgs,
};

/// Most frames of a call chain without `--max-stack`, as in perf.
pub const MAX_STACK: usize = 127;

/// Arguments of `tare script`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare script                                 every sample of perf.data, like perf script
  tare script -F comm,tid,time,event,trace    these fields only
  tare script -F +pid,-cpu                    the default fields with one more and one less
  tare script --time 12.5,13 --comms nginx    half a second of one command
  tare record -o - -- make | tare script      while recording

tare-script(1) lists the fields.",
    mut_arg("input", |arg| with_default(arg, "perf.data, or standard input if it is a pipe")),
    mut_arg("dump_raw_trace", |arg| arg.alias("dump-unsorted-raw-trace")),
    mut_arg("header_only", |arg| arg.conflicts_with("json")),
    mut_arg("comms", |arg| arg.short('c')),
    mut_arg("symbols", |arg| arg.short('S')),
    mut_arg("max_stack", |arg| with_default(arg, &MAX_STACK.to_string())),
)]
pub struct ScriptArgs {
    /// The recording.
    #[command(flatten)]
    pub input: InputArgs,

    /// Print these fields: a list, optionally for one type of event (hw:, sw:, trace:, raw:,
    /// break:); +FIELD and -FIELD change the default
    #[arg(short = 'F', long, value_name = "FIELDS", allow_hyphen_values = true)]
    pub fields: Vec<String>,

    /// Print one JSON object per line: one for the recording, one per sample, one for losses and
    /// the ledger
    #[arg(long, conflicts_with_all = ["fields", "ns", "reltime", "deltatime", "header", "show_info", "stop_bt"])]
    #[arg(conflicts_with_all = ["dump_raw_trace", "show_bpf_events", "show_text_poke_events"])]
    #[arg(conflicts_with_all = ["show_task_events", "show_mmap_events", "show_switch_events", "show_lost_events"])]
    #[arg(conflicts_with_all = ["show_round_events", "show_namespace_events", "show_cgroup_events"])]
    pub json: bool,

    /// Write the JSON document of `perf data convert --to-json` to FILE (-: standard output)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "fields", "header_only", "dump_raw_trace", "per_event_dump"])]
    pub perf_json: Option<PathBuf>,

    /// Parts of the file itself.
    #[command(flatten)]
    pub file: FilePartArgs,

    /// Times and paths.
    #[command(flatten)]
    pub precision: PrecisionArgs,

    /// Print times since the first sample
    #[arg(long, conflicts_with = "deltatime")]
    pub reltime: bool,

    /// Print times since the previous sample
    #[arg(long)]
    pub deltatime: bool,

    /// Omit call chains
    #[arg(short = 'G', long, help_heading = "Call chains")]
    pub hide_call_graph: bool,

    /// Length of call chains.
    #[command(flatten, next_help_heading = "Call chains")]
    pub length: ChainLengthArgs,

    /// Write each event's lines to a separate file, such as perf.data.cycles.dump
    #[arg(long, conflicts_with_all = ["json", "dump_raw_trace"], help_heading = None::<&'static str>)]
    pub per_event_dump: bool,

    /// Print the last N basic blocks of each branch stack (-F brstackinsn)
    #[arg(long, value_name = "N", help_heading = "Call chains")]
    pub max_blocks: Option<usize>,

    /// End call chains at one of these symbols
    #[arg(long, value_name = "SYMBOLS", value_delimiter = ',', action = clap::ArgAction::Set, help_heading = "Call chains")]
    pub stop_bt: Vec<String>,

    /// Inlined functions.
    #[command(flatten, next_help_heading = "Call chains")]
    pub inline: InlineArgs,

    /// Print thread records too: fork, exit, comm
    #[arg(long, help_heading = "Records")]
    pub show_task_events: bool,

    /// Print mapping records too
    #[arg(long, help_heading = "Records")]
    pub show_mmap_events: bool,

    /// Print context switches too
    #[arg(long, help_heading = "Records")]
    pub show_switch_events: bool,

    /// Print records of losses too
    #[arg(long, help_heading = "Records")]
    pub show_lost_events: bool,

    /// Print ends of the recorder's rounds too
    #[arg(long, help_heading = "Records")]
    pub show_round_events: bool,

    /// Print namespace records too
    #[arg(long, help_heading = "Records")]
    pub show_namespace_events: bool,

    /// Print records of BPF programs and kernel symbols too
    #[arg(long, help_heading = "Records")]
    pub show_bpf_events: bool,

    /// Print records of changed kernel code too
    #[arg(long, help_heading = "Records")]
    pub show_text_poke_events: bool,

    /// Print cgroup records too
    #[arg(long, help_heading = "Records")]
    pub show_cgroup_events: bool,

    /// Commands, binaries and functions.
    #[command(flatten)]
    pub names: NameFilterArgs,

    /// Processes, threads, CPUs and times.
    #[command(flatten)]
    pub tasks: TaskFilterArgs,

    /// With addresses (0x4007a0) in -S: length of each range in bytes
    #[arg(
        long,
        value_name = "BYTES",
        requires = "symbols",
        default_value_t = 0,
        hide_default_value = true,
        help_heading = "Filters"
    )]
    pub addr_range: u64,

    /// Events that switch samples on and off.
    #[command(flatten)]
    pub switch: EventSwitchArgs,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}
