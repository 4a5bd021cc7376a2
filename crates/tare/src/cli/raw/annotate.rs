use std::path::PathBuf;

use super::SymbolSearch;

const EXAMPLES: &str = "\
Examples:
  tare annotate                     on a terminal: the heaviest function, with ? for the keys
  tare annotate main                that function
  tare annotate --stdio             every function with samples, the heaviest first
  tare annotate -M intel -s memcpy  in Intel's syntax
  tare annotate --json main         as a document for programs";

/// Arguments of `tare annotate`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct AnnotateArgs {
    /// The function; all with samples where none is named
    #[arg(value_name = "SYMBOL", conflicts_with = "named")]
    pub symbol: Option<String>,

    /// The recording (-: standard input)
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    pub input: PathBuf,

    /// The function, as perf has it
    #[arg(short = 's', long = "symbol", value_name = "SYMBOL", id = "named")]
    pub named: Option<String>,

    /// Only functions of these files
    #[arg(short, long, alias = "dso", value_name = "NAME,…", value_delimiter = ',', action = clap::ArgAction::Set)]
    pub dsos: Vec<String>,

    /// Print file and line beside each line of the source
    #[arg(short = 'l', long)]
    pub print_line: bool,

    /// What a percentage is of: the function (local) or all samples (global), by what samples stand
    /// for (period) or how many there are (hits)
    #[arg(long, value_name = "TYPE", default_value = "local-period")]
    pub percent_type: PercentType,

    /// Syntax of x86: att or intel
    #[arg(
        short = 'M',
        long,
        value_name = "STYLE",
        default_value = "att",
        hide_default_value = true
    )]
    pub disassembler_style: DisassemblerStyle,

    /// Print the bytes of instructions
    #[arg(long)]
    pub asm_raw: bool,

    /// Print no lines of the source
    #[arg(long)]
    pub no_source: bool,

    /// Look for source files with absolute paths below this folder
    #[arg(long, value_name = "FOLDER")]
    pub prefix: Option<String>,

    /// Leave out so many folders at the beginning of their paths
    #[arg(
        long,
        value_name = "N",
        requires = "prefix",
        default_value_t = 0,
        hide_default_value = true
    )]
    pub prefix_strip: usize,

    /// As text (the default where stdout is no terminal)
    #[arg(long, overrides_with = "tui")]
    pub stdio: bool,

    /// On the terminal: keys are explained by `?` (the default where stdout is one)
    #[arg(long, overrides_with = "stdio", conflicts_with = "json")]
    pub tui: bool,

    /// One versioned JSON document
    #[arg(long)]
    pub json: bool,

    /// Keep samples of the recorder itself
    #[arg(long)]
    pub include_self: bool,

    /// Where names of functions come from
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

/// What a percentage is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum PercentType {
    /// Of the function, by what samples stand for
    LocalPeriod,
    /// Of the function, by how many samples there are
    LocalHits,
    /// Of all samples, by what they stand for
    GlobalPeriod,
    /// Of all samples, by how many there are
    GlobalHits,
}

impl PercentType {
    /// Of all samples, else of the function.
    #[must_use]
    pub const fn is_of_all(self) -> bool {
        matches!(self, Self::GlobalPeriod | Self::GlobalHits)
    }

    /// By how many samples there are, else by what they stand for.
    #[must_use]
    pub const fn is_by_samples(self) -> bool {
        matches!(self, Self::LocalHits | Self::GlobalHits)
    }
}

/// How instructions of x86 are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum DisassemblerStyle {
    /// As the GNU assembler has it
    Att,
    /// As in Intel's manuals
    Intel,
}
