//! `tare trace`: each system call as a line.

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::AsFd;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use tare_render::count;
use tare_trace::{LineOptions, Lines, PerfOptions, Tracer};

use super::live::Session;
use super::{explain, open};
use crate::Outcome;
use crate::exit::say;

/// So much text is written at once.
const CHUNK: usize = 1 << 16;

pub(super) fn run(
    mut session: Session<'_>,
    options: &LineOptions,
    wanted: &PerfOptions,
    ring_bytes: u32,
) -> Outcome {
    let trace = session.trace;
    let mut out = open(trace)?;
    let mut lines = Lines::new(options.clone());
    let follow = session.follow();
    let (tracer, step_back) =
        Tracer::start(lines.plans(), wanted, &follow, ring_bytes, &session.host)
            .map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
        lines.show_pointers();
    }
    let files = tracer.files().map(|file| file.try_clone_to_owned());
    let files = files.collect::<Result<Vec<_>, _>>().context("no file descriptor is left")?;
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    let tracer = RefCell::new(tracer);
    let mut text = String::new();
    let over = session.wait(&files, |is_over| {
        tracer.borrow_mut().drain(is_over, |seen| {
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
            lines.idle(now_ns(), &mut text);
        }
        out.write_all(text.as_bytes())?;
        text.clear();
        out.flush().context("cannot write the trace")
    })?;
    let missing = tracer.borrow().missing().map_err(explain)?;
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
    Ok(over.exit(trace))
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
