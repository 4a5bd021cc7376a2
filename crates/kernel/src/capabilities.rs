//! Gives up capabilities (capabilities(7)) that aren't needed anymore.
//!
//! Capabilities belong to threads: each thread gives up its own. A thread can't regain them; a
//! program that it executes as root has all of them again.

use rustix::io::Errno;
pub use rustix::thread::CapabilitySet;
use rustix::thread::{CapabilitySets, capabilities, set_capabilities};

/// The capabilities that a profiler needs after it has opened its events; `docs/security.md` gives
/// the reasons.
const WHILE_MEASURING: CapabilitySet = CapabilitySet::PERFMON
    .union(CapabilitySet::BPF)
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::IPC_LOCK)
    .union(CapabilitySet::SYS_NICE);

/// The capabilities to open the binaries of other users and of containers, through `/proc/PID/root`
/// and `map_files` too.
const TO_READ_FILES: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::SYSLOG);

/// Capabilities that were part of `CAP_SYS_ADMIN` before Linux 5.9.
const SPLIT_OFF: CapabilitySet =
    CapabilitySet::PERFMON.union(CapabilitySet::BPF).union(CapabilitySet::CHECKPOINT_RESTORE);

/// Returns how tare gets these capabilities (`CAP_BPF and CAP_PERFMON`). Root that is refused them
/// isn't told to be root.
#[must_use]
pub fn missing_capabilities(names: &str) -> String {
    if rustix::process::geteuid().is_root() {
        format!("root is refused {names} here, as in containers: start tare with them")
    } else {
        format!("run tare as root, or with {names}")
    }
}

/// Gives up all capabilities of the calling thread that aren't needed once events are open, except
/// `more`. A thread that lacks `CAP_PERFMON`, `CAP_BPF` or `CAP_CHECKPOINT_RESTORE`, as all do
/// before Linux 5.9, also keeps `CAP_SYS_ADMIN`.
///
/// # Errors
/// The errors of capset(2); a seccomp filter may refuse it.
pub fn keep_while_measuring(more: CapabilitySet) -> Result<(), Errno> {
    let now = capabilities(None)?;
    let admin = if now.permitted.contains(SPLIT_OFF) {
        CapabilitySet::empty()
    } else {
        CapabilitySet::SYS_ADMIN
    };
    keep(now, WHILE_MEASURING | admin | more)
}

/// Gives up all capabilities of the calling thread: it only uses files that others opened.
///
/// # Errors
/// As [`keep_while_measuring`].
pub fn keep_none() -> Result<(), Errno> {
    keep(capabilities(None)?, CapabilitySet::empty())
}

/// Gives up all capabilities of the calling thread, except those to open files for reading: it
/// reads the binaries of other processes and the kernel's symbols.
///
/// # Errors
/// As [`keep_while_measuring`].
pub fn keep_to_read_files() -> Result<(), Errno> {
    keep(capabilities(None)?, TO_READ_FILES)
}

fn keep(now: CapabilitySets, kept: CapabilitySet) -> Result<(), Errno> {
    let left = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: now.inheritable & kept,
    };
    if left == now { Ok(()) } else { set_capabilities(None, left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_a_thread(give_up: fn() -> Result<(), Errno>) -> CapabilitySets {
        let run = move || {
            give_up().unwrap();
            capabilities(None).unwrap()
        };
        std::thread::spawn(run).join().unwrap()
    }

    #[test]
    fn a_thread_keeps_needed_capabilities_and_other_threads_keep_theirs() {
        let before = capabilities(None).unwrap();
        let left = in_a_thread(|| keep_while_measuring(CapabilitySet::empty()));
        assert!(before.permitted.contains(left.permitted));
        let dropped = CapabilitySet::SYS_MODULE | CapabilitySet::SETUID | CapabilitySet::NET_ADMIN;
        assert!(!left.permitted.intersects(dropped) && !left.effective.intersects(dropped));
        if before.permitted.contains(SPLIT_OFF | CapabilitySet::SYS_ADMIN) {
            assert!(left.effective.contains(SPLIT_OFF));
            assert!(!left.permitted.contains(CapabilitySet::SYS_ADMIN));
        } else {
            println!("skipped: needs root, and Linux 5.9");
        }
        let more = in_a_thread(|| keep_while_measuring(CapabilitySet::FOWNER));
        assert_eq!(
            more.permitted.contains(CapabilitySet::FOWNER),
            before.permitted.contains(CapabilitySet::FOWNER)
        );
        assert!(in_a_thread(keep_none).permitted.is_empty());
        let to_read = in_a_thread(keep_to_read_files).permitted;
        assert_eq!(to_read, before.permitted & TO_READ_FILES);
        assert_eq!(capabilities(None).unwrap(), before);
    }
}
