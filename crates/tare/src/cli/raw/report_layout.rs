use super::definition::options;

options! {
    /// Layout of `tare report`'s text.
    #[derive(Clone, Debug, clap::Args)]
    #[command(next_help_heading = "Layout")]
    pub struct ReportLayout {
        /// Separate columns by SEP instead of padding them; SEP in a name becomes a dot
        #[arg(short = 't', long, value_name = "SEP", conflicts_with = "json", value_parser = clap::builder::NonEmptyStringValueParser::new())]
        pub field_separator: Option<String>,

        /// Column widths from left to right (0: automatic)
        #[arg(short = 'w', long, value_name = "WIDTH,…", value_delimiter = ',', action = clap::ArgAction::Set, conflicts_with = "json")]
        pub column_widths: Vec<usize>,

        /// Show addresses of functions and full paths of files
        #[arg(short, long, action = clap::ArgAction::Count)]
        pub verbose: u8,

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

        /// Show times in nanoseconds
        #[arg(long)]
        pub ns: bool,

        /// Show full paths of source files
        #[arg(long)]
        pub full_source_path: bool,
    }
}
