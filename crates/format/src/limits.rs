//! Limits on the work and memory that a recording can cause, because files are untrusted.

/// Bytes of a reader's buffer. It holds many records of at most 64 KiB each, and fits in a CPU
/// cache.
pub const READ_BUFFER: usize = 1 << 20;

/// Maximum bytes of one entry of the attribute section: an attribute and 16 bytes that locate its
/// ids. The kernel accepts no `perf_event_attr` longer than a page.
pub const ATTR_ENTRY: u64 = 4096 + 16;

/// Events in one recording. A kernel has about 3,000 tracepoints. An event without ids, or one that
/// a record describes, is compared with all others, so the limit also bounds that work.
pub const EVENTS: usize = 1 << 13;

/// Ids of all events together: one per event and CPU, enough for 1,000 events on 4,096 CPUs.
pub const IDS: usize = 1 << 22;

/// Bytes of all feature sections together. The largest is tracing data: about 15 MiB for all
/// tracepoints and the kernel's symbols.
pub const FEATURE_BYTES: u64 = 128 << 20;

/// Items in one list of a feature section: events, nodes, strings.
pub const LIST_ITEMS: u32 = 1 << 16;

/// Bytes of all notes together: see [`crate::file::note`].
pub const NOTE_BYTES: usize = 4 << 20;

/// Gaps that are listed one by one. Further gaps are only counted and summed.
pub const GAPS: usize = 64;

/// Default limit of the bodies of records that are held in memory for sorting, in bytes: as much as
/// eight rings of 8 MiB hold. [`crate::order::Sorter`] moves more to a temporary file.
pub const SORT_BYTES: usize = 64 << 20;

/// Bytes of the buffer for decompressed records: at least four of the largest.
pub const UNPACK_BUFFER: usize = 256 << 10;

/// Bytes that one compressed record may decompress to. perf compresses at most one ring's contents
/// into a record.
pub const UNPACKED: u64 = 256 << 20;

/// Maximum distance of back references in compressed data, as a power of two: 128 MiB, as at level
/// 22.
pub const UNPACK_WINDOW_LOG: u32 = 27;
