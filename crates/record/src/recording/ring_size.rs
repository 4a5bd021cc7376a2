//! The size of rings, and the number of threads that read them.
//!
//! The kernel clears and maps each page of a ring, which takes much of the time of starting and
//! ending. So rings hold some seconds of records if the rates of all events are known, and
//! otherwise get the maximum.

use std::time::Duration;

use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags};
use tare_kernel::host::{Host, address_space};

use crate::options::{Keep, Rings};
use crate::plan::PlannedEvent;
use crate::ring_memory::{LARGEST, lockable, share};
use crate::warning::{RingLimit, Warning};

/// Smallest default ring in bytes. The rate of task and mapping records has no limit: four
/// processes that only mapped code, 70,000 times per second on a busy machine, filled 1 MiB once,
/// and never 2 MiB.
const SMALLEST: usize = 2 << 20;

/// Time for which a ring is to hold samples while the reader waits for a disk, within the limits on
/// its size. Samples with the deepest call chains, of 127 frames, fit for a quarter of that, which
/// is four default flush intervals.
const AWAY: Duration = Duration::from_secs(4);

/// Assumed frames of a call chain.
const FRAMES: u64 = 24;

/// Bytes of a branch stack with 32 entries.
const BRANCHES: u64 = 16 + 32 * 24;

/// Returns the intended bytes of each ring.
pub(super) fn wanted(rings: &Rings, events: &[PlannedEvent]) -> u64 {
    rings.bytes.unwrap_or_else(|| fitting(rings, events).unwrap_or(LARGEST) as u64)
}

/// Returns the bytes for the records of some seconds; `None` if a rate or a sample's size is
/// unknown, or if rings hold the kept records.
fn fitting(rings: &Rings, events: &[PlannedEvent]) -> Option<usize> {
    let is_overwritten = |event: &PlannedEvent| event.attr.flags.contains(Flags::WRITE_BACKWARD);
    if rings.keep == Keep::WhatFits || events.iter().any(is_overwritten) {
        return None;
    }
    let away_ms = AWAY.max(2 * rings.flush_interval).as_millis();
    let each = events.iter().map(|event| {
        let bytes = u128::from(event.samples_a_second()?) * u128::from(sample_bytes(&event.attr)?);
        Some(bytes * away_ms / 1000)
    });
    // A size that overflows is limited anyway.
    let bytes = usize::try_from(each.sum::<Option<u128>>()?).unwrap_or(LARGEST);
    Some(bytes.clamp(SMALLEST, LARGEST).next_power_of_two())
}

/// Returns the bytes of a sample with an average call chain; `None` if a field has no limit here.
fn sample_bytes(attr: &Attr) -> Option<u64> {
    let has = |field: u32| attr.sample_type & u64::from(field) != 0;
    if has(abi::PERF_SAMPLE_RAW) || has(abi::PERF_SAMPLE_READ) || has(abi::PERF_SAMPLE_AUX) {
        return None;
    }
    let registers = |of: u64| 8 + 8 * u64::from(of.count_ones());
    let parts = [
        // A header, and one word per field.
        (true, 8 + 8 * u64::from(attr.sample_type.count_ones())),
        (has(abi::PERF_SAMPLE_CALLCHAIN), 8 * FRAMES),
        (has(abi::PERF_SAMPLE_BRANCH_STACK), BRANCHES),
        (has(abi::PERF_SAMPLE_REGS_USER), registers(attr.sample_regs_user)),
        (has(abi::PERF_SAMPLE_REGS_INTR), registers(attr.sample_regs_intr)),
        (has(abi::PERF_SAMPLE_STACK_USER), 8 + u64::from(attr.sample_stack_user)),
    ];
    Some(parts.iter().filter(|(has, _)| *has).map(|(_, bytes)| *bytes).sum())
}

/// CPUs that one reader thread can serve.
const CPUS_A_READER: usize = 32;

/// Returns the bytes of each of `rings` rings: the intended size, or the most that may be locked
/// for all of them. Mapping falls back further if that is still too much.
pub(super) fn bytes(wanted: u64, rings: usize, host: &Host) -> usize {
    let wanted = usize::try_from(wanted).unwrap_or(LARGEST);
    match lockable(host) {
        Some(all) => wanted.min(share(all, rings)),
        None => wanted,
    }
}

/// Returns a warning if ring buffers are smaller than intended. `tried` is the result of [`bytes`],
/// `copied_bytes` that of [`crate::plan::RecordPlan::small_copy`].
pub(super) fn warning(
    wanted_bytes: u64,
    tried: usize,
    smallest: usize,
    copied_bytes: Option<u32>,
) -> Option<Warning> {
    let bytes = smallest as u64;
    // `tried` bytes may be locked. If mapping fell back all the same and the address space is
    // limited, that limit is the reason.
    let limit = if smallest < tried && address_space().current.is_some() {
        RingLimit::AddressSpace
    } else {
        RingLimit::LockedMemory
    };
    let small = Warning::SmallRings { bytes, wanted_bytes, copied_bytes, limit };
    (bytes < wanted_bytes).then_some(small)
}

/// Returns the default number of threads that read rings, including the main one.
pub(super) fn readers(host: &Host) -> usize {
    host.online_cpus().map_or(1, |cpus| cpus.as_slice().len().div_ceil(CPUS_A_READER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smaller_rings_give_a_warning() {
        assert_eq!(warning(4096, 4096, 4096, None), None);
        assert_eq!(
            warning(8 << 20, 65536, 65536, Some(4096)),
            Some(Warning::SmallRings {
                bytes: 65536,
                wanted_bytes: 8 << 20,
                copied_bytes: Some(4096),
                limit: RingLimit::LockedMemory
            })
        );
    }

    #[test]
    fn a_sample_has_a_word_per_field_and_its_variable_parts() {
        let bits = abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME;
        let attr = |more: u32| Attr { sample_type: (bits | more).into(), ..Attr::default() };
        assert_eq!(sample_bytes(&attr(0)), Some(32));
        assert_eq!(sample_bytes(&attr(abi::PERF_SAMPLE_CALLCHAIN)), Some(40 + 192));
        let stack = Attr { sample_stack_user: 8192, ..attr(abi::PERF_SAMPLE_STACK_USER) };
        assert_eq!(sample_bytes(&stack), Some(40 + 8 + 8192));
        assert_eq!(sample_bytes(&attr(abi::PERF_SAMPLE_RAW)), None);
    }
}
