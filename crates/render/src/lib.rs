//! A profile as text for people and as data for programs.
//!
//! Everything here reads a profile and writes to a [`std::io::Write`]. Names come from recordings,
//! and are made safe before they are written: see [`tare_format::printable`].
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

/// What of a profile is shown, and how.
#[derive(Clone, Debug, Default)]
pub struct TableView {
    /// The columns, from left to right.
    pub columns: Vec<Column>,
    /// What rows are ordered by, the most important first.
    pub order: Vec<Column>,
    /// Also rows for what only calls others.
    pub children: bool,
    /// Call graphs below the rows.
    pub graph: Option<Graph>,
    /// Rows below this percentage are hidden.
    pub percent_limit: f64,
    /// Maximum number of rows; `None`: all.
    pub most_rows: Option<usize>,
    /// Which threads, files and functions are shown.
    pub filter: Filter,
    /// Shares are of what the filter shows, instead of all samples.
    pub is_relative: bool,
    /// How text is laid out.
    pub layout: Layout,
}

impl TableView {
    /// What of samples the columns tell apart.
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
