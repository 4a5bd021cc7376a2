//! How much memory is in use.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that are allocated now.
#[must_use]
pub(crate) fn in_use() -> usize {
    let stats = ALLOCATOR.stats();
    let grown = stats.bytes_allocated.wrapping_add_signed(stats.bytes_reallocated);
    grown.wrapping_sub(stats.bytes_deallocated)
}
