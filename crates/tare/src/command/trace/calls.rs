//! `tare trace`: each system call as a line.

use std::io::Write;

use anyhow::Context;
use tare_kernel::bpf::SumKey;
use tare_kernel::timestamp::monotonic_ns;
use tare_render::count;
use tare_trace::{CallAdder, Lines, Subject, Summary, TraceFallback, Tracer};

use super::live::{TraceSession, clones};
use super::{explain, open};
use crate::Outcome;
use crate::cli::resolved::trace::{CallLines, Trace};
use crate::exit::say;

/// Bytes of text after which it is written.
const CHUNK: usize = 1 << 16;

pub(super) fn run(trace: &Trace, mut session: TraceSession<'_>, wanted: &CallLines) -> Outcome {
    let ring_bytes = wanted.ring_bytes;
    let mut left = wanted.max_lines;
    let mut out = open(trace.output.as_deref(), trace.json)?;
    let mut lines = Lines::new(wanted.lines.clone());
    let mut adder = wanted.totals.then(|| CallAdder::new(SumKey::Call));
    let follow = session.follow();
    let (mut tracer, step_back) =
        Tracer::start(lines.plans(), &wanted.wanted, &follow, ring_bytes, &session.host)
            .map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
        match step_back {
            TraceFallback::Perf(_) => lines.show_pointers(),
            TraceFallback::Ptrace(_) => session.expect_ptrace(),
        }
    }
    let files = clones(tracer.files())?;
    let mut text = String::new();
    let ended = session.wait_while(&files, |is_end| {
        tracer.drain(is_end, |seen| {
            lines.add(&seen, &mut text);
            adder.iter_mut().for_each(|adder| adder.add(&seen));
            if text.len() >= CHUNK {
                write_lines(&mut out, &mut text, &mut left)?;
            }
            Ok::<_, std::io::Error>(())
        })?;
        if is_end {
            lines.finish(&mut text);
        } else {
            lines.print_waiting_call(monotonic_ns(), &mut text);
        }
        write_lines(&mut out, &mut text, &mut left)?;
        out.flush().context("cannot write the trace")?;
        Ok(left != Some(0))
    })?;
    if let Some(mut adder) = adder {
        let sums = adder.take_sums();
        let summary = Summary::new(&sums, &wanted.lines.calls, |_| Subject::All);
        let written = out.write_all(summary.text(false).as_bytes()).and_then(|()| out.flush());
        written.context("cannot write the trace")?;
    }
    let missing = tracer.missing().map_err(explain)?;
    if missing > 0 {
        say(&format!(
            "{} found no room in the ring buffer; --ring-size {}M makes it larger",
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

/// Writes the text and empties it. `left` is the number of lines that may still be written.
pub(super) fn write_lines(
    out: &mut dyn Write,
    text: &mut String,
    left: &mut Option<u64>,
) -> std::io::Result<()> {
    match left {
        None => out.write_all(text.as_bytes())?,
        Some(left) => {
            for line in text.split_inclusive('\n') {
                if *left == 0 {
                    break;
                }
                out.write_all(line.as_bytes())?;
                *left -= 1;
            }
        }
    }
    text.clear();
    Ok(())
}
