//! `tare trace --probe`, `--kprobe` and `--usdt`: calls of functions, their durations, and the
//! callers of the slowest.

use std::io::{self, Write};

use anyhow::Context;
use serde_json::{Value, json};
use tare_events::probes::plan_probes;
use tare_trace::{FunctionCall, FunctionRow, FunctionTracer, FunctionsSeen};

use super::live::{TraceSession, clones};
use super::{command_words, explain, open, open_table};
use crate::Outcome;
use crate::cli::resolved::trace::{FunctionProbes, Trace};

/// Version of the JSON document: raised when a field changes its meaning or is removed.
const VERSION: u32 = 1;

pub(super) fn run(
    trace: &Trace,
    mut session: TraceSession<'_>,
    functions: &FunctionProbes,
) -> Outcome {
    // The lines of --each go to stderr, as those of system calls.
    let mut out = match functions.each {
        true => open(trace.output.as_deref(), trace.json)?,
        false => open_table(trace)?,
    };
    let (places, owners) =
        plan_probes(&functions.probes, functions.each, functions.min_duration_ns);
    let follow = session.follow();
    let options = &functions.options;
    let mut tracer =
        FunctionTracer::start(&places, options, &follow, &session.host).map_err(explain)?;
    let files = clones(tracer.files())?;
    let probes = functions.probes.iter();
    let mut rows: Vec<_> =
        probes.map(|probe| FunctionRow::new(&probe.name, probe.returns)).collect();
    let mut first_ns = None;
    let ended = session.wait(&files, |is_end| {
        tracer.drain(is_end, |call, frames| {
            let Some(&(probe, place)) = owners.get(call.place) else { return Ok(()) };
            let arguments = functions.probes[probe].places[place].show(call);
            let shown = FunctionCall::new(call, frames, arguments);
            if call.stack.is_some() {
                rows[probe].keep(shown, options.slowest as usize);
                return Ok(());
            }
            if trace.json {
                return writeln!(out, "{}", shown.json_with_probe(&rows[probe]));
            }
            let since_ns = *first_ns.get_or_insert(shown.time_ns);
            out.write_all(shown.line(&rows[probe], since_ns).as_bytes())
        })?;
        out.flush().context("cannot write the trace")
    })?;
    for (sums, (probe, _)) in tracer.read().map_err(explain)?.iter().zip(&owners) {
        rows[*probe].sums.merge(sums);
    }
    let missing = (tracer.missing().map_err(explain)?, options.ring_bytes);
    let seen = FunctionsSeen { rows, missing, cost: tracer.cost() };
    let written = if trace.json {
        let mut document = seen.json();
        document["version"] = json!(VERSION);
        document["command"] = json!(command_words(&trace.traced));
        document["elapsed_ns"] = json!(ended.elapsed_ns());
        write_document(&mut out, document, functions.each)
    } else {
        out.write_all(seen.table(functions.histograms).as_bytes())
    };
    written.and_then(|()| out.flush()).context("cannot write the trace")?;
    Ok(ended.exit())
}

/// Writes the document; with `--each`, as the last line of JSON lines.
fn write_document(out: &mut impl Write, mut document: Value, each: bool) -> io::Result<()> {
    if each {
        document["type"] = json!("summary");
        tare_format::json::to_writer(&mut *out, &document)?;
    } else {
        tare_format::json::to_writer_pretty(&mut *out, &document)?;
    }
    writeln!(out)
}
