/// Arguments of `tare list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  tare list                   everything; tracepoints as numbers for each system
  tare list sw                the events of the kernel's software
  tare list 'sched:*'         the tracepoints of a system
  tare list miss fault        whatever has one of these in its name
  tare list --json | jq '.sections[] | select(.lacks) | {kind, lacks}'
                              what this machine lacks, and why

What is shown as available was opened once. docs/events.md has the grammar of -e.")]
pub struct ListArgs {
    /// Show only this: hw, sw, cache, pmu, raw, tracepoint or mem; or a pattern with * and ?, or a
    /// part of a name
    pub what: Vec<String>,
    /// Print one versioned JSON document.
    #[arg(long)]
    pub json: bool,
}
