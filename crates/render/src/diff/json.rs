//! `--json`: one document with a version.

use std::io::{self, Write};

use serde::Serialize;

use super::{ComparedRecording, Diff, DiffFigure, DiffRow, DiffVerdict, DiffView, EventDiff, Gate};
use crate::samples::Unit;

/// Raised when a field is removed or changes its meaning, not for new fields.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct DiffDocument<'a> {
    version: u32,
    tool: &'static str,
    a: &'a [ComparedRecording],
    b: &'a [ComparedRecording],
    per: &'a str,
    method: &'a str,
    familywise_error: f64,
    notes: &'a [String],
    events: Vec<DiffEvent<'a>>,
    fail_if: &'a [Gate],
}

#[derive(Serialize)]
struct DiffEvent<'a> {
    event: &'a str,
    unit: Unit,
    all: DiffFigure,
    rows: Vec<DiffRowObject<'a>>,
}

#[derive(Serialize)]
struct DiffRowObject<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dso: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    symbol: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    space: Option<char>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stack: Option<&'a [String]>,
    samples: [u64; 2],
    change: DiffVerdict,
    /// 0 to 1.
    share: DiffFigure,
    /// Per unit of work.
    weight: DiffFigure,
}

impl<'a> DiffRowObject<'a> {
    fn new(row: &'a DiffRow) -> Self {
        Self {
            comm: row.comm.as_deref(),
            dso: row.dso.as_deref(),
            symbol: row.symbol.as_deref(),
            space: row.space,
            stack: row.stack.as_deref(),
            samples: row.samples,
            change: row.verdict(),
            share: row.share,
            weight: row.weight,
        }
    }
}

fn event_object<'a>(event: &'a EventDiff, view: &DiffView) -> DiffEvent<'a> {
    let rows = view.rows(event).0.into_iter().map(DiffRowObject::new).collect();
    DiffEvent { event: &event.name, unit: event.unit, all: event.all, rows }
}

/// Writes a comparison as one document.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn diff_json(out: &mut dyn Write, diff: &Diff, view: &DiffView) -> io::Result<()> {
    let event = |event| event_object(event, view);
    let [a, b] = &diff.recordings;
    let document = DiffDocument {
        version: VERSION,
        tool: "tare",
        a,
        b,
        per: &diff.per,
        method: &diff.method,
        familywise_error: diff.level,
        notes: &diff.notes,
        events: diff.events.iter().map(event).collect(),
        fail_if: &diff.gates,
    };
    tare_format::json::to_writer(&mut *out, &document)?;
    writeln!(out)
}
