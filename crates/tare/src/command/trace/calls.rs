//! `tare trace`: each system call as a line.

use std::io::Write;

use anyhow::Context;
use tare_kernel::timestamp::monotonic_ns;
use tare_render::count;
use tare_trace::{LineOptions, Lines, PerfOptions, Tracer};

use super::live::{TraceSession, clones};
use super::{explain, open};
use crate::Outcome;
use crate::cli::resolved::trace::Trace;
use crate::exit::say;

/// Bytes of text after which it is written.
const CHUNK: usize = 1 << 16;

pub(super) fn run(
    trace: &Trace,
    mut session: TraceSession<'_>,
    options: &LineOptions,
    wanted: &PerfOptions,
    ring_bytes: u32,
) -> Outcome {
    let mut out = open(trace.output.as_deref(), trace.json)?;
    let mut lines = Lines::new(options.clone());
    let follow = session.follow();
    let (mut tracer, step_back) =
        Tracer::start(lines.plans(), wanted, &follow, ring_bytes, &session.host)
            .map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
        lines.show_pointers();
    }
    let files = clones(tracer.files())?;
    let mut text = String::new();
    let ended = session.wait(&files, |is_end| {
        tracer.drain(is_end, |seen| {
            lines.add(&seen, &mut text);
            if text.len() >= CHUNK {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
            Ok::<_, std::io::Error>(())
        })?;
        if is_end {
            lines.finish(&mut text);
        } else {
            lines.print_waiting_call(monotonic_ns(), &mut text);
        }
        out.write_all(text.as_bytes())?;
        text.clear();
        out.flush().context("cannot write the trace")
    })?;
    let missing = tracer.missing().map_err(explain)?;
    if missing > 0 {
        say(&format!(
            "{} did not fit into the ring buffer and are missing; --ring-size {}M makes it larger",
            count(missing, "record"),
            (ring_bytes >> 20).max(1) * 4
        ));
    }
    if lines.unreadable() > 0 {
        say(&format!(
            "{} could not be read from the program's memory; their addresses are shown instead",
            count(lines.unreadable(), "argument")
        ));
    }
    Ok(ended.exit())
}
