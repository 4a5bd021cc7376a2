//! The results of `tare stat`: lines with counts, spreads and derived figures, and the forms that
//! they are written in.
//!
//! `results` sums up runs, `line` is one line of them; `text` is the table for people, `csv` and
//! `json_lines` have the columns and keys of `perf stat`, `document` is a JSON document of tare's
//! own.

pub mod csv;
pub mod document;
pub mod json_lines;
mod line;
mod plain_json;
mod results;
mod spread;
pub mod text;

pub use line::{Line, Value};
pub use results::{Description, MissingEvents, Results, Run, ThreadNames, Times};

use std::time::Duration;

/// What of each line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Only the derived figures.
    pub metric_only: bool,
    /// Whether digits of large numbers are grouped; machine-readable forms never do.
    pub big_numbers: bool,
    /// The time of each run, in the table for people.
    pub each_run: bool,
    /// Whether there is a column for what was summed up: CPUs, cores, threads.
    pub keys: bool,
}

/// The time that lines are about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// The interval (`-I`) that ended this long after the start.
    Interval(Duration),
    /// Everything.
    Total,
    /// Everything, named so in CSV (`--summary`).
    Summary,
}

/// perf's text for a missing value.
const NOT_COUNTED: &str = "<not counted>";
const NOT_SUPPORTED: &str = "<not supported>";
