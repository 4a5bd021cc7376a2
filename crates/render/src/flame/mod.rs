//! Flame graphs: a page that stands for itself, and a picture.
//!
//! ```text
//! samples --Collector--> rows by call chain, thread, slice of time --Graph--> one tree
//!                                                                      |-- page: tree and rows, drawn by its own script
//!                                                                      \-- svg: the tree as rectangles
//! ```

mod collect;
mod compared;
mod encode;
mod graph;
mod page;
mod svg;

pub use collect::Collector;
pub use compared::ComparedNode;
pub use graph::Graph;
pub use page::{PAGE_BYTES, page};
pub use svg::svg;

use crate::samples::RecordingSummary;

/// A recording whose samples were collected.
#[derive(Debug)]
pub struct FlameInput<'a> {
    /// What its samples are called.
    pub whole: RecordingSummary<'a>,
    /// What they weigh.
    pub samples: Collector,
}

/// How a flame graph is shown.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// Above the graph.
    pub title: String,
    /// The root is at the top.
    pub icicle: bool,
    /// The root is the innermost function: what is above it called it.
    pub callee: bool,
}

/// What stands beside a graph, in words: of one or two recordings.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct RecordingInfo {
    /// What the recording is called.
    pub name: String,
    /// The recorder's command line, the machine, the kernel.
    pub session: Vec<String>,
    /// What is missing.
    pub losses: Vec<String>,
    /// What recording cost.
    pub ledger: Vec<String>,
}

/// More recordings than this don't each say what they cost.
const MOST_LEDGERS: usize = 4;

impl RecordingInfo {
    /// Merges the accounts of several recordings; the recorded events are those of the first.
    #[must_use]
    pub fn joined(mut accounts: Vec<Self>) -> Self {
        if accounts.len() < 2 {
            return accounts.pop().unwrap_or_default();
        }
        let of_each = |lines: fn(&Self) -> &Vec<String>| {
            let named = |of: &Self| {
                let line = |line: &String| format!("{}: {line}", of.name);
                lines(of).iter().map(line).collect::<Vec<_>>()
            };
            accounts.iter().flat_map(named).collect()
        };
        let names = [accounts.first(), accounts.last()].map(|of| of.map(|of| of.name.clone()));
        let [first, last] = names.map(Option::unwrap_or_default);
        let is_few = accounts.len() <= MOST_LEDGERS;
        Self {
            name: format!("{} recordings, {first} to {last}", accounts.len()),
            session: accounts.first().map(|of| of.session.clone()).unwrap_or_default(),
            losses: of_each(|of| &of.losses),
            ledger: if is_few { of_each(|of| &of.ledger) } else { Vec::new() },
        }
    }

    /// The account of a recording.
    #[must_use]
    pub fn new(name: &str, whole: &RecordingSummary<'_>) -> Self {
        let session = whole.session;
        let machine = [&session.hostname, &session.os_release, &session.arch, &session.cpu];
        let machine: Vec<&str> = machine.into_iter().filter_map(|text| text.as_deref()).collect();
        let lines = [session.command(), machine.join(", ")];
        Self {
            name: tare_format::printable(name).into_owned(),
            session: lines.into_iter().filter(|line| !line.is_empty()).collect(),
            losses: whole.loss_lines(),
            ledger: whole.ledger_lines(),
        }
    }
}
