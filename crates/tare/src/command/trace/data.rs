//! `tare trace --data FILE`: records the system calls with `tare record`.

use std::ffi::OsString;
use std::path::Path;

use crate::Outcome;
use crate::cli::raw::{Tare, TareCommand};
use crate::cli::resolved::trace::{Trace, TraceScope};

const EVENTS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";

pub(super) fn run(trace: &Trace, file: &Path, ring_bytes: Option<u32>) -> Outcome {
    let mut words: Vec<OsString> =
        ["tare", "record", "-e", EVENTS, "-o"].map(OsString::from).to_vec();
    words.push(file.into());
    words.extend(ring_bytes.map(|bytes| format!("-m{bytes}B").into()));
    match &trace.traced.target {
        TraceScope::All => words.push("-a".into()),
        TraceScope::Processes(pids) => {
            let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
            words.extend(["-p".into(), pids.join(",").into()]);
        }
        TraceScope::Command => {}
    }
    if let Some(timeout) = trace.traced.timeout {
        words.extend(["--timeout".into(), timeout.as_millis().to_string().into()]);
    }
    if !trace.traced.command.is_empty() {
        words.push("--".into());
        words.extend(trace.traced.command.iter().cloned());
    }
    match Tare::parse_typed(words)?.command {
        TareCommand::Record(raw) => crate::command::record::run(*raw.0, true),
        _ => unreachable!("the words begin with `tare record`"),
    }
}
