//! The arguments of system calls: `tables/signatures.txt`, one call per line.
//!
//! ```text
//! int uint long size ptr hexnum oct   numbers
//! fd at pid sig                       numbers that name something
//! f/TABLE e/TABLE                     flags, and enumerated numbers, of tables/flags.txt
//! path text                           a string, read at the call
//! in/N                                bytes, read at the call; argument N holds their number
//! out                                 bytes, read after success; the result is their number
//! <TYPE >TYPE =TYPE !TYPE             a structure, read at the call; after success; both; after
//!                                     failure
//! <TYPE*N >TYPE*r                     several structures; argument N holds their number, or the
//!                                     result is it
//! ```
//! A call's name after `i386:` has other arguments there than on 64-bit machines. Other words are
//! vectors, socket addresses and options, and arguments of a few calls.

use std::collections::HashMap;

use tare_kernel::bpf::{CallPlan, CopyRule, CopyTime};

use crate::names::Abi;
use crate::registers::ArgumentRegisters;

/// How an argument is read and printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArgumentKind {
    /// An argument that only its word describes.
    Word(&'static str),
    /// Flags of a table.
    Flags(&'static str),
    /// An enumerated number of a table.
    Number(&'static str),
    /// Bytes read at the call; this argument holds their number.
    In(u8),
    /// `struct iovec`s, read at the call or after success; argument `count` holds their number.
    Vectors { count: u8, out: bool },
    /// A socket address, read at the call or, if `out`, after success. Argument `length` holds its
    /// length; if `out`, it points to it.
    Address { length: u8, out: bool },
    /// A socket option's value, likewise.
    SocketOption { length: u8, out: bool },
    /// A structure.
    Struct { name: &'static str, when: CopyTime, items: Items },
}

/// The number of structures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Items {
    One,
    /// In an argument.
    Argument(u8),
    /// The call's result.
    Returned,
}

impl ArgumentKind {
    /// Whether memory behind the argument that can't be read is counted as unreadable. Excluded are
    /// words that are pointers only with some other arguments, and words of results (`out`,
    /// `omsg`).
    pub(crate) fn is_pointer(self) -> bool {
        match self {
            Self::Word(word) => matches!(word, "path" | "text" | "argv" | "envp" | "msg"),
            Self::Flags(_) | Self::Number(_) => false,
            _ => true,
        }
    }

    /// Whether the value is known only after the return.
    pub(crate) fn is_output(self) -> bool {
        match self {
            Self::Word(word) => {
                matches!(word, "out" | "outraw" | "outtext" | "omsg" | "dirents" | "ocpuset")
            }
            Self::Vectors { out, .. }
            | Self::Address { out, .. }
            | Self::SocketOption { out, .. } => out,
            Self::Struct { when, .. } => when.success && !when.enter || when.failure,
            _ => false,
        }
    }
}

/// Returns the size of a structure in bytes on 64-bit machines.
pub(crate) fn size(name: &str) -> Option<u16> {
    Some(match name {
        "stat" if cfg!(target_arch = "aarch64") => 128,
        "epoll" if cfg!(target_arch = "aarch64") => 16,
        "stat" | "rusage" => 144,
        "statx" => 256,
        "timespec" | "timeval" | "rlimit" => 16,
        "timespec2" | "sigaction" | "itimerval" | "itimerspec" | "flock" => 32,
        "timezone" | "sigset" | "pollfd" | "fds" | "off" | "size" => 8,
        "int" | "uint1" | "status" | "param" | "socklen" => 4,
        "epoll" => 12,
        "oldmmap" => 24,
        "utsname" => 390,
        "sysinfo" => 112,
        "statfs" | "uring" => 120,
        "cloneargs" => 88,
        "siginfo" => 128,
        "stack" => 24,
        _ => return None,
    })
}

const ENTER: CopyTime = CopyTime { enter: true, success: false, failure: false };
const SUCCESS: CopyTime = CopyTime { enter: false, success: true, failure: false };
const FAILURE: CopyTime = CopyTime { enter: false, success: false, failure: true };
const RETURN: CopyTime = CopyTime { enter: false, success: true, failure: true };
const BOTH: CopyTime = CopyTime { enter: true, success: true, failure: false };

/// The arguments of calls, by the call's name.
#[derive(Clone, Debug)]
pub(crate) struct Signatures(HashMap<&'static str, Vec<ArgumentKind>>);

impl Default for Signatures {
    fn default() -> Self {
        let lines = include_str!("tables/signatures.txt").lines();
        Self(
            lines
                .map(|line| {
                    let mut words = line.split(' ');
                    (words.next().unwrap_or_default(), words.map(parse_kind).collect())
                })
                .collect(),
        )
    }
}

fn parse_kind(word: &'static str) -> ArgumentKind {
    let argument = |text: &str| text.parse().unwrap_or(0);
    if let Some((class, rest)) = word.split_once('/') {
        return match class {
            "f" => ArgumentKind::Flags(rest),
            "e" => ArgumentKind::Number(rest),
            "in" => ArgumentKind::In(argument(rest)),
            "iov" | "oiov" => ArgumentKind::Vectors { count: argument(rest), out: class == "oiov" },
            "sa" | "osa" => ArgumentKind::Address { length: argument(rest), out: class == "osa" },
            _ => ArgumentKind::SocketOption { length: argument(rest), out: class == "osockval" },
        };
    }
    let when = match word.as_bytes().first() {
        Some(b'<') => ENTER,
        Some(b'>') => SUCCESS,
        Some(b'=') => BOTH,
        Some(b'!') => FAILURE,
        _ => return ArgumentKind::Word(word),
    };
    let (name, items) = word[1..].split_once('*').unwrap_or((&word[1..], ""));
    let items = match items {
        "" => Items::One,
        "r" => Items::Returned,
        number => Items::Argument(argument(number)),
    };
    ArgumentKind::Struct { name, when, items }
}

impl Signatures {
    /// Returns the arguments of a call, if known. `compat`: of a 32-bit task.
    pub(crate) fn get(&self, call: &str, compat: bool) -> Option<&[ArgumentKind]> {
        let own = || self.0.get(format!("{}:{call}", Abi::COMPAT).as_str());
        let own = if compat { own() } else { None };
        own.or_else(|| self.0.get(call)).map(Vec::as_slice)
    }

    /// Returns what the kernel has to copy. `string`: bytes of a string to print. Many structures
    /// of 32-bit tasks (`compat`) have another layout; those are not copied. `descriptors`: also
    /// copy the files of descriptors.
    pub(crate) fn plan(
        &self,
        call: &str,
        compat: bool,
        string: u16,
        descriptors: bool,
    ) -> CallPlan {
        let mut plan = CallPlan::default();
        let kinds = self.get(call, compat).unwrap_or_default();
        let abi = if compat { Abi::COMPAT } else { Abi::NATIVE };
        let registers = ArgumentRegisters::for_call(abi, call);
        let has_other_layout = compat && !has_one_layout(call);
        for (argument, kind) in kinds.iter().enumerate() {
            let Some(place) = plan.arguments.get_mut(registers.first(argument)) else { continue };
            *place = match kind {
                ArgumentKind::Word("fd" | "at") if descriptors => (CopyRule::Descriptor, ENTER),
                ArgumentKind::Struct { name: "fds", when, .. } if descriptors => {
                    (CopyRule::Descriptors, *when)
                }
                kind => copy_rule(*kind, string, has_other_layout).unwrap_or_default(),
            };
        }
        plan.returns_descriptor = descriptors && RETURN_DESCRIPTORS.contains(&call);
        if call == "rt_sigreturn" && !compat {
            // Distance of the signal mask (`uc.uc_sigmask` of `struct rt_sigframe`) from the stack
            // pointer at the call. On x86-64 the handler's `ret` has popped the frame's first word.
            plan.above_stack = if cfg!(target_arch = "aarch64") { 168 } else { 296 };
        }
        plan
    }
}

/// Whether a call's structures have the same layout in 32-bit tasks.
fn has_one_layout(call: &str) -> bool {
    call.ends_with("_time64")
        || matches!(
            call,
            "clock_gettime64"
                | "clock_settime64"
                | "timer_gettime64"
                | "timer_settime64"
                | "timerfd_gettime64"
                | "timerfd_settime64"
                | "sendfile64"
                | "_llseek"
                | "splice"
                | "copy_file_range"
                | "prlimit64"
                | "statx"
                | "clone3"
                | "io_uring_setup"
        )
}

/// Calls that return a descriptor; fcntl(2) and bpf(2) depend on their operation.
const RETURN_DESCRIPTORS: [&str; 37] = [
    "accept",
    "accept4",
    "bpf",
    "creat",
    "dup",
    "dup2",
    "dup3",
    "epoll_create",
    "epoll_create1",
    "eventfd",
    "eventfd2",
    "fanotify_init",
    "fcntl",
    "fcntl64",
    "fsmount",
    "fsopen",
    "fspick",
    "inotify_init",
    "inotify_init1",
    "io_uring_setup",
    "landlock_create_ruleset",
    "memfd_create",
    "memfd_secret",
    "mq_open",
    "open",
    "open_by_handle_at",
    "open_tree",
    "openat",
    "openat2",
    "perf_event_open",
    "pidfd_getfd",
    "pidfd_open",
    "signalfd",
    "signalfd4",
    "socket",
    "timerfd_create",
    "userfaultfd",
];

/// Bytes of a path that are copied: paths are printed whole.
pub(crate) const PATH: u16 = 4096;
/// Most bytes of an array of structures that are copied.
const ARRAY: u16 = 512;

/// Returns what the kernel copies for an argument, and when.
fn copy_rule(kind: ArgumentKind, string: u16, compat: bool) -> Option<(CopyRule, CopyTime)> {
    // One byte more than is printed shows that the string continues; its NUL byte takes another.
    let one = string.saturating_add(1).min(PATH);
    let terminated = string.saturating_add(2).min(PATH);
    Some(match kind {
        ArgumentKind::Word("path") => (CopyRule::Text(PATH), ENTER),
        ArgumentKind::Word("text") => (CopyRule::Text(terminated), ENTER),
        ArgumentKind::Word("argv") => (CopyRule::Texts(terminated), ENTER),
        ArgumentKind::Word("envp") => (CopyRule::TextCount, ENTER),
        ArgumentKind::Word("out" | "outraw") => {
            (CopyRule::Returned { size: 1, most: one }, SUCCESS)
        }
        ArgumentKind::Word("outtext") => (CopyRule::Returned { size: 1, most: PATH }, SUCCESS),
        ArgumentKind::Word("sigframe") if !compat => (CopyRule::Bytes(8), ENTER),
        ArgumentKind::Word("cpuset") => (CopyRule::Items { count: 1, size: 1, most: 128 }, ENTER),
        ArgumentKind::Word("ocpuset") => (CopyRule::Returned { size: 1, most: 128 }, SUCCESS),
        ArgumentKind::Word("fdset") => (CopyRule::Bytes(128), BOTH),
        ArgumentKind::Word("fcntlarg") if !compat => (CopyRule::Bytes(32), BOTH),
        ArgumentKind::Word("prctl") => (CopyRule::Text(16), BOTH),
        ArgumentKind::Word("prctltext") => (CopyRule::Text(80), ENTER),
        ArgumentKind::Word("dirents") if !compat => {
            (CopyRule::Returned { size: 1, most: PATH }, SUCCESS)
        }
        ArgumentKind::Word("futextime") if !compat => (CopyRule::Bytes(16), ENTER),
        ArgumentKind::Word("msg") if !compat => (CopyRule::Message(one), ENTER),
        ArgumentKind::Word("omsg") if !compat => (CopyRule::Message(one), RETURN),
        ArgumentKind::In(count) => (CopyRule::Items { count, size: 1, most: one }, ENTER),
        ArgumentKind::Vectors { count, out } if !compat => {
            (CopyRule::Vectors { count, most: one }, if out { SUCCESS } else { ENTER })
        }
        ArgumentKind::Address { length, out: false }
        | ArgumentKind::SocketOption { length, out: false } => {
            (CopyRule::Items { count: length, size: 1, most: 128 }, ENTER)
        }
        ArgumentKind::Address { length, out: true }
        | ArgumentKind::SocketOption { length, out: true } => {
            (CopyRule::Counted { count: length, most: 128 }, SUCCESS)
        }
        ArgumentKind::Struct { name, when, items } => {
            let size = size(name)?;
            if compat
                && size > 4
                && !matches!(name, "fds" | "pollfd" | "sigset" | "epoll" | "oldmmap")
            {
                return None;
            }
            let copied = match items {
                Items::One => CopyRule::Bytes(size),
                Items::Argument(count) => CopyRule::Items { count, size, most: ARRAY },
                Items::Returned => CopyRule::Returned { size, most: ARRAY },
            };
            (copied, when)
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;
    use crate::names::CallNames;

    #[test]
    fn signatures_name_known_calls_tables_and_structures() {
        let signatures = Signatures::default();
        let flags = Flags::default();
        let names: Vec<_> = CallNames::default().calls().map(|(_, name)| name).collect();
        for (call, kinds) in &signatures.0 {
            let call = call.strip_prefix("i386:").unwrap_or(call);
            assert!(names.contains(&call) || cfg!(not(target_arch = "x86_64")), "{call}");
            assert!(kinds.len() <= 6, "{call}");
            for kind in kinds {
                match kind {
                    ArgumentKind::Flags(table) | ArgumentKind::Number(table) => {
                        assert!(flags.has(table), "{call}: {table}");
                    }
                    ArgumentKind::Struct { name, .. } => {
                        assert!(size(name).is_some(), "{call}: {name}");
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn plans_copy_the_memory_that_is_printed() {
        let signatures = Signatures::default();
        let plan = signatures.plan("openat", false, 32, false);
        assert_eq!(plan.arguments[1], (CopyRule::Text(4096), ENTER));
        let plan = signatures.plan("read", true, 32, false);
        assert_eq!(plan.arguments[1], (CopyRule::Returned { size: 1, most: 33 }, SUCCESS));
        assert_eq!(signatures.plan("nanosleep", true, 32, false).arguments[0].0, CopyRule::Nothing);
        let plan = signatures.plan("pipe2", false, 32, true);
        assert_eq!(plan.arguments[0], (CopyRule::Descriptors, SUCCESS));
        assert!(!plan.returns_descriptor);
        let plan = signatures.plan("openat", false, 32, true);
        assert_eq!(plan.arguments[0], (CopyRule::Descriptor, ENTER));
        assert!(plan.returns_descriptor);
        assert_eq!(signatures.plan("no_such_call", false, 32, true), CallPlan::default());
    }
}
