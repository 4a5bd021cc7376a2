//! The CPU's clock, which a program reads without a system call, fine enough to show single
//! interrupts as gaps; and two of the kernel's clocks.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use rustix::time::{ClockId, clock_gettime};

/// Returns the clock's count in ticks of unknown length. On one CPU it never decreases.
///
/// x86_64: the time-stamp counter (`rdtsc`). aarch64: the virtual counter (`cntvct_el0`), which
/// Linux lets programs read. Elsewhere: nanoseconds of `CLOCK_MONOTONIC_RAW`.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86_64 has the instruction, and it touches no memory. Linux forbids it only
        // to a process that requested that itself (`PR_SET_TSC`).
        #[allow(unsafe_code)]
        unsafe {
            core::arch::x86_64::_rdtsc()
        }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: reads a register that Linux lets user mode read, and touches neither memory nor
        // flags.
        #[allow(unsafe_code)]
        unsafe {
            core::arch::asm!("isb", "mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
        }
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        raw_ns()
    }
}

/// Returns nanoseconds of `CLOCK_MONOTONIC_RAW`, one of the clocks for perf's records.
#[must_use]
pub fn raw_ns() -> u64 {
    read_ns(ClockId::MonotonicRaw)
}

/// Returns nanoseconds of `CLOCK_MONOTONIC`, the default clock of tare's events.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
}

/// Whether a file was last written before a time in nanoseconds since 1970. File systems note times
/// to a tick of the kernel's timer, some to a second.
#[must_use]
pub fn was_written_before(file: &File, time_ns: u64) -> bool {
    const TICKS_NS: i128 = 50_000_000;
    const SECONDS_NS: i128 = 2_000_000_000;
    file.metadata().is_ok_and(|meta| {
        let written_ns = i128::from(meta.mtime()) * 1_000_000_000 + i128::from(meta.mtime_nsec());
        let precision_ns = if meta.mtime_nsec() == 0 { SECONDS_NS } else { TICKS_NS };
        written_ns + precision_ns < i128::from(time_ns)
    })
}

fn read_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_advance() {
        let ticks_before = ticks();
        let ns_before = raw_ns();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(raw_ns() - ns_before >= 1_000_000);
        assert!(ticks() > ticks_before);
    }
}
