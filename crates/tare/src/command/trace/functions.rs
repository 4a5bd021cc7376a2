//! `tare trace --probe`, `--kprobe` and `--usdt`: calls of functions, how long they took, and what
//! the slowest came from.

use std::io::{self, Write};

use anyhow::Context;
use serde_json::json;
use tare_events::probes::plans;
use tare_trace::{FunctionCall, FunctionRow, FunctionTracer, FunctionsSeen};

use super::live::{Session, TraceEnd, clones};
use super::{explain, open};
use crate::Outcome;
use crate::cli::resolved::trace::{FunctionProbes, Trace};

/// The version of the JSON document: it changes when a field changes its meaning or goes.
const VERSION: u32 = 1;

pub(super) fn run(trace: &Trace, mut session: Session<'_>, functions: &FunctionProbes) -> Outcome {
    let mut out = open(trace.output.as_deref(), trace.json)?;
    let (places, owners) = plans(&functions.probes, functions.each, functions.min_duration_ns);
    let follow = session.follow();
    let options = &functions.options;
    let mut tracer =
        FunctionTracer::start(&places, options, &follow, &session.host).map_err(explain)?;
    let files = clones(tracer.files())?;
    let probes = functions.probes.iter();
    let mut rows: Vec<_> =
        probes.map(|probe| FunctionRow::new(&probe.name, probe.returns)).collect();
    let mut first_ns = None;
    let over = session.wait(&files, |is_over| {
        tracer.drain(is_over, |call, frames| {
            let Some(&(probe, place)) = owners.get(call.place) else { return Ok(()) };
            let arguments = functions.probes[probe].places[place].show(call);
            let shown = FunctionCall::new(call, frames, arguments);
            if call.stack.is_some() {
                rows[probe].keep(shown, options.slowest as usize);
                return Ok(());
            }
            if trace.json {
                return writeln!(out, "{}", shown.json_of(&rows[probe]));
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
        document(&mut out, functions.each, trace, &over, &seen)
    } else {
        out.write_all(seen.table(functions.histograms).as_bytes())
    };
    written.and_then(|()| out.flush()).context("cannot write the trace")?;
    Ok(over.exit(&trace.traced))
}

fn document(
    out: &mut impl Write,
    each: bool,
    trace: &Trace,
    over: &TraceEnd,
    seen: &FunctionsSeen,
) -> io::Result<()> {
    let words: Vec<_> = trace.traced.command.iter().map(|word| word.to_string_lossy()).collect();
    let mut document = seen.json();
    document["version"] = json!(VERSION);
    document["command"] = json!(words);
    document["elapsed_ns"] = json!(u64::try_from(over.elapsed.as_nanos()).unwrap_or(u64::MAX));
    if each {
        document["type"] = json!("summary");
        serde_json::to_writer(&mut *out, &document)?;
    } else {
        serde_json::to_writer_pretty(&mut *out, &document)?;
    }
    writeln!(out)
}
