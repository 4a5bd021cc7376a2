use std::path::PathBuf;

use super::SymbolSearch;

/// Arguments of `tare script`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare script                                 every sample of perf.data, as perf script prints it
  tare script -F comm,tid,time,event,trace    these fields only
  tare script -F +pid,-cpu                    the usual fields with one more and one less
  tare script --time 12.5,13 --comms nginx    half a second of one program
  tare record -o - -- make | tare script      as it is recorded

docs/script.md lists the fields.")]
pub struct ScriptArgs {
    /// Read this recording; - is standard input [default: perf.data, or standard input where it is
    /// a pipe]
    #[arg(short, long, value_name = "FILE")]
    pub input: Option<PathBuf>,

    /// Print these fields: a list, optionally for one type of event (hw:, sw:, trace:, raw:,
    /// break:); +FIELD and -FIELD change the usual ones
    #[arg(short = 'F', long, value_name = "FIELDS", allow_hyphen_values = true)]
    pub fields: Vec<String>,

    /// Print one JSON object a line: a line for the whole, one for each sample, one for losses and
    /// the ledger
    #[arg(long, conflicts_with_all = ["fields", "ns", "reltime", "deltatime", "header", "show_info", "stop_bt"])]
    #[arg(conflicts_with_all = ["dump_raw_trace", "show_bpf_events", "show_text_poke_events"])]
    #[arg(conflicts_with_all = ["show_task_events", "show_mmap_events", "show_switch_events", "show_lost_events"])]
    #[arg(conflicts_with_all = ["show_round_events", "show_namespace_events", "show_cgroup_events"])]
    pub json: bool,

    /// Print first what the recording says of its machine and its events
    #[arg(long)]
    pub header: bool,

    /// Print only that
    #[arg(long, conflicts_with = "json")]
    pub header_only: bool,

    /// Print topology, caches and build ids with it
    #[arg(short = 'I', long)]
    pub show_info: bool,

    /// Print times in nanoseconds
    #[arg(long)]
    pub ns: bool,

    /// Print times since the first sample
    #[arg(long, conflicts_with = "deltatime")]
    pub reltime: bool,

    /// Print times since the sample before
    #[arg(long)]
    pub deltatime: bool,

    /// Only samples of these programs (names of threads)
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

    /// Only samples in these files
    #[arg(long, value_name = "NAMES", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub dsos: Vec<String>,

    /// Only samples in these functions, or at these addresses (0x4007a0)
    #[arg(short = 'S', long, value_name = "SYMBOLS", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub symbols: Vec<String>,

    /// With addresses: so many bytes from each
    #[arg(
        long,
        value_name = "BYTES",
        requires = "symbols",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub addr_range: u64,

    /// Samples from a sample of this event on
    #[arg(long, value_name = "EVENT")]
    pub switch_on: Option<String>,

    /// Samples up to a sample of this event
    #[arg(long, value_name = "EVENT")]
    pub switch_off: Option<String>,

    /// Also the samples that switch on and off
    #[arg(long)]
    pub show_on_off_events: bool,

    /// Print each record, byte by byte and decoded, in the order of the file
    #[arg(short = 'D', long, alias = "dump-unsorted-raw-trace")]
    pub dump_raw_trace: bool,

    /// Only samples from one time to another: seconds as in `tare script`, either may be left out
    /// ('1,2 3,' are two ranges); or parts of the recording: 10%-20%, 10%/2 which is the second
    /// tenth, several with commas between them
    #[arg(long, value_name = "[FROM],[TO] | FROM%-TO% | PART%/N", allow_hyphen_values = true)]
    pub time: Option<String>,

    /// Don't print call chains
    #[arg(short = 'G', long)]
    pub hide_call_graph: bool,

    /// Print at most so many frames of a call chain
    #[arg(long, value_name = "N", default_value_t = 127)]
    pub max_stack: usize,

    /// Write the lines of each event to a file of its own, such as perf.data.cycles.dump
    #[arg(long, conflicts_with_all = ["json", "dump_raw_trace"])]
    pub per_event_dump: bool,

    /// Print so many blocks of code of each branch stack, the latest (-F brstackinsn)
    #[arg(long, value_name = "N")]
    pub max_blocks: Option<usize>,

    /// End call chains at one of these symbols
    #[arg(long, value_name = "SYMBOLS", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub stop_bt: Vec<String>,

    /// Show inlined functions in call chains, as debug info has them (with --json lines of source
    /// too)
    #[arg(long, overrides_with = "no_inline")]
    pub inline: bool,

    /// Don't look for inlined functions (the default)
    #[arg(long)]
    pub no_inline: bool,

    /// Where names of functions come from
    #[command(flatten)]
    pub symbol_search: SymbolSearch,

    /// Print records about threads too: fork, exit, comm
    #[arg(long)]
    pub show_task_events: bool,

    /// Print records about mappings too
    #[arg(long)]
    pub show_mmap_events: bool,

    /// Print records about context switches too
    #[arg(long)]
    pub show_switch_events: bool,

    /// Print records about losses too
    #[arg(long)]
    pub show_lost_events: bool,

    /// Print the ends of the recorder's rounds too
    #[arg(long)]
    pub show_round_events: bool,

    /// Print records about namespaces too
    #[arg(long)]
    pub show_namespace_events: bool,

    /// Print records about BPF programs and other code of the kernel that comes and goes too
    #[arg(long)]
    pub show_bpf_events: bool,

    /// Print records about changes of the kernel's code too
    #[arg(long)]
    pub show_text_poke_events: bool,

    /// Print whole paths of source files
    #[arg(long)]
    pub full_source_path: bool,

    /// Print records about cgroups too
    #[arg(long)]
    pub show_cgroup_events: bool,
}
