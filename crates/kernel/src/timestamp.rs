//! The CPU's own clock, which a program reads without asking the kernel: fine enough to see single
//! interrupts as gaps.

use rustix::time::{ClockId, clock_gettime};

/// The clock's count, in ticks of a length that this module doesn't know; it only grows on a CPU
/// that one stays on.
///
/// x86_64: the time-stamp counter (`rdtsc`). aarch64: the virtual counter (`cntvct_el0`), which
/// Linux lets programs read. Elsewhere nanoseconds of `CLOCK_MONOTONIC_RAW`.
#[inline]
#[must_use]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86_64 has the instruction, and it touches no memory. Linux forbids it only
        // to a process that asked for that itself (`PR_SET_TSC`).
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

/// Nanoseconds of `CLOCK_MONOTONIC_RAW`, a clock that perf can stamp its records with.
#[must_use]
pub fn raw_ns() -> u64 {
    read_ns(ClockId::MonotonicRaw)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock that events are opened with unless others are asked
/// for.
#[must_use]
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::Monotonic)
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
    fn both_clocks_move_on() {
        let ticks_before = ticks();
        let ns_before = raw_ns();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(raw_ns() - ns_before >= 1_000_000);
        assert!(ticks() > ticks_before);
    }
}
