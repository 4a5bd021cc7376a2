//! Lines for signals, exits, events between calls, and lost records.

use std::fmt::Write as _;

use tare_kernel::bpf::CallRecord;

use super::{Lines, Pending};
use crate::names::Abi;
use crate::perf::{InterveningEvent, KILLED};
use crate::structs;

const SIGKILL: u32 = 9;

impl Lines {
    /// Reports records that were lost just before.
    pub(super) fn missing(&mut self, tid: Option<u32>, records: u64, out: &mut String) {
        self.interrupt(out);
        let plural = if records == 1 { "" } else { "s" };
        let _ = match (self.options.json, tid) {
            (true, Some(tid)) => writeln!(out, "{{\"tid\":{tid},\"missing_records\":{records}}}"),
            (true, None) => writeln!(out, "{{\"missing_records\":{records}}}"),
            (false, Some(tid)) => {
                writeln!(out, "[pid {tid:5}] <... {records} record{plural} missing>")
            }
            (false, None) => writeln!(out, "<... {records} record{plural} missing>"),
        };
    }

    /// Writes the call chain of a call, if there is one.
    pub(super) fn write_stack(&mut self, tid: u32, out: &mut String) {
        let Some(task) = self.tasks.get_mut(&tid) else { return };
        write_frames(task.stack.drain(..), out);
    }

    /// Writes an event between calls of this process and thread.
    pub(super) fn between(
        &mut self,
        time_ns: u64,
        process: u32,
        tid: u32,
        what: &InterveningEvent<'_>,
        out: &mut String,
    ) {
        self.living.insert(tid);
        self.interrupt(out);
        if self.options.json {
            let fields = match what {
                InterveningEvent::Fault { is_major, address, ip } => {
                    let name = if *is_major { "major-faults" } else { "minor-faults" };
                    format!("\"{name}\",\"address\":{address},\"ip\":{ip}")
                }
                InterveningEvent::SwitchedOut { is_preempted } => {
                    format!("\"switch-out\",\"preempted\":{is_preempted}")
                }
                InterveningEvent::SwitchedIn { off_ns: Some(ns) } => {
                    format!("\"switch-in\",\"off_cpu_ns\":{ns}")
                }
                InterveningEvent::SwitchedIn { off_ns: None } => "\"switch-in\"".to_owned(),
                InterveningEvent::Tracepoint { name, text } => {
                    format!("{},\"fields\":{}", quoted(name), quoted(text))
                }
            };
            let _ = writeln!(
                out,
                "{{\"time_ns\":{time_ns},\"pid\":{process},\"tid\":{tid},\"event\":{fields}}}"
            );
            return;
        }
        let line = match what {
            InterveningEvent::Fault { is_major, address, ip } => {
                let name = if *is_major { "major-fault" } else { "minor-fault" };
                format!("{name} {{addr={address:#x}, ip={ip:#x}}}")
            }
            InterveningEvent::SwitchedOut { is_preempted: true } => {
                "switched out {preempted}".to_owned()
            }
            InterveningEvent::SwitchedOut { is_preempted: false } => {
                "switched out {waits}".to_owned()
            }
            InterveningEvent::SwitchedIn { off_ns: Some(ns) } => {
                format!(
                    "switched in {{off_cpu={}.{:06}}}",
                    ns / 1_000_000_000,
                    ns / 1000 % 1_000_000
                )
            }
            InterveningEvent::SwitchedIn { off_ns: None } => "switched in".to_owned(),
            InterveningEvent::Tracepoint { name, text } => format!("{name} {{{text}}}"),
        };
        let prefix = self.prefix(tid, self.living.len() > 1);
        let _ = writeln!(out, "{prefix}--- {line} ---");
    }

    pub(super) fn end(&mut self, record: &CallRecord<'_>, status: u32, out: &mut String) {
        let mut task = self.tasks.remove(&record.tid).unwrap_or_default();
        if let Some(pending) = task.pending.take() {
            let name = self.names.name(pending.call);
            let arguments = self.invocation(&pending, &name, None).arguments();
            if self.options.json {
                self.object(record, &pending, &name, &arguments, None, out);
            } else if !self.is_filtered() {
                self.complete(record.tid, &pending, &name, &arguments, out);
                out.push_str("?\n");
                write_frames(task.stack.drain(..), out);
            }
        }
        if self.options.failures || self.options.min_duration_ns > 0 {
            self.living.remove(&record.tid);
            return;
        }
        self.interrupt(out);
        let prefix = self.prefix(record.tid, self.living.len() > 1);
        self.living.remove(&record.tid);
        let how = match status & 0x7f {
            KILLED => "killed by a signal".to_owned(),
            0 => format!("exited with {}", status >> 8 & 0xff),
            number => {
                let core = if status & 0x80 != 0 { " (core dumped)" } else { "" };
                format!("killed by {}{core}", structs::signal(&self.flags, number))
            }
        };
        if self.options.json {
            let _ = writeln!(
                out,
                "{{\"time_ns\":{},\"pid\":{},\"tid\":{},\"end\":{}}}",
                record.time_ns,
                record.process,
                record.tid,
                quoted(&how)
            );
        } else {
            let _ = writeln!(out, "{prefix}+++ {how} +++");
        }
    }

    pub(super) fn signal(
        &mut self,
        record: &CallRecord<'_>,
        number: u32,
        ignored: bool,
        info: &[u8],
        out: &mut String,
    ) {
        if number == SIGKILL {
            return; // strace isn't told of it, and the end of the task says it
        }
        let name = structs::signal(&self.flags, number);
        let info =
            if info.is_empty() { "NULL".to_owned() } else { structs::siginfo(&self.flags, info) };
        let line = if self.options.json {
            format!(
                "{{\"time_ns\":{},\"pid\":{},\"tid\":{},\"signal\":\"{name}\",\"ignored\":{ignored},\"info\":{}}}",
                record.time_ns,
                record.process,
                record.tid,
                quoted(&info)
            )
        } else {
            format!("--- {name} {info} ---")
        };
        let task = self.tasks.entry(record.tid).or_default();
        task.signals.push(line);
        if !ignored && task.pending.is_none() {
            self.flush_signals(record.tid, out);
        }
    }

    pub(super) fn flush_signals(&mut self, tid: u32, out: &mut String) {
        let Some(task) = self.tasks.get_mut(&tid).filter(|task| !task.signals.is_empty()) else {
            return;
        };
        let signals = std::mem::take(&mut task.signals);
        self.interrupt(out);
        let shown = self.living.len() > 1 && !self.options.json;
        for line in signals {
            let _ = writeln!(out, "{}{line}", self.prefix(tid, shown));
        }
    }

    pub(super) fn object(
        &self,
        record: &CallRecord<'_>,
        pending: &Pending,
        name: &str,
        arguments: &str,
        returned: Option<(i64, u64)>,
        out: &mut String,
    ) {
        let _ = write!(
            out,
            "{{\"time_ns\":{},\"pid\":{},\"tid\":{},\"abi\":\"{}\",\"call\":\"{name}\",\"arguments\":{}",
            pending.time_ns,
            record.process,
            record.tid,
            Abi::for_call(pending.call),
            quoted(arguments)
        );
        if let Some((result, duration_ns)) = returned {
            let _ = write!(out, ",\"result\":{result},\"duration_ns\":{duration_ns}");
            if (-4095..0).contains(&result) {
                let error = self.errnos.name(u32::try_from(-result).unwrap_or(0));
                let _ = write!(out, ",\"error\":\"{error}\"");
            }
        }
        let stack = self.tasks.get(&record.tid).map_or(&[][..], |task| &task.stack);
        if !stack.is_empty() {
            let frames: Vec<_> = stack.iter().map(|frame| quoted(frame)).collect();
            let _ = write!(out, ",\"stack\":[{}]", frames.join(","));
        }
        out.push_str("}\n");
    }
}

/// Writes the frames of a call chain, one per line, as in `strace -k`.
fn write_frames(frames: impl Iterator<Item = String>, out: &mut String) {
    for frame in frames {
        let _ = writeln!(out, " > {frame}");
    }
}

/// Returns a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\u{20}'.. => quoted.push(c),
            _ => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(c));
            }
        }
    }
    quoted.push('"');
    quoted
}
