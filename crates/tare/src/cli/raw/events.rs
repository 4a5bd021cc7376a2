//! Events to count or sample.

use super::definition::options;

/// Event that `record` and `top` sample without `-e`, for their help.
pub(super) const DEFAULT_EVENT: &str = "cycles:P, or cpu-clock without a PMU";

options! {
    /// Events, for `stat` and `record`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Events")]
    pub struct EventArgs {
        /// The events.
        #[command(flatten)]
        pub list: EventListArgs,

        /// Only occurrences of the preceding tracepoint whose fields match
        #[arg(long = "filter", value_name = "EXPR", allow_hyphen_values = true)]
        pub filters: Vec<String>,

        /// For each --filter the number of -e before it, as typed.
        #[arg(skip)]
        pub filter_positions: Vec<usize>,

        /// Every event in user space only
        #[arg(long, conflicts_with = "all_kernel")]
        pub all_user: bool,

        /// Every event in the kernel only
        #[arg(long)]
        pub all_kernel: bool,
    }
}

options! {
    /// Events, for `stat`, `record` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct EventListArgs {
        /// Events: names, groups in braces, comma-separated lists; see `tare list`
        #[arg(short, long = "event", value_name = "EVENTS")]
        pub events: Vec<String>,
    }
}
