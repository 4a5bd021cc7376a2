use super::JsonArgs;

/// Arguments of `tare list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare list                   everything; the number of tracepoints per system
  tare list sw                software events of the kernel
  tare list 'sched:*'         the tracepoints of a system
  tare list miss fault        events whose name contains one of these
  tare list --json | jq '.sections[] | select(.lacks) | {kind, lacks}'
                              missing events, with the reason

Every event shown as available was opened once. docs/events.md describes the grammar of -e.")]
pub struct ListArgs {
    /// Kind of event: hw, sw, cache, pmu, raw, tracepoint or mem; or a pattern with * and ?; or a
    /// part of a name [default: all]
    pub what: Vec<String>,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}
