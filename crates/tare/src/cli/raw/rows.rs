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
