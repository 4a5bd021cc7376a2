//! Forms of output.

use super::definition::options;

options! {
    /// JSON.
    #[derive(Clone, Debug, clap::Args)]
    pub struct JsonArgs {
        /// Print one versioned JSON document
        #[arg(long)]
        pub json: bool,
    }
}

options! {
    /// Text or the whole terminal.
    #[derive(Clone, Debug, clap::Args)]
    pub struct InterfaceArgs {
        /// Print text (default if stdout isn't a terminal)
        #[arg(long, overrides_with = "tui")]
        pub stdio: bool,

        /// Use the whole terminal (default if stdout is one); ? lists the keys
        #[arg(long, overrides_with = "stdio")]
        pub tui: bool,
    }
}

options! {
    /// Text for other programs, for `report` and `diff`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct SeparatedArgs {
        /// Separate columns by SEP instead of padding them; SEP in a name becomes a dot
        #[arg(short = 't', long, value_name = "SEP", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        pub field_separator: Option<String>,

        /// Print rows only, without header and losses
        #[arg(short, long)]
        pub quiet: bool,
    }
}

options! {
    /// Columns of text, for `report` and `top`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct TableArgs {
        /// Column widths of text from left to right (0: automatic)
        #[arg(short = 'w', long, value_name = "WIDTH,…", value_delimiter = ',', action = clap::ArgAction::Set)]
        pub column_widths: Vec<usize>,

        /// Show addresses of functions and full paths of files
        #[arg(short, long, action = clap::ArgAction::Count)]
        pub verbose: u8,
    }
}

options! {
    /// Times and paths, for `report` and `script`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct PrecisionArgs {
        /// Show times in nanoseconds
        #[arg(long)]
        pub ns: bool,

        /// Show full paths of source files
        #[arg(long)]
        pub full_source_path: bool,
    }
}

options! {
    /// Messages about each step, for `stat` and `record`.
    #[derive(Clone, Debug, clap::Args)]
    pub struct StepArgs {
        /// Print each step; -vv prints every perf_event_attr
        #[arg(short, long, action = clap::ArgAction::Count)]
        pub verbose: u8,
    }
}
