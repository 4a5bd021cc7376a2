use super::{JsonArgs, ResultFileArgs};

/// Arguments of `tare list`.
#[derive(Debug, clap::Args)]
#[command(mut_arg("json", |arg| arg.short('j')), after_help = "\
Examples:
  tare list                   everything; the number of tracepoints per system
  tare list sw                software events of the kernel
  tare list 'sched:*'         the tracepoints of a system
  tare list miss fault        events whose name contains one of these
  tare list ./prog            functions and static tracepoints of a program, for tare trace
  tare list './prog:*open*'   those that match a pattern
  tare list 'kprobe:vfs_*'    functions of the kernel, for tare trace --kprobe
  tare list --json | jq '.sections[] | select(.lacks) | {kind, lacks}'
                              missing events, with the reason

Every event shown as available was opened once. tare-events(7) describes the grammar of -e.")]
pub struct ListArgs {
    /// Kind of event: hw, sw, cache, pmu, raw, tracepoint or mem; a pattern with * and ?; a part of
    /// a name; a program's file, FILE:PATTERN or kprobe:PATTERN for what can be probed [default: all
    /// events]
    pub what: Vec<String>,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,

    /// Destination of the list.
    #[command(flatten)]
    pub result: ResultFileArgs,

    /// Print names only: of available events in one line, of what can be probed one per line
    #[arg(long, conflicts_with = "json")]
    pub raw_dump: bool,

    /// Only events of this PMU
    #[arg(long, value_name = "PMU", conflicts_with = "what")]
    pub unit: Option<String>,
}
