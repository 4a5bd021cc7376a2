use super::definition::with_default;
use super::{DEFAULT_RECORDING, InputArgs, InterfaceArgs, JsonArgs, OwnSampleArgs, SymbolSearch};

const EXAMPLES: &str = "\
Examples:
  tare annotate                     on a terminal: the hottest function; ? lists the keys
  tare annotate main                that function
  tare annotate --stdio             every function with samples, the hottest first
  tare annotate -M intel -s memcpy  in Intel syntax
  tare annotate --json main         as a JSON document";

/// Arguments of `tare annotate`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = EXAMPLES,
    mut_arg("input", |arg| with_default(arg, DEFAULT_RECORDING)),
    mut_arg("json", |arg| arg.conflicts_with("tui")),
    mut_arg("stdio", |arg| arg.alias("stdio2")),
)]
pub struct AnnotateArgs {
    /// Function to annotate [default: every function with samples]
    #[arg(value_name = "SYMBOL", conflicts_with = "named")]
    pub symbol: Option<String>,

    /// The recording.
    #[command(flatten)]
    pub input: InputArgs,

    /// Function to annotate, in perf's spelling
    #[arg(short = 's', long = "symbol", value_name = "SYMBOL", id = "named")]
    pub named: Option<String>,

    /// Only functions of these binaries
    #[arg(short, long, alias = "dso", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub dsos: Vec<String>,

    /// Print file and line number of each source line
    #[arg(short = 'l', long)]
    pub print_line: bool,

    /// Base of percentages: the function (local) or all samples (global), by period or by number of
    /// samples (hits)
    #[arg(long, value_name = "TYPE", default_value = "local-period")]
    pub percent_type: PercentType,

    /// Syntax of x86 instructions: att or intel
    #[arg(
        short = 'M',
        long,
        value_name = "STYLE",
        default_value = "att",
        hide_default_value = true
    )]
    pub disassembler_style: DisassemblerStyle,

    /// Print the bytes of each instruction
    #[arg(long)]
    pub asm_raw: bool,

    /// Omit source lines
    #[arg(long)]
    pub no_source: bool,

    /// Look up source files with absolute paths below this folder
    #[arg(long, value_name = "FOLDER")]
    pub prefix: Option<String>,

    /// Strip N leading folders from their paths
    #[arg(
        long,
        value_name = "N",
        requires = "prefix",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub prefix_strip: usize,

    /// Samples that count, functions to list, the column before their instructions, and whether
    /// losses are printed.
    #[command(flatten)]
    pub listing: ListingArgs,

    /// Text or the whole terminal.
    #[command(flatten)]
    pub interface: InterfaceArgs,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,

    /// The recorder's own samples.
    #[command(flatten)]
    pub own: OwnSampleArgs,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

/// Functions to list, and the column before their instructions.
#[derive(Debug, clap::Args)]
pub struct ListingArgs {
    /// Only samples of these CPUs, such as 0,2-3
    #[arg(short = 'C', long, value_name = "LIST")]
    pub cpu: Option<String>,

    /// Print number of samples instead of percentages
    #[arg(short = 'n', long, conflicts_with_all = ["tui", "show_total_period"])]
    pub show_nr_samples: bool,

    /// Print sums of periods instead of percentages
    #[arg(long, conflicts_with = "tui")]
    pub show_total_period: bool,

    /// Skip functions with less than this percentage of all samples
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0, hide_default_value = true)]
    pub percent_limit: f64,

    /// Skip functions whose instructions can't be read
    #[arg(long)]
    pub skip_missing: bool,

    /// Print functions only, without losses
    #[arg(short, long)]
    pub quiet: bool,
}

impl ListingArgs {
    /// Whether an option asks for text.
    #[must_use]
    pub const fn is_for_text(&self) -> bool {
        self.show_nr_samples || self.show_total_period || self.skip_missing || self.quiet
    }
}

/// The base of percentages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PercentType {
    /// Share of the function, by period
    LocalPeriod,
    /// Share of the function, by number of samples
    LocalHits,
    /// Share of all samples, by period
    GlobalPeriod,
    /// Share of all samples, by number of samples
    GlobalHits,
}

impl PercentType {
    /// Whether percentages are shares of all samples.
    #[must_use]
    pub const fn is_of_all(self) -> bool {
        matches!(self, Self::GlobalPeriod | Self::GlobalHits)
    }

    /// Whether percentages count samples instead of summing periods.
    #[must_use]
    pub const fn is_by_samples(self) -> bool {
        matches!(self, Self::LocalHits | Self::GlobalHits)
    }
}

/// Syntax of x86 instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DisassemblerStyle {
    /// Syntax of the GNU assembler
    Att,
    /// Syntax of Intel's manuals
    Intel,
}
