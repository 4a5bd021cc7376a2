//! `tare trace -s`: a table of system calls.

use std::io::{self, Write};

use anyhow::Context;
use serde_json::json;
use tare_kernel::bpf::SumKey;
use tare_trace::{CallSelection, SumTracer, Summary, TraceFallback, subjects};

use super::live::{EndedTrace, TraceSession, clones};
use super::{command_words, explain, open_table};
use crate::Outcome;
use crate::cli::resolved::trace::{RING_BYTES, Trace};
use crate::exit::say;

/// Version of the JSON document: raised when a field changes its meaning or is removed.
const VERSION: u32 = 1;

/// Which calls are summed up, and how the sums are grouped and printed.
pub(super) struct SummaryView<'a> {
    pub(super) calls: &'a CallSelection,
    pub(super) by: SumKey,
    pub(super) histograms: bool,
}

pub(super) fn run(trace: &Trace, mut session: TraceSession<'_>, view: &SummaryView<'_>) -> Outcome {
    let mut out = open_table(trace)?;
    let follow = session.follow();
    let (mut tracer, step_back) =
        SumTracer::start(view.by, &follow, RING_BYTES, &session.host).map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
        if let TraceFallback::Ptrace(_) = step_back {
            session.expect_ptrace();
        }
    }
    let files = clones(tracer.files())?;
    let ended = session.wait(&files, |is_end| tracer.drain(is_end).map_err(explain))?;
    let sums = tracer.read().map_err(explain)?;
    let subject = subjects(view.by, &session.host, &sums);
    let summary = Summary::new(&sums, view.calls, subject);
    let written = if trace.json {
        document(&mut out, trace, &ended, &summary)
    } else {
        out.write_all(summary.text(view.histograms).as_bytes())
    };
    written.and_then(|()| out.flush()).context("cannot write the summary")?;
    Ok(ended.exit())
}

fn document(
    out: &mut impl Write,
    trace: &Trace,
    ended: &EndedTrace,
    summary: &Summary,
) -> io::Result<()> {
    let document = json!({
        "version": VERSION,
        "command": command_words(&trace.traced),
        "elapsed_ns": ended.elapsed_ns(),
        "calls": summary.json(),
        "begun_before": summary.begun_before,
        "in_progress": summary.in_progress_json(),
        "missing_calls": summary.missing_calls,
        "missing_errors": summary.missing_errors,
    });
    tare_format::json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
