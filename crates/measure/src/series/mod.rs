//! `tare bench`: a series of runs of any number of commands, compared with the first of them.
//!
//! ```text
//! SeriesPlan ──> schedule::make ──> [CommandRuns] ──> SeriesReport ──> text, document
//!                      │                                   │          ──> hyperfine (exports), ci, plot
//!                      └── calls Launcher for each run     └── judged by compare::judge_values
//! ```
//!
//! A round runs every command once, in random order. With `--setup` or `--cleanup` it runs a block
//! of each command, and the block's median counts as its run.
//!
//! Nothing here starts a process or reads a clock; [`schedule::Launcher`] does.

mod baseline;
pub mod ci;
pub mod document;
pub mod hyperfine;
pub mod plot;
mod report;
mod runs;
pub mod schedule;
pub mod text;

pub use baseline::Baseline;
pub use report::{
    CommandInfo, Comparison, Failure, SeriesNotes, SeriesReport, ShellTime, Spread, TimeShape,
};
pub use runs::{CommandRuns, RunFigures, series_metrics};
