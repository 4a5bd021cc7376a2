//! `tare trace --data FILE`: a recording of the system calls, by the recorder.

use std::ffi::OsString;
use std::path::Path;

use crate::Outcome;
use crate::cli::raw::{Command, Tare};
use crate::cli::resolved::trace::{Target, Trace};

const EVENTS: &str = "raw_syscalls:sys_enter,raw_syscalls:sys_exit";

pub(super) fn run(trace: &Trace, file: &Path, ring_bytes: Option<u32>) -> Outcome {
    let mut words: Vec<OsString> =
        ["tare", "record", "-e", EVENTS, "-o"].map(OsString::from).to_vec();
    words.push(file.into());
    words.extend(ring_bytes.map(|bytes| format!("-m{bytes}B").into()));
    match &trace.traced.target {
        Target::All => words.push("-a".into()),
        Target::Processes(pids) => {
            let pids: Vec<_> = pids.iter().map(ToString::to_string).collect();
            words.extend(["-p".into(), pids.join(",").into()]);
        }
        Target::Command => {}
    }
    if let Some(timeout) = trace.traced.timeout {
        words.extend(["--timeout".into(), timeout.as_millis().to_string().into()]);
    }
    if !trace.traced.command.is_empty() {
        words.push("--".into());
        words.extend(trace.traced.command.iter().cloned());
    }
    match Tare::parse_typed(words)?.command {
        Command::Record(raw) => crate::command::record::run(*raw.0, true),
        _ => unreachable!("these are words of tare record"),
    }
}
