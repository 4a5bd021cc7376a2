//! `tare lock`: waits for locks, live or in a recording.

mod recorded;

use std::io::Write;

use anyhow::Context;
use tare_kernel::host::Host;
use tare_render::count;
use tare_trace::lock::{LockRow, LockTracer, UnfinishedWaits, lock_document, lock_table};

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::lock::{Lock, LockSource};
use crate::cli::resolved::trace::TraceTarget;
use crate::command::trace::live::{TraceSession, clones};
use crate::command::trace::{explain, open};
use crate::exit::say;

pub(crate) fn run(raw: raw::LockArgs) -> Outcome {
    let lock = Lock::new(raw)?;
    match &lock.source {
        LockSource::Recording(input) => recorded::run(&lock, input),
        LockSource::Live(traced) => trace_live(&lock, traced)
            .map_err(|error| super::remedy::with_status(error, !traced.command.is_empty())),
    }
}

fn trace_live(lock: &Lock, traced: &TraceTarget) -> Outcome {
    let mut session = TraceSession::new(traced, Host::default())?;
    let mut out = open(lock.output.as_deref(), true)?;
    let (mut tracer, step_back) =
        LockTracer::start(&session.follow(), &lock.options, &session.host).map_err(explain)?;
    if let Some(step_back) = step_back {
        say(&step_back.to_string());
    }
    let files = clones(tracer.files())?;
    let ended = session.wait(&files, |is_end| tracer.drain(is_end).map_err(explain))?;
    let rows = tracer.rows(lock.key, &session.host).map_err(explain)?;
    let missing = tracer.missing().map_err(explain)?;
    let unfinished = tracer.unfinished(&session.host).map_err(explain)?;
    show(lock, &mut out, rows, &unfinished, missing)?;
    for (number, noun) in [(missing.0, "wait"), (missing.1, "call chain")] {
        if number > 0 {
            say(&format!(
                "{} did not fit into the kernel's tables and are missing",
                count(number, noun)
            ));
        }
    }
    Ok(ended.exit())
}

/// Prints the rows. `missing`: numbers of missing waits and call chains.
fn show(
    lock: &Lock,
    out: &mut impl Write,
    mut rows: Vec<LockRow>,
    unfinished: &UnfinishedWaits,
    missing: (u64, u64),
) -> anyhow::Result<()> {
    rows.truncate(lock.entries);
    let text = if lock.json {
        tare_format::json::to_string_pretty(&lock_document(&rows, unfinished, missing))? + "\n"
    } else {
        lock_table(&rows, unfinished, lock.stacks)
    };
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.context("cannot write the table")
}
