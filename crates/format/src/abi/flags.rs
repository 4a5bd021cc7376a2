//! The one-bit fields of `perf_event_attr`. The names are the kernel's;
//! `include/uapi/linux/perf_event.h` documents them.
#![allow(missing_docs)]

use bitflags::bitflags;

bitflags! {
    /// The one-bit fields of `perf_event_attr`, without `freq` (see `Sampling`) and `precise_ip`
    /// (see `Attr::precise_ip`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Flags: u64 {
        const DISABLED = 1;
        const INHERIT = 1 << 1;
        const PINNED = 1 << 2;
        const EXCLUSIVE = 1 << 3;
        const EXCLUDE_USER = 1 << 4;
        const EXCLUDE_KERNEL = 1 << 5;
        const EXCLUDE_HV = 1 << 6;
        const EXCLUDE_IDLE = 1 << 7;
        const MMAP = 1 << 8;
        const COMM = 1 << 9;
        const INHERIT_STAT = 1 << 11;
        const ENABLE_ON_EXEC = 1 << 12;
        const TASK = 1 << 13;
        const WATERMARK = 1 << 14;
        const MMAP_DATA = 1 << 17;
        const SAMPLE_ID_ALL = 1 << 18;
        const EXCLUDE_HOST = 1 << 19;
        const EXCLUDE_GUEST = 1 << 20;
        const EXCLUDE_CALLCHAIN_KERNEL = 1 << 21;
        const EXCLUDE_CALLCHAIN_USER = 1 << 22;
        const MMAP2 = 1 << 23;
        const COMM_EXEC = 1 << 24;
        const USE_CLOCKID = 1 << 25;
        const CONTEXT_SWITCH = 1 << 26;
        const WRITE_BACKWARD = 1 << 27;
        const NAMESPACES = 1 << 28;
        const KSYMBOL = 1 << 29;
        const BPF_EVENT = 1 << 30;
        const AUX_OUTPUT = 1 << 31;
        const CGROUP = 1 << 32;
        const TEXT_POKE = 1 << 33;
        const BUILD_ID = 1 << 34;
        const INHERIT_THREAD = 1 << 35;
        const REMOVE_ON_EXEC = 1 << 36;
        const SIGTRAP = 1 << 37;
        const DEFER_CALLCHAIN = 1 << 38;
        const DEFER_OUTPUT = 1 << 39;
    }
}
