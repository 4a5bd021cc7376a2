//! Limits on the work and memory that a recording can cause. Files are untrusted; what exceeds a
//! limit is left out and accounted for.

/// Bytes that a reader holds of the data section: enough for many records of at most 64 KiB, few
/// enough to stay in a cache.
pub const READ_BUFFER: usize = 1 << 20;

/// Bytes of one entry of the attribute section. The kernel itself takes no `perf_event_attr` longer
/// than a page.
pub const ATTR_ENTRY: u64 = 4096 + 16;

/// Events in one recording. All tracepoints of a kernel are some 3,000; where events have no ids,
/// each is compared with all.
pub const EVENTS: usize = 1 << 13;

/// Ids of all events together: one for each event and CPU, 1,000 events on 4,096 CPUs.
pub const IDS: usize = 1 << 22;

/// Bytes of all feature sections together. The largest is tracing data: formats of all tracepoints
/// and the kernel's symbols, some 15 MiB.
pub const FEATURE_BYTES: u64 = 128 << 20;

/// Items in one list of a feature section: CPUs, nodes, strings.
pub const LIST_ITEMS: u32 = 1 << 16;

/// Bytes of all notes together: see [`crate::file::note`].
pub const NOTE_BYTES: usize = 4 << 20;

/// Gaps that are kept one by one. Later ones are only added up.
pub const GAPS: usize = 64;

/// Bytes of records that wait to be put in order, unless told otherwise. One round of `perf record`
/// is at most what its rings hold: 8 MiB on each of eight CPUs.
pub const SORT_BYTES: usize = 64 << 20;

/// Bytes of a buffer for records that were compressed: at least four of the largest.
pub const UNPACK_BUFFER: usize = 256 << 10;

/// Bytes that one compressed record may yield. perf's yield at most a ring of records each.
pub const UNPACKED: u64 = 256 << 20;

/// Maximum distance of back references in compressed data, as a power of two: 128 MiB, as at level
/// 22.
pub const UNPACK_WINDOW_LOG: u32 = 27;
