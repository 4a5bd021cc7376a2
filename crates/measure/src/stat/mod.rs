//! The results of `tare stat`: lines with counts, spreads and derived figures, and their output
//! formats.
//!
//! `results` merges runs into lines, `runs` keeps how each run ended. `text` writes the table, `csv` and `json_lines` the columns
//! and keys of `perf stat`, `document` a JSON document in tare's own format.

pub mod csv;
pub mod document;
pub mod json_lines;
mod line;
mod plain_json;
mod results;
mod runs;
mod spread;
pub mod text;

pub use line::{StatLine, Value};
pub use results::{CountedRun, Description, MissingEvents, Results, ThreadNames};
pub use runs::{InterruptedRun, RunEnd, Runs, Times};

use std::collections::HashMap;
use std::time::Duration;

/// Which parts of the results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Columns {
    /// Writes only the derived figures.
    pub metric_only: bool,
    /// Groups the digits of large numbers in the table.
    pub big_numbers: bool,
    /// Writes the time of each of several runs below the table.
    pub each_run: bool,
    /// Writes columns for the key, like the CPU, core or thread.
    pub keys: bool,
}

/// The time that lines cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    /// An interval (`-I`), by its end after the start.
    Interval(Duration),
    /// The whole measurement.
    Total,
    /// The whole measurement, marked in CSV (`--summary`).
    Summary,
}

/// perf's text for an event that was never on a counter.
const NOT_COUNTED: &str = "<not counted>";
/// perf's text for an event that could not be opened.
const NOT_SUPPORTED: &str = "<not supported>";

/// Returns the lines of each key, in the order in which the keys first occur. No group is empty.
fn group_by_key(lines: &[StatLine]) -> Vec<Vec<&StatLine>> {
    let mut groups: Vec<Vec<&StatLine>> = Vec::new();
    let mut places = HashMap::new();
    for line in lines {
        let place = *places.entry(line.key).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(line);
    }
    groups
}
