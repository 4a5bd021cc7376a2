//! `tare trace`: each system call as a line.

use std::cell::RefCell;
use std::io::Write;
use std::os::fd::AsFd;

use anyhow::Context;
use rustix::time::{ClockId, clock_gettime};
use tare_kernel::bpf::{CallRecord, Calls};
use tare_render::count;
use tare_trace::{LineOptions, Lines};

use super::live::Session;
use super::{explain, open};
use crate::Outcome;
use crate::exit::say;

/// So much text is written at once.
const CHUNK: usize = 1 << 16;

pub(super) fn run(mut session: Session<'_>, options: &LineOptions, ring_bytes: u32) -> Outcome {
    let trace = session.trace;
    let mut out = open(trace)?;
    let mut lines = Lines::new(options.clone());
    let calls = Calls::start(lines.plans(), &session.follow(), ring_bytes).map_err(explain)?;
    let file = calls.file().try_clone_to_owned().context("no file descriptor is left")?;
    let calls = RefCell::new(calls);
    let mut text = String::new();
    let over = session.wait(Some(file.as_fd()), |is_over| {
        let mut calls = calls.borrow_mut();
        if is_over {
            calls.stop();
        }
        let mut each = |record: CallRecord<'_>| {
            lines.add(&record, &mut text);
            if text.len() >= CHUNK {
                out.write_all(text.as_bytes())?;
                text.clear();
            }
            Ok::<_, std::io::Error>(())
        };
        // Once the programs are gone, what they wrote has an end.
        while calls.drain(&mut each)? > 0 && is_over {}
        if is_over {
            lines.finish(&mut text);
        } else {
            lines.idle(now_ns(), &mut text);
        }
        out.write_all(text.as_bytes())?;
        text.clear();
        out.flush().context("cannot write the trace")
    })?;
    let missing = calls.borrow().missing().map_err(explain)?;
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
