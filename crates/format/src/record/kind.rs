//! The kinds of records. The kernel's are in `include/uapi/linux/perf_event.h` (`enum
//! perf_event_type`), perf's own, from 64 on, in `tools/lib/perf/include/perf/event.h` (`enum
//! perf_user_event_type`).
#![allow(missing_docs, reason = "the names are those of the two headers")]

pub use perf_event_open_sys::bindings::{
    PERF_RECORD_AUX, PERF_RECORD_AUX_OUTPUT_HW_ID, PERF_RECORD_BPF_EVENT,
    PERF_RECORD_CALLCHAIN_DEFERRED, PERF_RECORD_CGROUP, PERF_RECORD_COMM, PERF_RECORD_EXIT,
    PERF_RECORD_FORK, PERF_RECORD_ITRACE_START, PERF_RECORD_KSYMBOL, PERF_RECORD_LOST,
    PERF_RECORD_LOST_SAMPLES, PERF_RECORD_MMAP, PERF_RECORD_MMAP2, PERF_RECORD_NAMESPACES,
    PERF_RECORD_READ, PERF_RECORD_SAMPLE, PERF_RECORD_SWITCH, PERF_RECORD_SWITCH_CPU_WIDE,
    PERF_RECORD_TEXT_POKE, PERF_RECORD_THROTTLE, PERF_RECORD_UNTHROTTLE,
};

/// The first of the kinds that only recorders write.
pub const USER_TYPE_START: u32 = 64;
pub const HEADER_ATTR: u32 = 64;
pub const HEADER_EVENT_TYPE: u32 = 65;
pub const HEADER_TRACING_DATA: u32 = 66;
pub const HEADER_BUILD_ID: u32 = 67;
pub const FINISHED_ROUND: u32 = 68;
pub const ID_INDEX: u32 = 69;
pub const AUXTRACE_INFO: u32 = 70;
pub const AUXTRACE: u32 = 71;
pub const AUXTRACE_ERROR: u32 = 72;
pub const THREAD_MAP: u32 = 73;
pub const CPU_MAP: u32 = 74;
pub const STAT_CONFIG: u32 = 75;
pub const STAT: u32 = 76;
pub const STAT_ROUND: u32 = 77;
pub const EVENT_UPDATE: u32 = 78;
pub const TIME_CONV: u32 = 79;
pub const HEADER_FEATURE: u32 = 80;
pub const COMPRESSED: u32 = 81;
pub const FINISHED_INIT: u32 = 82;
pub const COMPRESSED2: u32 = 83;

const NAMES: &[(u32, &str)] = &[
    (PERF_RECORD_MMAP, "MMAP"),
    (PERF_RECORD_LOST, "LOST"),
    (PERF_RECORD_COMM, "COMM"),
    (PERF_RECORD_EXIT, "EXIT"),
    (PERF_RECORD_THROTTLE, "THROTTLE"),
    (PERF_RECORD_UNTHROTTLE, "UNTHROTTLE"),
    (PERF_RECORD_FORK, "FORK"),
    (PERF_RECORD_READ, "READ"),
    (PERF_RECORD_SAMPLE, "SAMPLE"),
    (PERF_RECORD_MMAP2, "MMAP2"),
    (PERF_RECORD_AUX, "AUX"),
    (PERF_RECORD_ITRACE_START, "ITRACE_START"),
    (PERF_RECORD_LOST_SAMPLES, "LOST_SAMPLES"),
    (PERF_RECORD_SWITCH, "SWITCH"),
    (PERF_RECORD_SWITCH_CPU_WIDE, "SWITCH_CPU_WIDE"),
    (PERF_RECORD_NAMESPACES, "NAMESPACES"),
    (PERF_RECORD_KSYMBOL, "KSYMBOL"),
    (PERF_RECORD_BPF_EVENT, "BPF_EVENT"),
    (PERF_RECORD_CGROUP, "CGROUP"),
    (PERF_RECORD_TEXT_POKE, "TEXT_POKE"),
    (PERF_RECORD_AUX_OUTPUT_HW_ID, "AUX_OUTPUT_HW_ID"),
    (PERF_RECORD_CALLCHAIN_DEFERRED, "CALLCHAIN_DEFERRED"),
    (HEADER_ATTR, "ATTR"),
    (HEADER_EVENT_TYPE, "EVENT_TYPE"),
    (HEADER_TRACING_DATA, "TRACING_DATA"),
    (HEADER_BUILD_ID, "BUILD_ID"),
    (FINISHED_ROUND, "FINISHED_ROUND"),
    (ID_INDEX, "ID_INDEX"),
    (AUXTRACE_INFO, "AUXTRACE_INFO"),
    (AUXTRACE, "AUXTRACE"),
    (AUXTRACE_ERROR, "AUXTRACE_ERROR"),
    (THREAD_MAP, "THREAD_MAP"),
    (CPU_MAP, "CPU_MAP"),
    (STAT_CONFIG, "STAT_CONFIG"),
    (STAT, "STAT"),
    (STAT_ROUND, "STAT_ROUND"),
    (EVENT_UPDATE, "EVENT_UPDATE"),
    (TIME_CONV, "TIME_CONV"),
    (HEADER_FEATURE, "FEATURE"),
    (COMPRESSED, "COMPRESSED"),
    (FINISHED_INIT, "FINISHED_INIT"),
    (COMPRESSED2, "COMPRESSED2"),
];

/// Returns the name of a kind, as in `perf report --stats`; `None` if it is unknown.
#[must_use]
pub fn name(kind: u32) -> Option<&'static str> {
    NAMES.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}
