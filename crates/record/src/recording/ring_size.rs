//! How large rings are, and how many threads read them.

use rustix::param::page_size;
use tare_kernel::host::{CapabilitySet, Host, address_space, locked_memory};

use crate::warning::{RingLimit, Warning};

/// What a ring has where memory may be locked.
const LARGEST: usize = 8 << 20;

/// CPUs for which one thread that reads is enough.
const CPUS_A_READER: usize = 32;

/// Bytes of each of so many rings: what the user asked for, or the most that may be locked in
/// memory for all of them together. Mapping falls back further where that turns out to be too much.
pub(super) fn bytes(asked: Option<u64>, rings: usize, host: &Host) -> usize {
    let asked = asked.map_or(LARGEST, |asked| usize::try_from(asked).unwrap_or(LARGEST));
    match lockable(host) {
        Some(all) => asked.min(share(all, rings)),
        None => asked,
    }
}

/// A warning where ring buffers came out smaller than they could be, or than was asked for.
/// `tried` is what [`bytes`] said.
pub(super) fn warning(asked: Option<u64>, tried: usize, smallest: usize) -> Option<Warning> {
    let (bytes, wanted_bytes) = (smallest as u64, asked.unwrap_or(LARGEST as u64));
    // As much as was tried may be locked: where mapping fell back all the same, and the address
    // space is limited, that is why.
    let limit = if smallest < tried && address_space().current.is_some() {
        RingLimit::AddressSpace
    } else {
        RingLimit::LockedMemory
    };
    (bytes < wanted_bytes).then_some(Warning::SmallRings { bytes, wanted_bytes, limit })
}

/// The largest power of two that each ring can have, with its page of control.
fn share(all: u64, rings: usize) -> usize {
    let page = page_size();
    let each =
        usize::try_from(all / rings.max(1) as u64).unwrap_or(usize::MAX).saturating_sub(page);
    if each < page { page } else { 1 << each.ilog2() }
}

/// How much may be locked for rings by this user; `None`: any amount. The first so many KiB a CPU
/// are the user's share for rings (`kernel.perf_event_mlock_kb`), the rest counts against the limit
/// of the process (`perf_mmap`, `kernel/events/core.c`).
fn lockable(host: &Host) -> Option<u64> {
    let privileged = host.rights().is_ok_and(|rights| rights.has(CapabilitySet::IPC_LOCK));
    if privileged || host.sysctl("kernel.perf_event_paranoid").is_ok_and(|level| level < 0) {
        return None;
    }
    let limit = locked_memory().current?;
    let kib = host
        .sysctl("kernel.perf_event_mlock_kb")
        .ok()
        .and_then(|kib| u64::try_from(kib).ok())
        .unwrap_or(0);
    let cpus = host.online_cpus().map_or(1, |cpus| cpus.as_slice().len() as u64);
    Some(limit.saturating_add(kib.saturating_mul(1024).saturating_mul(cpus)))
}

/// How many threads read rings, the main one included.
pub(super) fn readers(host: &Host) -> usize {
    host.online_cpus().map_or(1, |cpus| cpus.as_slice().len().div_ceil(CPUS_A_READER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_rings_are_said() {
        assert_eq!(warning(None, LARGEST, LARGEST), None);
        assert_eq!(warning(Some(4096), 4096, 4096), None);
        assert_eq!(
            warning(None, 65536, 65536),
            Some(Warning::SmallRings {
                bytes: 65536,
                wanted_bytes: LARGEST as u64,
                limit: RingLimit::LockedMemory
            })
        );
    }

    #[test]
    fn rings_share_what_may_be_locked() {
        let page = page_size();
        assert_eq!(share(2 * (8 << 20) as u64 + 2 * page as u64, 2), 8 << 20);
        assert_eq!(share(2 * (8 << 20) as u64, 2), 4 << 20);
        assert_eq!(share(0, 2), page);
        assert_eq!(share(u64::MAX, 1), 1 << 63);
    }
}
