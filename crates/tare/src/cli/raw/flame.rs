use std::path::PathBuf;

use super::samples::SampleArgs;

const EXAMPLES: &str = "\
Examples:
  tare flame                                  a self-contained HTML page of perf.data: flame.html
  tare flame new.data --vs old.data -o diff.html
  tare flame --comm nginx --time 10%-20% -o out.html
  tare flame -o out.svg                       an SVG without scripts
  tare record -g --flame out.html -- ./prog   record and draw in one step

tare-flame(1) describes the page and its keys.";

/// Arguments of `tare flame`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct FlameArgs {
    /// Write to FILE: HTML, or SVG if it ends in .svg (-: standard output) [default: flame.html]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,

    /// Format, regardless of the file's name
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FlameFormat>,

    /// Compare with this recording: red frames have a larger share than there
    #[arg(long, value_name = "FILE")]
    pub vs: Option<PathBuf>,

    /// Root of the graph: the outermost caller, or the sampled function (callee)
    #[arg(short = 'g', long, value_name = "ORDER", default_value = "caller")]
    pub call_graph: FlameOrder,

    /// What is next to the root: thread names, processes with their threads merged, or processes
    /// with their threads below
    #[arg(long, value_name = "ROOT", default_value = "comm")]
    pub root: FlameRoot,

    /// Draw the root at the top
    #[arg(long)]
    pub icicle: bool,

    /// Title of the graph [default: the recording and its command]
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// The drawn samples.
    #[command(flatten)]
    pub samples: SampleArgs,
}

/// A format of flame graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlameFormat {
    /// Interactive page
    Html,
    /// Static picture
    Svg,
}

/// What is next to the root of the graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlameRoot {
    /// Thread names
    Comm,
    /// Processes, their threads merged
    Process,
    /// Processes, and their threads below
    Thread,
}

/// The end of call chains at the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum FlameOrder {
    /// The outermost caller
    Caller,
    /// The innermost function
    Callee,
}
