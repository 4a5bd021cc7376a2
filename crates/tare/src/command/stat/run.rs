//! What one run leaves behind.

use std::collections::BTreeMap;
use std::time::Duration;

use tare_kernel::child::Ended;
use tare_measure::count::{Row, Subject};

/// What threads are called, by their id.
pub(super) type Names = BTreeMap<i32, String>;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The command or the targets ended, or the time was up.
    Done,
    /// The user ended it with this signal.
    Signal(i32),
}

/// What a run counted.
#[derive(Debug)]
pub(super) struct Run {
    /// The sums.
    pub(super) rows: Vec<Row>,
    /// What they count.
    pub(super) subjects: Vec<Subject>,
    /// What the threads are called that have rows of their own.
    pub(super) names: Names,
    /// Which set of `--exact` it was.
    pub(super) turn: usize,
    /// How the command ended and what it used.
    pub(super) ended: Option<Ended>,
    /// From the start to the end.
    pub(super) elapsed: Duration,
    /// For how long events were enabled.
    pub(super) counted: Duration,
    /// How it ended.
    pub(super) end: End,
}

/// Called after each interval with what was counted in it, and since when.
pub(super) type OnInterval<'a> = &'a mut dyn FnMut(&Run, Duration) -> anyhow::Result<()>;
