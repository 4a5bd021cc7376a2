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
    /// The name came with a new program (`PERF_RECORD_MISC_COMM_EXEC`): earlier mappings are gone.
    pub is_exec: bool,
}

impl<'a> Comm<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>, misc: u16) -> Option<Self> {
        let is_exec = u32::from(misc) & PERF_RECORD_MISC_COMM_EXEC != 0;
        Some(Self { pid: fields.i32()?, tid: fields.i32()?, comm: fields.text(), is_exec })
    }
}

/// A thread that began or ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Task {
    /// The process.
    pub pid: i32,
    /// The process that it came from.
    pub ppid: i32,
    /// The thread.
    pub tid: i32,
    /// The thread that it came from.
    pub ptid: i32,
    /// Time on the recording's clock.
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

/// A CPU went from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The record's thread left the CPU; else it came.
    pub is_out: bool,
    /// It left while it could have gone on.
    pub is_preempted: bool,
    /// Process and thread that come next, or that were there before; `None` where only one thread
    /// is recorded.
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
