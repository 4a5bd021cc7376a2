//! Rows and columns of tables.

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

        /// The base of percentages.
        #[command(flatten)]
        pub base: PercentageArgs,

        /// Hide rows below this percentage
        #[arg(long, value_name = "PERCENT")]
        pub percent_limit: Option<f64>,
    }
}

options! {
    /// The base of percentages, for `report`, `top` and `diff`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct PercentageArgs {
        /// Base of percentages with filters: all samples (absolute), or the samples that pass
        /// (relative)
        #[arg(long, value_name = "BASE", value_enum, default_value_t = Percentage::Absolute, hide_possible_values = true)]
        pub percentage: Percentage,
    }
}

/// The base of percentages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Percentage {
    /// The samples that pass the filters
    Relative,
    /// All samples
    Absolute,
}

options! {
    /// Sort keys and columns, for `report` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Rows")]
    pub struct ColumnArgs {
        /// Sort keys that make up a row, such as comm,dso,sym; +KEY,… adds to the default
        #[arg(short, long = "sort", value_name = "KEY,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub sort: Vec<String>,

        /// Columns: overhead, overhead_children, sample, period and sort keys; +COLUMN,… adds to
        /// the default
        #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub fields: Vec<String>,
    }
}

options! {
    /// Number of rows, for `top` and `lock`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct EntryArgs {
        /// Show at most N rows
        #[arg(short = 'E', long, value_name = "N")]
        pub entries: Option<usize>,
    }
}
