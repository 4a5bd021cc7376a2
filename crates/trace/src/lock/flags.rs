//! The flags of `lock:contention_begin` (`include/trace/events/lock.h`).

pub(super) const SPIN: u32 = 1;
pub(super) const READ: u32 = 2;
pub(super) const WRITE: u32 = 4;
pub(super) const RT: u32 = 8;
pub(super) const PERCPU: u32 = 16;
pub(super) const MUTEX: u32 = 32;
