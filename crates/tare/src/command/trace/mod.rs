//! `tare trace`: system calls and functions, with their durations.
//!
//! `live` runs a trace; `calls` prints each call, `summary` is `-s`, `functions` is `--probe`,
//! `--kprobe` and `--usdt`, `data` is `--data`, which records into a file, and `recorded` is `-i`, which
//! reads one.

mod calls;
mod data;
mod functions;
pub(crate) mod live;
mod recorded;
mod summary;

use std::borrow::Cow;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use tare_kernel::bpf::BpfError;
use tare_kernel::capabilities::missing_capabilities;
use tare_kernel::host::Host;
use tare_record::own_file::GrowingFile;
use tare_trace::{PerfError, TraceError};

use self::live::TraceSession;
use self::summary::SummaryView;
use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::trace::{Trace, TraceScope, TraceTarget, TraceView};
use crate::exit::Refusal;

pub(crate) fn run(raw: raw::TraceArgs) -> Outcome {
    let trace = Trace::new(raw)?;
    let has_command = !trace.traced.command.is_empty();
    let session = || TraceSession::new(&trace.traced, Host::default());
    let outcome = match &trace.view {
        TraceView::Data(file, ring_bytes) => return data::run(&trace, file, *ring_bytes),
        TraceView::Recorded(input, wanted) => return recorded::run(&trace, input, wanted),
        TraceView::FunctionProbes(wanted) => {
            session().and_then(|session| functions::run(&trace, session, wanted))
        }
        TraceView::Calls(wanted) => {
            session().and_then(|session| calls::run(&trace, session, wanted))
        }
        TraceView::Summary { calls, by, histograms } => {
            let view = SummaryView { calls, by: *by, histograms: *histograms };
            session().and_then(|session| summary::run(&trace, session, &view))
        }
    };
    outcome.map_err(|error| super::remedy::with_status(error, has_command))
}

/// Opens the output of a table or a JSON document. Like strace -c, the table of a command goes to
/// stderr, because stdout belongs to the command.
fn open_table(trace: &Trace) -> anyhow::Result<BufWriter<Box<dyn Write>>> {
    open(trace.output.as_deref(), trace.json || trace.traced.target != TraceScope::Command)
}

/// Opens the output: the file of `-o`, otherwise stdout or stderr.
pub(super) fn open(
    output: Option<&Path>,
    to_stdout: bool,
) -> anyhow::Result<BufWriter<Box<dyn Write>>> {
    let out: Box<dyn Write> = match output {
        Some(path) => {
            Box::new(GrowingFile::create(path).with_context(|| format!("-o {}", path.display()))?)
        }
        None if to_stdout => Box::new(io::stdout()),
        None => Box::new(io::stderr()),
    };
    Ok(BufWriter::new(out))
}

/// Returns the command's words for a JSON document.
fn command_words(traced: &TraceTarget) -> Vec<Cow<'_, str>> {
    traced.command.iter().map(|word| word.to_string_lossy()).collect()
}

/// Adds the remedy to the error.
pub(super) fn explain(error: TraceError) -> anyhow::Error {
    let remedy = match &error {
        TraceError::NoProcess(_) => return Refusal::usage(error.to_string()).into(),
        TraceError::Neither { bpf: BpfError::NotPermitted(_), .. }
        | TraceError::Bpf(BpfError::NotPermitted(_)) => {
            missing_capabilities("CAP_BPF and CAP_PERFMON")
        }
        TraceError::Neither { .. } | TraceError::Between(PerfError::NotPermitted { .. }) => {
            missing_capabilities("CAP_PERFMON")
        }
        _ => return error.into(),
    };
    anyhow::anyhow!("{error}; {remedy} (`tare doctor` shows how)")
}
