//! Flame graphs: a self-contained page, and an SVG picture.
//!
//! ```text
//! samples --Collector--> rows by call chain, thread, slice of time --Graph--> one tree
//!                                                                      |-- page: tree and rows, drawn by the page's script
//!                                                                      \-- svg: the tree as rectangles
//! ```

mod collect;
mod compared;
mod encode;
mod graph;
mod page;
mod renamed;
mod roots;
mod svg;
mod tree;

pub use collect::Collector;
pub use compared::ComparedNode;
pub use graph::Graph;
pub use page::{PAGE_BYTES, PAGE_STYLE, page};
pub use roots::FlameRoot;
pub use svg::svg;

use crate::samples::RecordingSummary;

/// A recording and its collected samples.
#[derive(Debug)]
pub struct FlameInput<'a> {
    /// Its tables, ledger and origin.
    pub whole: RecordingSummary<'a>,
    /// Its samples.
    pub samples: Collector,
}

/// Options of a flame graph's display.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// The title above the graph.
    pub title: String,
    /// The root is at the top.
    pub icicle: bool,
    /// The roots are the innermost functions, and callers are their children.
    pub callee: bool,
}

/// A side's origin, losses and cost in words, which are displayed with its graph.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub struct RecordingInfo {
    /// The recording's name.
    pub name: String,
    /// The recorder's command line, the machine, the kernel.
    pub session: Vec<String>,
    /// Its losses.
    pub losses: Vec<String>,
    /// Its ledger.
    pub ledger: Vec<String>,
}

/// Ledgers of joined recordings are shown only if there are at most this many recordings.
const MAX_LEDGERS: usize = 4;

impl RecordingInfo {
    /// Joins the accounts of several recordings; the origin is that of the first.
    #[must_use]
    pub fn joined(mut accounts: Vec<Self>) -> Self {
        if accounts.len() < 2 {
            return accounts.pop().unwrap_or_default();
        }
        let join = |lines: fn(&Self) -> &Vec<String>| {
            let name_lines = |account: &Self| {
                let line = |line: &String| format!("{}: {line}", account.name);
                lines(account).iter().map(line).collect::<Vec<_>>()
            };
            accounts.iter().flat_map(name_lines).collect()
        };
        let names = [accounts.first(), accounts.last()]
            .map(|account| account.map(|account| account.name.clone()));
        let [first, last] = names.map(Option::unwrap_or_default);
        let is_few = accounts.len() <= MAX_LEDGERS;
        Self {
            name: format!("{} recordings, {first} to {last}", accounts.len()),
            session: accounts.first().map(|account| account.session.clone()).unwrap_or_default(),
            losses: join(|account| &account.losses),
            ledger: if is_few { join(|account| &account.ledger) } else { Vec::new() },
        }
    }

    /// Describes a recording.
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
