//! A profile as text for people and as data for programs.
//!
//! Everything here reads a profile and writes to a [`std::io::Write`]. Names come from recordings
//! and are escaped before they are written for a terminal: see [`tare_format::printable`].
#![forbid(unsafe_code)]

mod blocks;
mod chains;
mod column;
mod counts;
pub mod diff;
pub mod export;
pub mod flame;
mod graph;
mod group;
mod header;
mod hierarchy;
mod json;
mod layout;
mod ledger;
mod live;
mod losses;
mod plural;
mod rows;
mod samples;
pub mod script;
mod table;
mod text;
mod tree;
mod unwinding;

pub use blocks::blocks;
pub use column::{
    COLUMNS, Column, ColumnGroup, ColumnInfo, column_help, comparable_key, function_name, inlined,
    percent,
};
pub use counts::{counted, counts};
pub use graph::{Amount, Graph, Style};
pub use header::header;
pub use json::{json, json_header, json_line, live_json};
pub use layout::{EventGroup, Layout};
pub use ledger::{ledger_lines, ledger_summary};
pub use live::{LiveFigures, live_line};
pub use losses::loss_lines;
pub use plural::{agreeing, count, grouped, plural};
pub use rows::rows;
pub use samples::{
    CpuSwitch, FrameKind, FrameText, LocatedSample, RecordingOrigin, RecordingSummary, SampleSink,
    Unit,
};
pub use text::text;
pub use unwinding::CopiedStacks;

use tare_profile::{Filter, RowKeys, SortKey};

/// Which parts of a profile a table shows, and how.
#[derive(Clone, Debug, Default)]
pub struct TableView {
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// The columns that rows are sorted by, the most important first.
    pub order: Vec<Column>,
    /// Also rows for functions that have only callees' samples.
    pub children: bool,
    /// Call graphs below the rows.
    pub graph: Option<Graph>,
    /// Rows below this percentage are hidden.
    pub percent_limit: f64,
    /// Maximum number of rows; `None`: all.
    pub most_rows: Option<usize>,
    /// Which threads, files and functions are shown, and whether only samples with a parent.
    pub filter: Filter,
    /// Shares are of the samples that pass the filter, instead of all samples.
    pub is_relative: bool,
    /// The layout of text.
    pub layout: Layout,
}

impl TableView {
    /// Returns the properties of samples that the columns or the sort order distinguish.
    #[must_use]
    pub fn row_keys(&self) -> RowKeys {
        let has = |keys: &[SortKey]| {
            let is_key = |column: &Column| matches!(column, Column::Key(key) if keys.contains(key));
            self.columns.iter().chain(&self.order).any(is_key)
        };
        RowKeys {
            thread: has(&[SortKey::Tid, SortKey::Tgid]),
            comm: has(&[SortKey::Comm]),
            cpu: has(&[SortKey::Cpu]),
        }
    }
}

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
