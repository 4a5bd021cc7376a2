//! The memory that rings may have.

use rustix::param::page_size;
use tare_kernel::host::{CapabilitySet, Host, locked_memory};

/// Largest default ring in bytes, if that much memory may be locked.
pub(crate) const LARGEST: usize = 8 << 20;

/// Returns the largest power of two that each ring can have, besides its control page; at least a
/// page.
pub(crate) fn share(all: u64, rings: usize) -> usize {
    let page = page_size();
    let each =
        usize::try_from(all / rings.max(1) as u64).unwrap_or(usize::MAX).saturating_sub(page);
    if each < page { page } else { 1 << each.ilog2() }
}

/// Returns the bytes that this user may lock for rings; `None`: unlimited. Some KiB per CPU are
/// reserved for the user's rings (`kernel.perf_event_mlock_kb`), the rest counts against the
/// process's limit (`perf_mmap`, `kernel/events/core.c`).
pub(crate) fn lockable(host: &Host) -> Option<u64> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_share_the_locked_memory() {
        let page = page_size();
        assert_eq!(share(2 * (8 << 20) as u64 + 2 * page as u64, 2), 8 << 20);
        assert_eq!(share(2 * (8 << 20) as u64, 2), 4 << 20);
        assert_eq!(share(0, 2), page);
        assert_eq!(share(u64::MAX, 1), 1 << 63);
    }
}
