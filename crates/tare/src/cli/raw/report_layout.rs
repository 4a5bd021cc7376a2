/// How the text of `tare report` is laid out.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Layout")]
pub struct ReportLayout {
    /// This between columns instead of blanks; where it stands in a name, the name has a dot
    #[arg(short = 't', long, value_name = "SEP", conflicts_with = "json", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub field_separator: Option<String>,

    /// Widths of the columns, from left to right (0: what fits)
    #[arg(short = 'w', long, value_name = "WIDTH,…", value_delimiter = ',', action = clap::ArgAction::Set, conflicts_with = "json")]
    pub column_widths: Vec<usize>,

    /// Addresses of functions, whole paths of files
    #[arg(short, long, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Each sort key as a level of a tree
    #[arg(short = 'H', long, conflicts_with_all = ["json", "group", "fields"])]
    pub hierarchy: bool,

    /// The events of a group side by side; of a recording without groups all events
    #[arg(long, conflicts_with = "json", overrides_with = "no_group")]
    pub group: bool,

    /// Events one by one (the default)
    #[arg(long, hide = true)]
    pub no_group: bool,

    /// Order rows of groups by the event with this number, counted from 0
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub group_sort_idx: usize,

    /// Times in nanoseconds
    #[arg(long)]
    pub ns: bool,

    /// Whole paths of source files
    #[arg(long)]
    pub full_source_path: bool,
}
