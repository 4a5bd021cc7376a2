//! A system call's result as text.

use tare_kernel::bpf::RESULT;

use crate::invocation::Invocation;
use crate::names::Errno;
use crate::special;
use crate::structs::{self, StructBytes, octal};

/// Formats the text after ` = `.
pub(crate) fn result(call: &Invocation<'_>, errnos: &Errno) -> String {
    let Some((value, _)) = call.returned else { return "?".to_owned() };
    if (-4095..0).contains(&value) {
        return error(u32::try_from(-value).unwrap_or(0), errnos);
    }
    let text = match call.name {
        "mmap" | "mmap2" | "brk" | "mremap" | "shmat" => format!("{value:#x}"),
        "umask" => octal(value.unsigned_abs()),
        // Other operations of fcntl(2) don't return a descriptor.
        "fcntl" | "fcntl64" if !matches!(call.values[1] & 0xffff_ffff, 0 | 1030) => {
            value.to_string()
        }
        _ => format!("{value}{}", call.descriptor(RESULT)),
    };
    match annotation(call, value) {
        Some((value, annotation)) => format!("{value} ({annotation})"),
        None => text,
    }
}

fn error(errno: u32, errnos: &Errno) -> String {
    let name = errnos.name(errno);
    let restarts = match errno {
        512 => "To be restarted if SA_RESTART is set",
        513 => "To be restarted",
        514 => "To be restarted if no handler",
        516 => "Interrupted by signal",
        _ => {
            let number = i32::try_from(errno).unwrap_or(0);
            let text = std::io::Error::from_raw_os_error(number).to_string();
            let text = text.split(" (os error").next().unwrap_or_default();
            return format!("-1 {name} ({text})");
        }
    };
    format!("? {name} ({restarts})")
}

/// Returns a result's number and annotation in strace's notation; `None` if it has no annotation.
fn annotation(call: &Invocation<'_>, value: i64) -> Option<(String, String)> {
    let flags = u64::try_from(value).unwrap_or(0);
    let decimal = value.to_string();
    match call.name {
        "fcntl" | "fcntl64" => match call.values[1] & 0xffff_ffff {
            1 if value != 0 => {
                Some((format!("{value:#x}"), format!("flags {}", call.flags.flags("fd", flags))))
            }
            3 => {
                let text = special::open_flags(call, flags);
                let number = if value == 0 { decimal } else { format!("{value:#x}") };
                Some((number, format!("flags {text}")))
            }
            _ => None,
        },
        "poll" | "ppoll" | "select" | "pselect6" if value == 0 => {
            Some((decimal, "Timeout".to_owned()))
        }
        "poll" | "ppoll" => Some((decimal, ready(call)?)),
        "pselect6" => Some((decimal, selected(call))),
        _ => None,
    }
}

/// Formats the ready descriptors of poll(2) and ppoll(2) with their events, and ppoll's remaining
/// time.
fn ready(call: &Invocation<'_>) -> Option<String> {
    let items = call.bytes_after(0)?.chunks_exact(8).filter_map(|item| {
        let f = StructBytes(item);
        let events = f.half(6);
        (events != 0).then(|| {
            format!("{{fd={}, revents={}}}", f.int(0), call.flags.flags("poll", events.into()))
        })
    });
    let items: Vec<_> = items.collect();
    let left = (call.name == "ppoll")
        .then(|| structs::structure(call.flags, "timespec", call.bytes_after(2)?))
        .flatten()
        .map_or_else(String::new, |left| format!(", left {left}"));
    Some(format!("[{}]{left}", items.join(", ")))
}

/// Formats the ready descriptors of pselect6(2), and the remaining time.
fn selected(call: &Invocation<'_>) -> String {
    let mut parts = Vec::new();
    for (at, name) in [(1, "in"), (2, "out"), (3, "except")] {
        let set = special::descriptors(call.bytes_after(at), call.values[0]);
        parts.extend(set.filter(|set| set != "[]").map(|set| format!("{name} {set}")));
    }
    let left =
        call.bytes_after(4).and_then(|left| structs::structure(call.flags, "timespec", left));
    parts.extend(left.map(|left| format!("left {left}")));
    parts.join(", ")
}
