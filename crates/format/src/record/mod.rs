//! Records: what the kernel writes into a ring, and what a recorder adds in a file.
//!
//! ```text
//! | kind u32 | misc u16 | size u16 | body: size - 8 bytes ...                               |
//!                                   | fields of the kind ... | sample_id, if requested       |
//! ```
//! A [`Record`] borrows texts and lists from the bytes it was decoded from. Source:
//! `include/uapi/linux/perf_event.h`, at `enum perf_event_type`, and
//! `tools/lib/perf/include/perf/event.h`.

mod auxtrace;
mod data_source;
pub mod encode;
mod header;
pub mod kind;
mod layout;
mod map;
mod notice;
mod read;
mod sample;
mod setup;
mod stack_piece;
mod stat;
mod task;

pub use auxtrace::{Aux, Auxtrace, AuxtraceError, AuxtraceInfo};
pub use data_source::DataSource;
pub use header::{MISC_TRUNCATED_CHAIN, RecordHeader, TooLong};
pub use layout::{Events, Layout, SampleId};
pub use map::{BpfEvent, Cgroup, FileId, Ksymbol, Mmap, NamespaceLink, Namespaces, TextPoke};
pub use notice::{Lost, Throttle};
pub use read::{ReadValue, ReadValues, TaskRead};
pub use sample::{
    Branch, Branches, Registers, Sample, SampleHead, StackCopy, StackParts, UserStack,
};
pub use setup::{
    BuildId, CpuMap, EventUpdate, HeaderAttr, IdIndex, IdIndexEntry, ThreadMap, TimeConv, Update,
};
pub use stack_piece::StackPiece;
pub use stat::{Stat, StatConfig, StatRound};
pub use task::{Comm, Switch, Task};

use crate::bytes::{Cursor, Endian, Words};

/// Why a record could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The record ends before the fields that its kind and its event require, or a field is
    /// invalid.
    #[error("a record of kind {kind} with {len} bytes ends within its fields")]
    Truncated {
        /// The record's kind.
        kind: u32,
        /// The length of its body in bytes.
        len: usize,
    },
    /// A sample of an event that the recording doesn't describe.
    #[error("a record of kind {kind} belongs to no event that the recording describes")]
    NoEvent {
        /// The record's kind.
        kind: u32,
    },
}

/// A record with a decoded header and an undecoded body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawRecord<'a> {
    /// The kind of record: see [`kind`].
    pub kind: u32,
    /// `PERF_RECORD_MISC_*`; the meaning depends on the kind.
    pub misc: u16,
    /// Everything after the header.
    pub body: &'a [u8],
    /// The byte order of the body.
    pub endian: Endian,
}

impl<'a> RawRecord<'a> {
    /// Returns the record at the front of `bytes`; `None` if they hold no whole record, or its size
    /// is invalid.
    #[must_use]
    pub fn first(bytes: &'a [u8], endian: Endian) -> Option<Self> {
        let header = RecordHeader::first(bytes, endian)?;
        let body = bytes.get(RecordHeader::SIZE..header.record_size())?;
        Some(Self { kind: header.kind, misc: header.misc, body, endian })
    }

    /// Returns the length of header and body together, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        RecordHeader::SIZE + self.body.len()
    }

    /// Decodes the fields of the record's kind. Those of samples and reads are left out, because
    /// they depend on the event: see [`Sample::decode`] and [`TaskRead::decode`].
    ///
    /// # Errors
    /// Fails if the record is too short for its kind, or a field is invalid. Unknown kinds are
    /// returned as [`Record::Unknown`].
    pub fn decode(&self) -> Result<Record<'a>, DecodeError> {
        self.fields().ok_or(DecodeError::Truncated { kind: self.kind, len: self.body.len() })
    }

    fn fields(&self) -> Option<Record<'a>> {
        if self.kind >= kind::USER_TYPE_START {
            self.recorder_fields()
        } else {
            self.kernel_fields()
        }
    }

    fn kernel_fields(&self) -> Option<Record<'a>> {
        let mut fields = Cursor::new(self.body, self.endian);
        Some(match self.kind {
            kind::PERF_RECORD_MMAP => Record::Mmap(Mmap::decode(fields, self.misc)?),
            kind::PERF_RECORD_MMAP2 => Record::Mmap(Mmap::decode2(fields, self.misc)?),
            kind::PERF_RECORD_COMM => Record::Comm(Comm::decode(fields, self.misc)?),
            kind::PERF_RECORD_FORK => Record::Fork(Task::decode(fields)?),
            kind::PERF_RECORD_EXIT => Record::Exit(Task::decode(fields)?),
            kind::PERF_RECORD_LOST => Record::Lost(Lost { id: fields.u64()?, lost: fields.u64()? }),
            kind::PERF_RECORD_LOST_SAMPLES => Record::LostSamples { lost: fields.u64()? },
            kind::PERF_RECORD_THROTTLE => Record::Throttle(Throttle::decode(fields)?),
            kind::PERF_RECORD_UNTHROTTLE => Record::Unthrottle(Throttle::decode(fields)?),
            kind::PERF_RECORD_READ => Record::Read,
            kind::PERF_RECORD_SAMPLE => Record::Sample,
            kind::PERF_RECORD_SWITCH => Record::Switch(Switch::decode(self.misc, None)),
            kind::PERF_RECORD_SWITCH_CPU_WIDE => {
                Record::Switch(Switch::decode(self.misc, Some((fields.i32()?, fields.i32()?))))
            }
            kind::PERF_RECORD_NAMESPACES => Record::Namespaces(Namespaces::decode(fields)?),
            kind::PERF_RECORD_KSYMBOL => Record::Ksymbol(Ksymbol::decode(fields)?),
            kind::PERF_RECORD_BPF_EVENT => Record::BpfEvent(BpfEvent::decode(fields)?),
            kind::PERF_RECORD_CGROUP => {
                Record::Cgroup(Cgroup { id: fields.u64()?, path: fields.text() })
            }
            kind::PERF_RECORD_TEXT_POKE => Record::TextPoke(TextPoke::decode(fields)?),
            kind::PERF_RECORD_AUX => Record::Aux(Aux::decode(fields)?),
            kind::PERF_RECORD_ITRACE_START => {
                Record::ItraceStart { pid: fields.i32()?, tid: fields.i32()? }
            }
            kind::PERF_RECORD_AUX_OUTPUT_HW_ID => Record::AuxOutputHwId { hw_id: fields.u64()? },
            kind::PERF_RECORD_CALLCHAIN_DEFERRED => {
                let cookie = fields.u64()?;
                let count = fields.u64()?;
                Record::CallchainDeferred { cookie, callchain: fields.words(count)? }
            }
            _ => Record::Unknown,
        })
    }

    fn recorder_fields(&self) -> Option<Record<'a>> {
        let mut fields = Cursor::new(self.body, self.endian);
        Some(match self.kind {
            kind::HEADER_ATTR => Record::HeaderAttr(HeaderAttr::decode(fields)?),
            kind::HEADER_TRACING_DATA => Record::TracingData { size: fields.u32()? },
            kind::HEADER_BUILD_ID => Record::BuildId(BuildId::decode(fields, self.misc)?),
            kind::FINISHED_ROUND => Record::FinishedRound,
            kind::FINISHED_INIT => Record::FinishedInit,
            kind::ID_INDEX => Record::IdIndex(IdIndex::decode(fields)?),
            kind::AUXTRACE_INFO => Record::AuxtraceInfo(AuxtraceInfo::decode(fields)?),
            kind::AUXTRACE => Record::Auxtrace(Auxtrace::decode(fields)?),
            kind::AUXTRACE_ERROR => Record::AuxtraceError(AuxtraceError::decode(fields)?),
            kind::THREAD_MAP => Record::ThreadMap(ThreadMap::decode(fields)?),
            kind::CPU_MAP => Record::CpuMap(CpuMap::decode(fields)?),
            kind::STAT_CONFIG => Record::StatConfig(StatConfig::decode(fields)?),
            kind::STAT => Record::Stat(Stat::decode(fields)?),
            kind::STAT_ROUND => Record::StatRound(StatRound::decode(fields)?),
            kind::EVENT_UPDATE => Record::EventUpdate(EventUpdate::decode(fields)?),
            kind::TIME_CONV => Record::TimeConv(TimeConv::decode(fields)?),
            kind::HEADER_FEATURE => {
                Record::HeaderFeature { feature: fields.u64()?, data: fields.rest() }
            }
            kind::COMPRESSED => Record::Compressed { data: fields.rest() },
            kind::COMPRESSED2 => {
                let size = fields.u64()?;
                Record::Compressed { data: fields.take(size)? }
            }
            _ => Record::Unknown,
        })
    }
}

/// A record's fields, by kind.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// A part of a file, or anonymous memory, was mapped (`MMAP` and `MMAP2`).
    Mmap(Mmap<'a>),
    /// A thread has a new name.
    Comm(Comm<'a>),
    /// A thread began.
    Fork(Task),
    /// A thread ended.
    Exit(Task),
    /// Records were lost because a ring was full.
    Lost(Lost),
    /// Samples were lost: hardware dropped them before they reached a ring, or the recorder reports
    /// the counts of `PERF_FORMAT_LOST`.
    LostSamples {
        /// Number of lost samples.
        lost: u64,
    },
    /// The kernel stopped an event that sampled too often.
    Throttle(Throttle),
    /// The kernel restarted such an event.
    Unthrottle(Throttle),
    /// The count of an inherited event whose thread exited: [`TaskRead::decode`] has its fields.
    Read,
    /// A sample: [`Sample::decode`] has its fields.
    Sample,
    /// A CPU switched from one thread to another (`SWITCH` and `SWITCH_CPU_WIDE`).
    Switch(Switch),
    /// The namespaces that a thread is in.
    Namespaces(Namespaces<'a>),
    /// Kernel code was registered or removed, such as a BPF program or a kprobe's trampoline.
    Ksymbol(Ksymbol<'a>),
    /// A BPF program was loaded or unloaded.
    BpfEvent(BpfEvent),
    /// A cgroup's path.
    Cgroup(Cgroup<'a>),
    /// The kernel changed its own code.
    TextPoke(TextPoke<'a>),
    /// AUX data arrived.
    Aux(Aux),
    /// Instruction tracing began.
    ItraceStart {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
    },
    /// The hardware event of an AUX stream.
    AuxOutputHwId {
        /// The hardware's own id.
        hw_id: u64,
    },
    /// The user part of call chains, recorded when the thread returned to user code.
    CallchainDeferred {
        /// The word after `PERF_CONTEXT_USER_DEFERRED` in the chains that this part completes.
        cookie: u64,
        /// Return addresses, the innermost first.
        callchain: Words<'a>,
    },
    /// An event's attributes and ids.
    HeaderAttr(HeaderAttr<'a>),
    /// The length of the tracing data that follows the record, padded to a multiple of 8. It isn't
    /// part of the record's size.
    TracingData {
        /// Length in bytes. perf and tare include the padding; a reader has to round it up.
        size: u32,
    },
    /// The build id of a file.
    BuildId(BuildId<'a>),
    /// Every ring was drained: no later record is older than those before the previous mark.
    FinishedRound,
    /// Everything that existed when the recording began has been described; with a body, part of a
    /// note (see [`crate::file::note`]).
    FinishedInit,
    /// Ring, CPU and thread of each counter id.
    IdIndex(IdIndex<'a>),
    /// The hardware that wrote the AUX data.
    AuxtraceInfo(AuxtraceInfo<'a>),
    /// AUX data follows the record, and isn't part of its size.
    Auxtrace(Auxtrace),
    /// AUX data that could not be decoded.
    AuxtraceError(AuxtraceError<'a>),
    /// The threads that were recorded.
    ThreadMap(ThreadMap<'a>),
    /// The CPUs that were recorded.
    CpuMap(CpuMap<'a>),
    /// How counts were taken.
    StatConfig(StatConfig),
    /// A count.
    Stat(Stat),
    /// The end of a round of counts.
    StatRound(StatRound),
    /// More about an event: its unit, scale, name or CPUs.
    EventUpdate(EventUpdate<'a>),
    /// The conversion from the time-stamp counter to perf's time.
    TimeConv(TimeConv),
    /// A feature section, as a record.
    HeaderFeature {
        /// The feature's bit.
        feature: u64,
        /// The section.
        data: &'a [u8],
    },
    /// Compressed records (zstd, one stream through the whole file).
    Compressed {
        /// Compressed bytes.
        data: &'a [u8],
    },
    /// A kind that this version doesn't decode.
    Unknown,
}

/// Consecutive records in memory, such as decompressed ones.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    endian: Endian,
}

impl<'a> Records<'a> {
    /// Creates an iterator over the records in `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], endian: Endian) -> Self {
        Self { rest: bytes, endian }
    }

    /// Returns the bytes that haven't been returned as records; after the last record, an
    /// incomplete record, or no record at all.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = RawRecord<'a>;

    fn next(&mut self) -> Option<RawRecord<'a>> {
        let record = RawRecord::first(self.rest, self.endian)?;
        self.rest = self.rest.get(record.size()..)?;
        Some(record)
    }
}

/// Returns the words up to the record's end.
fn words_to_end<'a>(fields: &Cursor<'a>) -> Words<'a> {
    Words::new(fields.rest(), fields.endian())
}

#[cfg(test)]
mod tests;
