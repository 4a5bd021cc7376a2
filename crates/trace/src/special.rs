//! Arguments that only a few calls have.

use crate::invocation::Invocation;
use crate::prctl;
use crate::structs::{self, StructBytes, pointer};

const O_CREAT: u64 = 0o100;
const O_TMPFILE: u64 = if cfg!(target_arch = "aarch64") { 0x40_4000 } else { 0x41_0000 };
const FUTEX_PRIVATE: u64 = 128;
const FUTEX_REALTIME: u64 = 256;

/// Formats the flags of open(2).
pub(crate) fn open_flags(call: &Invocation<'_>, value: u64) -> String {
    let access =
        ["O_RDONLY", "O_WRONLY", "O_RDWR", "O_ACCMODE"][usize::try_from(value & 3).unwrap_or(0)];
    let (known, rest) = call.flags.known("open", value & !3);
    let known = if known.is_empty() { String::new() } else { format!("|{known}") };
    let rest = if rest == 0 { String::new() } else { format!("|{rest:#x}") };
    format!("{access}{known}{rest}")
}

/// Formats an argument by its word in the table of signatures; `None` if it isn't printed.
pub(crate) fn word(call: &Invocation<'_>, at: usize, word: &str) -> Option<String> {
    let value = call.values[at];
    let low = value & 0xffff_ffff;
    let before = if at == 0 { 0 } else { call.values[at - 1] & 0xffff_ffff };
    Some(match word {
        "open" if call.name == "dup3" => call.flags.flags("open", low),
        "open" => open_flags(call, low),
        "open0" => call.flags.flags("open", low),
        "omode" => {
            let creates = before & O_CREAT != 0 || before & O_TMPFILE == O_TMPFILE;
            return creates.then(|| structs::octal(low & 0o7777));
        }
        "socktype" | "protocol" | "socketpairprotocol" | "sockopt" => {
            socket(call, word, low, before)
        }
        "ioctl" => call.flags.number("ioctl", low),
        "fcntlarg" => return fcntl(call, value),
        "statxflags" => {
            let sync = match low & 0x6000 {
                0 => "AT_STATX_SYNC_AS_STAT",
                0x2000 => "AT_STATX_FORCE_SYNC",
                0x4000 => "AT_STATX_DONT_SYNC",
                _ => "AT_STATX_SYNC_TYPE",
            };
            match call.flags.flags("at", low & !0x6000) {
                more if more == "0" => sync.to_owned(),
                more => format!("{sync}|{more}"),
            }
        }
        "sigframe" => {
            let mask = call.bytes(at).map(|bytes| StructBytes(bytes).long(0));
            mask.map_or_else(String::new, |mask| {
                format!("{{mask={}}}", structs::signals(call.flags, mask))
            })
        }
        "dirents" => match entries(call, at) {
            Some(count) => format!("{} /* {count} entries */", pointer(value)),
            None => pointer(value),
        },
        "fdset" => descriptors(call.bytes(at), call.values[0]).unwrap_or_else(|| pointer(value)),
        "cpuset" | "ocpuset" => {
            cpus(call.bytes(at).filter(|_| word == "cpuset" || !call.has_failed()))
                .unwrap_or_else(|| pointer(value))
        }
        "mremapto" => return (before & 6 != 0).then(|| pointer(value)),
        "prctl" | "prctltext" => return prctl::argument(call, at),
        "futexop" => futex_operation(call, low),
        "futexval" | "futextime" => return futex(call, at, word),
        "ipckey" | "ipcflags" | "key" | "ioprio" | "fanotifyinit" => rare(call, word, value),
        _ => pointer(value),
    })
}

/// Formats an argument of a socket call. Protocols and options depend on a preceding argument.
fn socket(call: &Invocation<'_>, word: &str, low: u64, before: u64) -> String {
    match word {
        "socktype" => {
            let kind = call.flags.number("socktype", low & 0xf);
            match call.flags.flags("sockflags", low & !0xf) {
                more if more == "0" => kind,
                more => format!("{kind}|{more}"),
            }
        }
        "protocol" | "socketpairprotocol" if matches!(call.values[0], 2 | 10) => {
            call.flags.number("ipproto", low)
        }
        "protocol" | "socketpairprotocol" => low.to_string(),
        _ => {
            let table = match before {
                1 => "so",
                6 => "tcp",
                0 => "ip",
                41 => "ipv6",
                _ => return format!("{low:#x}"),
            };
            call.flags.number(table, low)
        }
    }
}

/// Formats an argument that only calls for IPC, keys, priorities and fanotify(7) have.
fn rare(call: &Invocation<'_>, word: &str, value: u64) -> String {
    let low = value & 0xffff_ffff;
    match word {
        "ipckey" if low == 0 => "IPC_PRIVATE".to_owned(),
        "ipckey" => format!("{low:#x}"),
        "ipcflags" => ipc_flags(call, low),
        "key" => match call.flags.name("keyspec", low) {
            Some(name) => name.to_owned(),
            None => StructBytes(&value.to_ne_bytes()).int(0).to_string(),
        },
        "ioprio" => {
            let class = call.flags.number("ioprioclass", low >> 13);
            format!("IOPRIO_PRIO_VALUE({class}, {})", low & 0x1fff)
        }
        "fanotifyinit" => {
            let class = call.flags.number("fanclass", low & 0xc);
            match call.flags.flags("fanotifyinit", low & !0xc) {
                more if more == "0" => class,
                more => format!("{class}|{more}"),
            }
        }
        _ => pointer(value),
    }
}

/// Formats the flags of an IPC object with its permissions.
fn ipc_flags(call: &Invocation<'_>, value: u64) -> String {
    let mode = structs::octal(value & 0o777);
    match call.flags.flags("ipc", value & !0o777) {
        none if none == "0" => mode,
        flags => format!("{flags}|{mode}"),
    }
}

fn futex_operation(call: &Invocation<'_>, value: u64) -> String {
    let name = call.flags.number("futexop", value & 127);
    let private = if value & FUTEX_PRIVATE != 0 { "_PRIVATE" } else { "" };
    let clock = if value & FUTEX_REALTIME != 0 { "|FUTEX_CLOCK_REALTIME" } else { "" };
    format!("{name}{private}{clock}")
}

/// Formats the arguments of futex(2) after the operation, which depend on it.
fn futex(call: &Invocation<'_>, at: usize, word: &str) -> Option<String> {
    let operation = call.values[1] & 127;
    let number = |at: usize| (call.values[at] & 0xffff_ffff).to_string();
    let time = || {
        let bytes = call.bytes(3)?;
        structs::structure(call.flags, "timespec", bytes)
    };
    let time = || time().unwrap_or_else(|| pointer(call.values[3]));
    let mask = || match call.values[5] & 0xffff_ffff {
        0xffff_ffff => "FUTEX_BITSET_MATCH_ANY".to_owned(),
        other => format!("{other:#x}"),
    };
    if word == "futexval" {
        return match operation {
            7 | 8 => None,
            6 | 13 => Some(time()),
            1 | 10 => Some(StructBytes(&call.values[at].to_ne_bytes()).int(0).to_string()),
            _ => Some(number(2)),
        };
    }
    match operation {
        0 => Some(time()),
        9 => Some(format!("{}, {}", time(), mask())),
        10 => Some(mask()),
        3 => Some(format!("{}, {}", number(3), pointer(call.values[4]))),
        4 | 12 => Some(format!("{}, {}, {}", number(3), pointer(call.values[4]), number(5))),
        11 => Some(format!("{}, {}", time(), pointer(call.values[4]))),
        5 => Some(format!(
            "{}, {}, {:#x}",
            number(3),
            pointer(call.values[4]),
            call.values[5] & 0xffff_ffff
        )),
        _ => None,
    }
}

fn fcntl(call: &Invocation<'_>, value: u64) -> Option<String> {
    let low = value & 0xffff_ffff;
    if matches!(call.values[1] & 0xffff_ffff, 5 | 36) && !call.has_failed() {
        let bytes = call.bytes_after(2)?;
        return Some(structs::flock(call.flags, StructBytes(bytes), true));
    }
    Some(match call.values[1] & 0xffff_ffff {
        1 | 3 | 9 | 11 | 1025 | 1032 | 1034 => return None,
        0 | 1030 | 8 | 1031 => StructBytes(&value.to_ne_bytes()).int(0).to_string(),
        2 => call.flags.flags("fd", low),
        4 => open_flags(call, low),
        10 => structs::signal(call.flags, u32::try_from(low).unwrap_or(0)),
        1033 => call.flags.flags("seals", low),
        5 | 6 | 7 | 36 | 37 | 38 => call
            .bytes(2)
            .and_then(|bytes| structs::structure(call.flags, "flock", bytes))
            .unwrap_or_else(|| pointer(value)),
        _ => format!("{value:#x}"),
    })
}

/// Counts the directory entries that the call returned; `None` if not all of them were copied, or
/// the call hasn't succeeded.
fn entries(call: &Invocation<'_>, at: usize) -> Option<usize> {
    let (result, _) = call.returned.filter(|_| !call.has_failed())?;
    let all = u64::try_from(result).ok()?;
    if all == 0 {
        return Some(0);
    }
    let mut rest = call.bytes(at)?;
    if (rest.len() as u64) < all {
        return None;
    }
    let mut count = 0;
    while rest.len() > 18 {
        let length = usize::from(StructBytes(rest).half(16)).max(19);
        rest = rest.get(length..).unwrap_or_default();
        count += 1;
    }
    Some(count)
}

/// Returns the numbers of the set bits among the first `count`, at most 1024.
fn bits(bytes: &[u8], count: u64) -> Vec<String> {
    let set = |at: &u64| {
        let byte = usize::try_from(at / 8).ok().and_then(|byte| bytes.get(byte)).copied();
        byte.unwrap_or(0) >> (at % 8) & 1 != 0
    };
    (0..count.min(1024)).filter(set).map(|at| at.to_string()).collect()
}

pub(crate) fn descriptors(bytes: Option<&[u8]>, count: u64) -> Option<String> {
    bytes.map(|bytes| format!("[{}]", bits(bytes, count).join(" ")))
}

fn cpus(bytes: Option<&[u8]>) -> Option<String> {
    bytes.map(|bytes| format!("[{}]", bits(bytes, 1024).join(" ")))
}

/// Formats the flags of a new task with its exit signal.
fn clone_flags(call: &Invocation<'_>, value: u64) -> String {
    let (names, rest) = call.flags.known("clone", value & !0xff);
    let signal = u32::try_from(value & 0xff).unwrap_or(0);
    let signal = (signal != 0).then(|| structs::signal(call.flags, signal));
    let rest = (rest != 0).then(|| format!("{rest:#x}"));
    let names = (!names.is_empty()).then_some(names);
    let all: Vec<_> = [names, rest, signal].into_iter().flatten().collect();
    if all.is_empty() { "0".to_owned() } else { all.join("|") }
}

/// Formats the arguments of clone(2). strace names them, because their order varies between
/// architectures. `None` for any other call.
pub(crate) fn clone(call: &Invocation<'_>) -> Option<String> {
    if call.name != "clone" {
        return None;
    }
    let flags = call.values[0];
    let stack = call.values[1];
    let parent = call.values[2];
    let (child, tls) = if cfg!(target_arch = "aarch64") || call.registers.is_compat {
        (call.values[4], call.values[3])
    } else {
        (call.values[3], call.values[4])
    };
    let mut text = format!("child_stack={}, flags={}", pointer(stack), clone_flags(call, flags));
    let Some((result, _)) = call.returned else {
        return Some(text);
    };
    if flags & 0x10_0000 != 0 {
        let id = if result > 0 { format!("[{result}]") } else { pointer(parent) };
        text.push_str(&format!(", parent_tid={id}"));
    }
    if flags & 0x8_0000 != 0 {
        text.push_str(&format!(", tls={}", pointer(tls)));
    }
    if flags & 0x120_0000 != 0 {
        text.push_str(&format!(", child_tidptr={}", pointer(child)));
    }
    Some(text)
}

/// Formats `struct clone_args`.
pub(crate) fn clone_arguments(call: &Invocation<'_>, bytes: &[u8]) -> String {
    let f = StructBytes(bytes);
    let flags = f.long(0);
    let (names, rest) = call.flags.known("clone", flags);
    let names = if rest == 0 { names } else { format!("{names}|{rest:#x}") };
    let names = if names.is_empty() { "0".to_owned() } else { names };
    let mut text = format!("{{flags={names}");
    if flags & 0x1000 != 0 {
        text.push_str(&format!(", pidfd={}", pointer(f.long(8))));
    }
    if flags & 0x120_0000 != 0 {
        text.push_str(&format!(", child_tid={}", pointer(f.long(16))));
    }
    if flags & 0x10_0000 != 0 {
        text.push_str(&format!(", parent_tid={}", pointer(f.long(24))));
    }
    let signal = match u32::try_from(f.long(32)).unwrap_or(0) {
        0 => "0".to_owned(),
        number => structs::signal(call.flags, number),
    };
    text.push_str(&format!(
        ", exit_signal={signal}, stack={}, stack_size={:#x}",
        pointer(f.long(40)),
        f.long(48)
    ));
    if flags & 0x8_0000 != 0 {
        text.push_str(&format!(", tls={}", pointer(f.long(56))));
    }
    text.push('}');
    if let Some((result, _)) =
        call.returned.filter(|(result, _)| *result > 0 && flags & 0x10_0000 != 0)
    {
        text.push_str(&format!(" => {{parent_tid=[{result}]}}"));
    }
    text
}
