//! The wording of events other than calls, and of a thread's end.

use std::fmt::Write as _;

use crate::flags::Flags;
use crate::perf::KILLED;
use crate::record::InterveningEvent;
use crate::structs;

/// Formats an event other than a call as text.
pub(super) fn text(event: &InterveningEvent<'_>) -> String {
    match event {
        InterveningEvent::Fault { is_major, address, ip } => {
            let name = if *is_major { "major-fault" } else { "minor-fault" };
            format!("{name} {{addr={address:#x}, ip={ip:#x}}}")
        }
        InterveningEvent::SwitchedOut { is_preempted: true } => "switched out {preempted}".into(),
        InterveningEvent::SwitchedOut { is_preempted: false } => "switched out {waits}".into(),
        InterveningEvent::SwitchedIn { off_ns: Some(ns), .. } => {
            format!("switched in {{off_cpu={}.{:06}}}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
        }
        InterveningEvent::SwitchedIn { off_ns: None, .. } => "switched in".into(),
        InterveningEvent::Tracepoint { name, text } => format!("{name} {{{text}}}"),
    }
}

/// Formats an event other than a call as the value of a JSON object's `event`, followed by the
/// event's own fields.
pub(super) fn json(event: &InterveningEvent<'_>) -> String {
    match event {
        InterveningEvent::Fault { is_major, address, ip } => {
            let name = if *is_major { "major-faults" } else { "minor-faults" };
            format!("\"{name}\",\"address\":{address},\"ip\":{ip}")
        }
        InterveningEvent::SwitchedOut { is_preempted } => {
            format!("\"switch-out\",\"preempted\":{is_preempted}")
        }
        InterveningEvent::SwitchedIn { off_ns: Some(ns), .. } => {
            format!("\"switch-in\",\"off_cpu_ns\":{ns}")
        }
        InterveningEvent::SwitchedIn { off_ns: None, .. } => "\"switch-in\"".into(),
        InterveningEvent::Tracepoint { name, text } => {
            format!("{},\"fields\":{}", quoted(name), quoted(text))
        }
    }
}

/// Formats how a thread ended, from its wait(2) status.
pub(super) fn end(flags: &Flags, status: u32) -> String {
    match status & 0x7f {
        KILLED => "killed by a signal".to_owned(),
        0 => format!("exited with {}", status >> 8 & 0xff),
        number => {
            let core = if status & 0x80 != 0 { " (core dumped)" } else { "" };
            format!("killed by {}{core}", structs::signal(flags, number))
        }
    }
}

/// Writes the frames of a call chain, one per line, as `strace -k` does.
pub(super) fn write_frames(frames: impl Iterator<Item = String>, out: &mut String) {
    for frame in frames {
        let _ = writeln!(out, " > {frame}");
    }
}

/// Returns a JSON string.
pub(super) fn quoted(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default() // a string can always be serialized
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_every_kind_of_end() {
        let flags = Flags::default();
        assert_eq!(end(&flags, 0x300), "exited with 3");
        assert_eq!(end(&flags, 15), "killed by SIGTERM");
        assert_eq!(end(&flags, 0x8b), "killed by SIGSEGV (core dumped)");
        assert_eq!(end(&flags, KILLED), "killed by a signal");
    }

    #[test]
    fn formats_events_as_text_and_as_json() {
        let back = InterveningEvent::SwitchedIn { cpu: 0, off_ns: Some(1_002_003_999) };
        assert_eq!(text(&back), "switched in {off_cpu=1.002003}");
        assert_eq!(json(&back), "\"switch-in\",\"off_cpu_ns\":1002003999");
        let point = InterveningEvent::Tracepoint { name: "a:b", text: "comm=\"x\"" };
        assert_eq!(text(&point), "a:b {comm=\"x\"}");
        assert_eq!(json(&point), r#""a:b","fields":"comm=\"x\"""#);
    }
}
