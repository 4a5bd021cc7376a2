//! `tare trace -s`: a table of system calls.

use std::io::{self, Write};

use anyhow::Context;
use serde_json::json;
use tare_kernel::bpf::SumKey;
use tare_trace::{CallSelection, SumTracer, Summary, subjects};

use super::live::{Session, TraceEnd, clones};
use super::{explain, open};
use crate::Outcome;
use crate::cli::resolved::trace::{RING_BYTES, Trace};
use crate::exit::say;

/// The version of the JSON document: it changes when a field changes its meaning or goes.
const VERSION: u32 = 1;

/// What is shown.
pub(super) struct TraceView<'a> {
    pub(super) calls: &'a CallSelection,
    pub(super) by: SumKey,
    pub(super) histograms: bool,
}

pub(super) fn run(trace: &Trace, mut session: Session<'_>, view: &TraceView<'_>) -> Outcome {
    let mut out = open(trace.output.as_deref(), trace.json)?;
    let follow = session.follow();
    let (mut tracer, step_back) =
        SumTracer::start(view.by, &follow, RING_BYTES, &session.host).map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
    }
    let files = clones(tracer.files())?;
    let over = session.wait(&files, |is_over| {
        tracer.drain(is_over);
        Ok(())
    })?;
    let sums = tracer.read().map_err(explain)?;
    let subject = subjects(view.by, &session.host, &sums);
    let summary = Summary::new(&sums, view.calls, subject);
    let written = if trace.json {
        document(&mut out, trace, &over, &summary)
    } else {
        out.write_all(summary.text(view.histograms).as_bytes())
    };
    written.and_then(|()| out.flush()).context("cannot write the summary")?;
    Ok(over.exit(&trace.traced))
}

fn document(
    out: &mut impl Write,
    trace: &Trace,
    over: &TraceEnd,
    summary: &Summary,
) -> io::Result<()> {
    let words: Vec<_> = trace.traced.command.iter().map(|word| word.to_string_lossy()).collect();
    let document = json!({
        "version": VERSION,
        "command": words,
        "elapsed_ns": u64::try_from(over.elapsed.as_nanos()).unwrap_or(u64::MAX),
        "calls": summary.json(),
        "missing_calls": summary.missing_calls,
        "missing_errors": summary.missing_errors,
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    writeln!(out)
}
