use super::definition::options;
use super::{PrecisionArgs, TableArgs};

options! {
    /// Layout of `tare report`'s text.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Layout")]
    pub struct ReportLayout {
        /// Columns.
        #[command(flatten)]
        pub table: TableArgs,

        /// Show each sort key as a level of a tree
        #[arg(short = 'H', long, conflicts_with_all = ["json", "group", "fields"])]
        pub hierarchy: bool,

        /// Show the events of a group side by side (all events if none are grouped)
        #[arg(long, conflicts_with = "json", overrides_with = "no_group")]
        pub group: bool,

        /// Show events one by one (default)
        #[arg(long, hide = true)]
        pub no_group: bool,

        /// With --group: sort rows by the N-th event, counted from 0
        #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
        pub group_sort_idx: usize,

        /// Times and paths.
        #[command(flatten)]
        pub precision: PrecisionArgs,
    }
}
