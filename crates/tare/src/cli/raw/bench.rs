//! Arguments of `tare bench`: those of hyperfine, and what a comparison needs besides.

use std::path::PathBuf;

use super::JsonArgs;

/// Arguments of `tare bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Commands run in rounds: each round runs every command once, in random order. The first command is
the reference, unless --reference names another. A command without shell syntax runs without a
shell.

Exit statuses: 1 if a command failed, 3 if a --fail-if condition is met, 125 if tare failed.

Examples:
  tare bench 'sleep 0.3'                                  one command
  tare bench './old input' './new input'                  is the new build slower?
  tare bench --warmup 3 'grep -R TODO .'                  with warm caches
  tare bench -P threads 1 8 'make -j {threads}'           a parameter in steps
  tare bench -L compiler gcc,clang '{compiler} -O2 main.cpp'
  tare bench --fail-if 'time>+2%' ./old ./new             a gate in CI
  tare bench --compare origin/main --build 'make' --fail-if 'time>+2%' './prog input'
  tare bench -r 20 --export-json runs.json ./old ./new    every run, as hyperfine writes it")]
pub struct BenchArgs {
    /// Commands to run, each one argument
    #[arg(value_name = "COMMAND", required = true)]
    pub commands: Vec<String>,

    /// Number of runs.
    #[command(flatten)]
    pub runs: BenchRunArgs,

    /// What surrounds runs.
    #[command(flatten)]
    pub hooks: BenchHookArgs,

    /// How commands run.
    #[command(flatten)]
    pub launch: BenchLaunchArgs,

    /// The comparison.
    #[command(flatten)]
    pub judged: BenchJudgeArgs,

    /// The text.
    #[command(flatten)]
    pub shown: BenchShownArgs,

    /// Files of results.
    #[command(flatten)]
    pub exports: BenchExportArgs,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,
}

/// Number of runs of `tare bench`, and parameters.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Runs")]
pub struct BenchRunArgs {
    /// Uncounted runs of each command before the first counted one
    #[arg(short, long, value_name = "NUM", default_value_t = 0)]
    pub warmup: usize,

    /// Fewest runs of each command [default: 10, or as many as a verdict needs]
    #[arg(short, long, value_name = "NUM")]
    pub min_runs: Option<usize>,

    /// Most runs of each command
    #[arg(short = 'M', long, value_name = "NUM")]
    pub max_runs: Option<usize>,

    /// Exactly this many runs of each command
    #[arg(short, long, value_name = "NUM", conflicts_with_all = ["min_runs", "max_runs"])]
    pub runs: Option<usize>,

    /// Start no round after this time, once every command has its fewest runs
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    pub max_time: f64,

    /// Run every command with each value from MIN to MAX in place of '{VAR}'
    #[arg(short = 'P', long, num_args = 3, value_names = ["VAR", "MIN", "MAX"], allow_hyphen_values = true, action = clap::ArgAction::Set)]
    pub parameter_scan: Vec<String>,

    /// Step between the values of --parameter-scan [default: 1]
    #[arg(short = 'D', long, value_name = "DELTA", requires = "parameter_scan")]
    pub parameter_step_size: Option<String>,

    /// Run every command with each of these values, separated by commas, in place of '{VAR}'; if
    /// repeated, with every combination
    #[arg(short = 'L', long, num_args = 2, value_names = ["VAR", "VALUES"], allow_hyphen_values = true, conflicts_with_all = ["parameter_scan", "parameter_step_size"])]
    pub parameter_list: Vec<String>,

    /// Seed for the order of runs [default: random]
    #[arg(long = "seed", value_name = "N")]
    pub order_seed: Option<u64>,
}

/// What surrounds runs of `tare bench`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Around runs")]
pub struct BenchHookArgs {
    /// Run this shell command before each block of runs of a command
    #[arg(short, long, value_name = "CMD")]
    pub setup: Option<String>,

    /// Run this shell command before each run; if repeated, one for each command
    #[arg(short, long, value_name = "CMD")]
    pub prepare: Vec<String>,

    /// Run this shell command after each run; if repeated, one for each command
    #[arg(short = 'C', long, value_name = "CMD")]
    pub conclude: Vec<String>,

    /// Run this shell command after each block of runs of a command
    #[arg(short, long, value_name = "CMD")]
    pub cleanup: Option<String>,
}

/// How commands of `tare bench` run.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Commands")]
pub struct BenchLaunchArgs {
    /// Run commands with this shell: a name, a path, a command line such as 'bash --norc',
    /// `default` (sh) or `none` [default: sh, for commands that have shell syntax]
    #[arg(short = 'S', long, value_name = "SHELL")]
    pub shell: Option<String>,

    /// Run commands without a shell, as --shell=none
    #[arg(short = 'N', conflicts_with = "shell")]
    pub no_shell: bool,

    /// Use runs that fail too: all, or those with these exit statuses, separated by commas
    #[arg(short, long, value_name = "STATUS,…", num_args = 0..=1, require_equals = true, default_missing_value = "all-non-zero")]
    pub ignore_failure: Option<String>,

    /// Standard input of every run: null, a file, or `-` for tare's own, which is read once
    #[arg(long, value_name = "WHERE", default_value = "null")]
    pub input: PathBuf,

    /// Output of the commands: null, pipe (through a pipe to nowhere), inherit, or a file for
    /// stdout; if repeated, one for each command [default: null]
    #[arg(long, value_name = "WHERE", conflicts_with = "show_output")]
    pub output: Vec<PathBuf>,

    /// Show the output of the commands, as --output=inherit
    #[arg(long)]
    pub show_output: bool,

    /// Name of a command in results; if repeated, one for each command
    #[arg(short = 'n', long, value_name = "NAME")]
    pub command_name: Vec<String>,
}

/// The comparison of `tare bench`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Comparison")]
pub struct BenchJudgeArgs {
    /// Run this command too, and compare the others with it
    #[arg(long, value_name = "CMD")]
    pub reference: Option<String>,

    /// Compare with the runs in this file, which --export-json or hyperfine wrote
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,

    /// Accept a baseline of another machine
    #[arg(long, requires = "baseline")]
    pub allow_other_host: bool,

    /// Build this git revision and HEAD, and compare the command in both
    #[arg(long, value_name = "REV", conflicts_with_all = ["reference", "parameter_scan", "parameter_list", "setup", "cleanup"])]
    pub compare: Option<String>,

    /// Shell command that builds a revision; repeatable
    #[arg(long = "build", value_name = "CMD", requires = "compare")]
    pub builds: Vec<String>,

    /// Name of the reference in results
    #[arg(long, value_name = "NAME", requires = "reference")]
    pub reference_name: Option<String>,

    /// Smallest relevant difference in percent; rounds continue until every time is known to half
    /// of it
    #[arg(long = "min-effect", value_name = "PERCENT", default_value = "1%")]
    pub relevant: String,

    /// Exit with status 3 if a command certainly exceeds this against the reference, such as
    /// 'time>+2%' or 'peak-memory>5%'
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub fail_if: Vec<String>,
}

/// Amount of colour and movement of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum OutputStyle {
    /// Colours and a progress bar on a terminal
    Auto,
    /// Neither
    Basic,
    /// Both, also without a terminal
    Full,
    /// A progress bar without colours
    Nocolor,
    /// Colours without a progress bar
    Color,
    /// No text
    None,
}

/// Form of the results on stdout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchFormat {
    /// For people
    Text,
    /// For a job's summary or a comment
    Markdown,
    /// JUnit's XML, for CI servers
    Junit,
    /// Annotations of GitHub Actions, and Markdown in the job's summary
    Github,
}

/// Order of commands in the summary, and in markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum SortMethod {
    /// The summary by time, markup in the order of the commands
    Auto,
    /// The order of the commands
    Command,
    /// By mean time
    MeanTime,
}

/// Unit of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum TimeUnitName {
    /// 10⁻⁶ s
    Microsecond,
    /// 10⁻³ s
    Millisecond,
    /// s
    Second,
}

/// The text of `tare bench`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Text")]
pub struct BenchShownArgs {
    /// Colours and progress
    #[arg(long, value_enum, value_name = "TYPE", default_value = "auto")]
    pub style: OutputStyle,

    /// Form of the results on stdout
    #[arg(
        long = "format",
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        conflicts_with = "json"
    )]
    pub form: BenchFormat,

    /// Order of the commands in the summary and in exported tables
    #[arg(long = "sort", value_enum, value_name = "METHOD", default_value = "auto")]
    pub sort_method: SortMethod,

    /// Unit of times in text and tables [default: by size]
    #[arg(short = 'u', long, value_enum, value_name = "UNIT")]
    pub time_unit: Option<TimeUnitName>,

    /// Plot the distribution of each command's times
    #[arg(long)]
    pub plot: bool,
}

/// Files of results of `tare bench`; `-` is stdout.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Exports")]
pub struct BenchExportArgs {
    /// Write statistics and all runs as JSON, in hyperfine's format with tare's additions
    #[arg(long, value_name = "FILE")]
    pub export_json: Option<PathBuf>,

    /// Write statistics as CSV, in hyperfine's columns
    #[arg(long, value_name = "FILE")]
    pub export_csv: Option<PathBuf>,

    /// Write a Markdown table
    #[arg(long, value_name = "FILE")]
    pub export_markdown: Option<PathBuf>,

    /// Write an AsciiDoc table
    #[arg(long, value_name = "FILE")]
    pub export_asciidoc: Option<PathBuf>,

    /// Write an SVG: every run as a dot over time
    #[arg(long, value_name = "FILE")]
    pub export_svg: Option<PathBuf>,

    /// Write an HTML page with that plot and the text
    #[arg(long, value_name = "FILE")]
    pub export_html: Option<PathBuf>,

    /// Write a table for Emacs' Org mode
    #[arg(long, value_name = "FILE")]
    pub export_orgmode: Option<PathBuf>,
}
