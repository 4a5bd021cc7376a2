//! AUX data: traces that hardware writes into a ring of their own. Source:
//! `tools/lib/perf/include/perf/event.h`, at `struct perf_record_auxtrace_info`, and
//! `tools/perf/util/auxtrace.h`.

use crate::bytes::{Cursor, Words, until_nul};

/// AUX data that arrived in the AUX ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aux {
    /// Number of bytes that the AUX ring received before this data.
    pub offset: u64,
    /// Length in bytes.
    pub size: u64,
    /// `PERF_AUX_FLAG_*`.
    pub flags: u64,
}

impl Aux {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        Some(Self { offset: fields.u64()?, size: fields.u64()?, flags: fields.u64()? })
    }
}

/// AUX data follows, as it came from the hardware.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auxtrace {
    /// Bytes that follow the record.
    pub size: u64,
    /// Offset in the AUX ring, in bytes.
    pub offset: u64,
    /// Identifies this AUX data.
    pub reference: u64,
    /// The AUX ring's number.
    pub idx: u32,
    /// The thread; -1 is any.
    pub tid: i32,
    /// The CPU; -1 is any.
    pub cpu: i32,
}

impl Auxtrace {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        Some(Self {
            size: fields.u64()?,
            offset: fields.u64()?,
            reference: fields.u64()?,
            idx: fields.u32()?,
            tid: fields.i32()?,
            cpu: fields.i32()?,
        })
    }
}

/// The hardware that wrote the AUX data, and parameters for its decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceInfo<'a> {
    /// `PERF_AUXTRACE_*`: see [`AuxtraceInfo::name`].
    pub kind: u32,
    /// Parameters for the decoder of this kind.
    pub private: Words<'a>,
}

impl<'a> AuxtraceInfo<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let kind = fields.u32()?;
        fields.u32()?;
        Some(Self { kind, private: Words::new(fields.rest(), fields.endian()) })
    }

    /// Returns the hardware's name (`enum auxtrace_type`); `None` if it is unknown.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        let names = [
            "Intel PT",
            "Intel BTS",
            "CoreSight ETM",
            "Arm SPE",
            "s390 CPU-MF",
            "HiSilicon PTT",
            "VPA DTL",
        ];
        let index = usize::try_from(self.kind).ok()?.checked_sub(1)?;
        names.get(index).copied()
    }
}

/// A part of a trace that its decoder could not decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuxtraceError<'a> {
    /// The kind of trace: 1 is an instruction trace.
    pub kind: u32,
    /// The decoder's own number for the error.
    pub code: u32,
    /// The CPU.
    pub cpu: i32,
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The address of the instruction.
    pub ip: u64,
    /// Time in nanoseconds of the recording's clock, if recorded.
    pub time_ns: Option<u64>,
    /// The decoder's message.
    pub message: &'a [u8],
}

impl<'a> AuxtraceError<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let kind = fields.u32()?;
        let code = fields.u32()?;
        let cpu = fields.i32()?;
        let pid = fields.i32()?;
        let tid = fields.i32()?;
        let format = fields.u32()?;
        let ip = fields.u64()?;
        // Format 0 has no time.
        let time_ns = if format > 0 { Some(fields.u64()?) } else { None };
        let message = until_nul(&fields.rest()[..fields.rest().len().min(64)]);
        Some(Self { kind, code, cpu, pid, tid, ip, time_ns, message })
    }
}
