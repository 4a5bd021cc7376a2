use std::path::PathBuf;

use super::samples::SampleArgs;

const EXAMPLES: &str = "\
Examples:
  tare flame -o out.html                      a page of perf.data that stands for itself
  tare flame new.data --vs old.data -o diff.html
  tare flame --comm nginx --time 10%-20% -o out.html
  tare flame -o out.svg                       a picture, for where no script runs
  tare record -g --flame out.html -- ./prog   record and draw in one step

docs/flame.md says what the page shows and which keys it has.";

/// Arguments of `tare flame`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FlameArgs {
    /// Write this file: a page, or a picture where it ends in .svg (-: standard output)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// A page or a picture, whatever the file is called
    #[arg(long, value_name = "FORM")]
    pub format: Option<FlameFormat>,

    /// Compare with this recording: what is redder has a larger share than there
    #[arg(long, value_name = "FILE")]
    pub vs: Option<PathBuf>,

    /// Which end of call chains is the root: caller, or callee for who called what was sampled
    #[arg(short = 'g', long, value_name = "ORDER", default_value = "caller")]
    pub call_graph: FlameOrder,

    /// The root at the top
    #[arg(long)]
    pub icicle: bool,

    /// What stands above the graph [default: the recording and its command]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// Which samples.
    #[command(flatten)]
    pub samples: SampleArgs,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlameFormat {
    /// A page with a script
    Html,
    /// A picture
    Svg,
}

/// Which end of call chains is the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlameOrder {
    /// The outermost caller
    Caller,
    /// The innermost function
    Callee,
}
