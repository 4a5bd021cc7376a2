use super::Percentage;
use super::definition::options;

options! {
    /// Columns and rows, for `report` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Rows")]
    pub struct RowArgs {
        /// Add a column with the number of samples
        #[arg(short = 'n', long)]
        pub show_nr_samples: bool,

        /// Add a column with the sum of periods
        #[arg(long)]
        pub show_total_period: bool,

        /// Add rows for functions that only call others (default with call chains)
        #[arg(long, overrides_with = "no_children")]
        pub children: bool,

        /// Only show rows for functions that were sampled themselves
        #[arg(long)]
        pub no_children: bool,

        /// Base of percentages with filters: all samples (absolute, the default), or the samples
        /// that pass (relative)
        #[arg(long, value_name = "BASE", value_enum, default_value_t = Percentage::Absolute, hide_default_value = true, hide_possible_values = true)]
        pub percentage: Percentage,

        /// Hide rows below this percentage
        #[arg(long, value_name = "PERCENT")]
        pub percent_limit: Option<f64>,
    }
}

options! {
    /// Events that switch samples on and off, for `report` and `script`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct EventSwitchArgs {
        /// Only samples after the first sample of this event
        #[arg(long, value_name = "EVENT")]
        pub switch_on: Option<String>,

        /// Only samples before the next sample of this event
        #[arg(long, value_name = "EVENT")]
        pub switch_off: Option<String>,

        /// Include the samples of --switch-on and --switch-off
        #[arg(long)]
        pub show_on_off_events: bool,
    }
}
