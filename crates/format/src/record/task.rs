//! Records about threads.

use perf_event_open_sys::bindings::{
    PERF_RECORD_MISC_COMM_EXEC, PERF_RECORD_MISC_SWITCH_OUT, PERF_RECORD_MISC_SWITCH_OUT_PREEMPT,
};

use crate::bytes::Cursor;

/// A thread's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comm<'a> {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The name, any bytes but NUL.
    pub comm: &'a [u8],
    /// Whether the thread executed a new program (`PERF_RECORD_MISC_COMM_EXEC`), which replaces the
    /// mappings of its process.
    pub is_exec: bool,
}

impl<'a> Comm<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>, misc: u16) -> Option<Self> {
        let is_exec = u32::from(misc) & PERF_RECORD_MISC_COMM_EXEC != 0;
        Some(Self { pid: fields.i32()?, tid: fields.i32()?, comm: fields.text(), is_exec })
    }
}

/// A thread that started or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The process.
    pub pid: i32,
    /// The process that created the thread; for a thread that ended, the parent process.
    pub ppid: i32,
    /// The thread.
    pub tid: i32,
    /// The thread that created the thread; for a thread that ended, the parent process.
    pub ptid: i32,
    /// Time in nanoseconds of the recording's clock.
    pub time_ns: u64,
}

impl Task {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        Some(Self {
            pid: fields.i32()?,
            ppid: fields.i32()?,
            tid: fields.i32()?,
            ptid: fields.i32()?,
            time_ns: fields.u64()?,
        })
    }
}

/// A CPU switched from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// Whether the record's thread stopped running; otherwise it started.
    pub is_out: bool,
    /// Whether it was still runnable when it stopped.
    pub is_preempted: bool,
    /// Process and thread that run next, or that ran before; `None` in a recording of single
    /// threads.
    pub other: Option<(i32, i32)>,
}

impl Switch {
    pub(super) fn decode(misc: u16, other: Option<(i32, i32)>) -> Self {
        let has = |bit: u32| u32::from(misc) & bit != 0;
        Self {
            is_out: has(PERF_RECORD_MISC_SWITCH_OUT),
            is_preempted: has(PERF_RECORD_MISC_SWITCH_OUT_PREEMPT),
            other,
        }
    }
}
