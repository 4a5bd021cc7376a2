//! `tare trace`: each system call as a line.

use std::io::Write;

use anyhow::Context;
use tare_kernel::timestamp::monotonic_ns;
use tare_render::count;
use tare_trace::{LineOptions, Lines, PerfOptions, Tracer};

use super::live::{Session, clones};
use super::{explain, open};
use crate::Outcome;
use crate::cli::resolved::trace::Trace;
use crate::exit::say;

/// So much text is written at once.
const CHUNK: usize = 1 << 16;

pub(super) fn run(
    trace: &Trace,
    mut session: Session<'_>,
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
    let over = session.wait(&files, |is_over| {
        tracer.drain(is_over, |seen| {
            lines.add(&seen, &mut text);
            if text.len() >= CHUNK {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
            Ok::<_, std::io::Error>(())
        })?;
        if is_over {
            lines.finish(&mut text);
        } else {
            lines.idle(monotonic_ns(), &mut text);
        }
        out.write_all(text.as_bytes())?;
        text.clear();
        out.flush().context("cannot write the trace")
    })?;
    let missing = tracer.missing().map_err(explain)?;
    if missing > 0 {
        say(&format!(
            "{} found no room and are missing, where the lines say so: --ring-size {}M gives more",
            count(missing, "record"),
            (ring_bytes >> 20).max(1) * 4
        ));
    }
    if lines.unreadable() > 0 {
        say(&format!(
            "{} pointed to memory that could not be read",
            count(lines.unreadable(), "argument")
        ));
    }
    Ok(over.exit(&trace.traced))
}
