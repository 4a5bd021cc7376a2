use clap::Arg;
use clap::builder::Resettable;

use super::definition::with_default;
use super::{JsonArgs, StoreArgs, SymbolSearch};

/// The folder that `tare agent` writes into by default.
const DEFAULT_STORE: &str = tare_agent::config::DEFAULT_STORE;

/// Arguments of `tare store`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "\
Examples:
  tare store status                       hosts, times, sizes, gaps and losses of /var/lib/tare
  tare store status --since 1d --where host=web-1
  tare store symbolize --store profiles   names for frames that had none, by build id
  tare store compact --store profiles     one file for each hour and day that has ended
  tare store verify --store profiles      read every file, and compare the tables",
    mut_arg("store", |arg| with_default(arg, DEFAULT_STORE)),
    mut_arg("since", alone),
    mut_arg("until", alone),
    mut_arg("conditions", alone),
)]
pub struct StoreCommandArgs {
    /// What to do
    #[arg(value_enum, value_name = "ACTION")]
    pub action: StoreAction,

    /// The store.
    #[command(flatten)]
    pub stored: StoreArgs,

    /// JSON.
    #[command(flatten)]
    pub json: JsonArgs,

    /// Sources of symbols.
    #[command(flatten)]
    pub symbol_search: SymbolSearch,
}

/// What `tare store` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum StoreAction {
    /// Show hosts, times, sizes, gaps and losses
    Status,
    /// Name frames that have no name, from files with the recorded build ids
    Symbolize,
    /// Merge the files of hours and days that have ended
    Compact,
    /// Read every file, and compare the tables
    Verify,
}

/// Removes the condition that `--store` is typed: this command has a default.
fn alone(arg: Arg) -> Arg {
    arg.requires(Resettable::Reset)
}
