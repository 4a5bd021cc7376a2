//! Numbers of the format: records from 64 on are perf's own (`tools/lib/perf/include/perf/event.h`), features are `HEADER_*` of
//! `tools/perf/util/header.h`.

pub(super) const HEADER_ATTR: u32 = 64;
pub(super) const HEADER_TRACING_DATA: u32 = 66;
pub(super) const HEADER_BUILD_ID: u32 = 67;
pub(super) const FINISHED_ROUND: u32 = 68;
pub(super) const EVENT_UPDATE: u32 = 78;
pub(super) const HEADER_FEATURE: u32 = 80;
pub(super) const FINISHED_INIT: u32 = 82;

pub(super) const TRACING_DATA: u32 = 1;
pub(super) const BUILD_ID: u32 = 2;
pub(super) const HOSTNAME: u32 = 3;
pub(super) const OSRELEASE: u32 = 4;
pub(super) const VERSION: u32 = 5;
pub(super) const ARCH: u32 = 6;
pub(super) const NRCPUS: u32 = 7;
pub(super) const CPUDESC: u32 = 8;
pub(super) const CPUID: u32 = 9;
pub(super) const TOTAL_MEM: u32 = 10;
pub(super) const CMDLINE: u32 = 11;
pub(super) const EVENT_DESC: u32 = 12;
pub(super) const CPU_TOPOLOGY: u32 = 13;
pub(super) const PMU_MAPPINGS: u32 = 16;
pub(super) const SAMPLE_TIME: u32 = 21;
pub(super) const CLOCKID: u32 = 23;
pub(super) const CLOCK_DATA: u32 = 29;
