//! Records that describe a recording, written by the recorder itself:
//! `tools/lib/perf/include/perf/event.h`.

use perf_event_open_sys::bindings::{
    PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_EXT_RESERVED, PERF_RECORD_MISC_KERNEL,
};

use super::words_to_end;
use crate::abi::Attr;
use crate::bytes::{Cursor, Endian, Words, until_nul};

/// An event: its attributes, and the ids that its records carry.
#[derive(Clone, Debug, PartialEq)]
pub struct HeaderAttr<'a> {
    /// The event as passed to the kernel.
    pub attr: Attr,
    /// One id for each counter that was opened.
    pub ids: Words<'a>,
}

impl<'a> HeaderAttr<'a> {
    /// Decodes the record. The attribute states its size in its second word of four bytes; 0 means
    /// the first version's.
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let mut ahead = fields;
        ahead.u32()?;
        let size = ahead.u32()?;
        let bytes = fields.take(if size == 0 { 64 } else { size.into() })?;
        let attr = Attr::from_bytes_in(bytes, fields.endian()).ok()?;
        Some(Self { attr, ids: words_to_end(&fields) })
    }
}

/// An addition to an event's description.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EventUpdate<'a> {
    /// One of the event's ids.
    pub id: u64,
    /// The update.
    pub update: Update<'a>,
}

/// The content of an [`EventUpdate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Update<'a> {
    /// Unit of the counts, such as `Joules`.
    Unit(&'a [u8]),
    /// Factor that converts a count to that unit.
    Scale(f64),
    /// The event's name.
    Name(&'a [u8]),
    /// The CPUs that it counts on.
    Cpus(CpuMap<'a>),
    /// A type that this version does not know.
    Unknown {
        /// Its number.
        kind: u64,
        /// Its bytes.
        data: &'a [u8],
    },
}

impl<'a> EventUpdate<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let kind = fields.u64()?;
        let id = fields.u64()?;
        let update = match kind {
            0 => Update::Unit(fields.text()),
            1 => Update::Scale(f64::from_bits(fields.u64()?)),
            2 => Update::Name(fields.text()),
            3 => Update::Cpus(CpuMap::decode(fields)?),
            _ => Update::Unknown { kind, data: fields.rest() },
        };
        Some(Self { id, update })
    }
}

/// A set of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuMap<'a> {
    /// Their numbers, two bytes each; `0xffff` is any CPU.
    List {
        /// Two bytes per CPU.
        bytes: &'a [[u8; 2]],
        /// Their byte order.
        endian: Endian,
    },
    /// A bit per CPU, in words of four or eight bytes.
    Mask {
        /// The words.
        bytes: &'a [u8],
        /// Four or eight.
        word_size: usize,
        /// Their byte order.
        endian: Endian,
    },
    /// From the first to the last.
    Range {
        /// The first CPU.
        first: u16,
        /// The last CPU.
        last: u16,
    },
}

impl<'a> CpuMap<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let endian = fields.endian();
        match fields.u16()? {
            0 => {
                let count = fields.u16()?;
                Some(Self::List { bytes: fields.take(u64::from(count) * 2)?.as_chunks().0, endian })
            }
            1 => {
                let count = fields.u16()?;
                let word_size = fields.u16()?;
                match word_size {
                    4 => {}
                    // `struct perf_record_mask_cpu_map64` has four bytes of padding before its
                    // words.
                    8 => _ = fields.u32()?,
                    _ => return None,
                }
                let bytes = fields.take(u64::from(count) * u64::from(word_size))?;
                Some(Self::Mask { bytes, word_size: word_size.into(), endian })
            }
            2 => {
                fields.u16()?;
                Some(Self::Range { first: fields.u16()?, last: fields.u16()? })
            }
            _ => None,
        }
    }

    /// Iterates over the CPUs' numbers; those of a mask or a range are in ascending order.
    pub fn cpus(&self) -> Box<dyn Iterator<Item = u32> + 'a> {
        match *self {
            Self::List { bytes, endian } => {
                Box::new(bytes.iter().map(move |cpu| endian.u16(*cpu).into()))
            }
            Self::Mask { bytes, word_size, endian } => {
                let bits = bytes.len() * 8;
                let is_set = move |cpu: &u32| {
                    let byte = *cpu as usize / 8;
                    let bit = cpu % 8;
                    let within = byte % word_size;
                    let at = byte - within
                        + if endian == Endian::Big { word_size - 1 - within } else { within };
                    bytes.get(at).is_some_and(|byte| byte >> bit & 1 == 1)
                };
                Box::new((0..u32::try_from(bits).unwrap_or(0)).filter(is_set))
            }
            Self::Range { first, last } => Box::new((first..=last).map(u32::from)),
        }
    }
}

/// The build id of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildId<'a> {
    /// The process that the file belongs to; -1 means the host.
    pub pid: i32,
    /// Whether it is the kernel or one of its modules (`PERF_RECORD_MISC_KERNEL`).
    pub is_kernel: bool,
    /// The build id: at most 20 bytes, and usually that many.
    pub build_id: &'a [u8],
    /// The file's path, or a name such as `[kernel.kallsyms]`.
    pub path: &'a [u8],
}

impl<'a> BuildId<'a> {
    /// Decodes the body of a `BUILD_ID` record. The feature section consists of such records.
    pub(crate) fn decode(mut fields: Cursor<'a>, misc: u16) -> Option<Self> {
        let pid = fields.i32()?;
        let id = fields.take(20)?;
        let size = fields.u8()?;
        fields.take(3)?;
        // PERF_RECORD_MISC_BUILD_ID_SIZE: without it the record has no size, and the id is a SHA-1
        // hash.
        let has_size = u32::from(misc) & PERF_RECORD_MISC_EXT_RESERVED != 0;
        let size = if has_size { usize::from(size).min(20) } else { 20 };
        let is_kernel = u32::from(misc) & PERF_RECORD_MISC_CPUMODE_MASK == PERF_RECORD_MISC_KERNEL;
        Some(Self { pid, is_kernel, build_id: &id[..size], path: fields.text() })
    }
}

/// CPU and thread of each counter id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdIndex<'a> {
    words: Words<'a>,
}

/// One counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdIndexEntry {
    /// The id.
    pub id: u64,
    /// The ring that its records come from.
    pub ring: u64,
    /// The CPU; `u64::MAX` is any.
    pub cpu: u64,
    /// The thread; `u64::MAX` is any.
    pub tid: u64,
}

impl<'a> IdIndex<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let count = fields.u64()?;
        Some(Self { words: fields.words(count.checked_mul(4)?)? })
    }

    /// Iterates over the counters.
    pub fn entries(&self) -> impl Iterator<Item = IdIndexEntry> + 'a {
        let words = self.words;
        (0..words.len() / 4).filter_map(move |entry| {
            let word = |place| words.get(entry * 4 + place);
            Some(IdIndexEntry { id: word(0)?, ring: word(1)?, cpu: word(2)?, tid: word(3)? })
        })
    }
}

/// The threads that were recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadMap<'a> {
    entries: &'a [[u8; 24]],
    endian: Endian,
}

impl<'a> ThreadMap<'a> {
    pub(super) fn decode(mut fields: Cursor<'a>) -> Option<Self> {
        let count = fields.u64()?;
        Some(Self {
            entries: fields.take(count.checked_mul(24)?)?.as_chunks().0,
            endian: fields.endian(),
        })
    }

    /// Iterates over each thread's id (`u64::MAX` is any) and name.
    pub fn threads(&self) -> impl ExactSizeIterator<Item = (u64, &'a [u8])> + 'a {
        let endian = self.endian;
        self.entries.iter().map(move |entry| {
            (endian.u64(std::array::from_fn(|i| entry[i])), until_nul(&entry[8..]))
        })
    }
}

/// The conversion from the time-stamp counter to perf's time, as documented in `struct
/// perf_event_mmap_page`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeConv {
    /// Bits to shift by.
    pub shift: u64,
    /// The factor.
    pub mult: u64,
    /// Nanoseconds at counter 0.
    pub zero: u64,
    /// For counters with fewer than 64 bits: `time_cycles`, a value of 64 bits by which others are
    /// extended, and `time_mask`, the mask of the counter's bits.
    pub short: Option<(u64, u64)>,
}

impl TimeConv {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        let shift = fields.u64()?;
        let mult = fields.u64()?;
        let zero = fields.u64()?;
        let mut short = || {
            let cycles = fields.u64()?;
            let mask = fields.u64()?;
            let _has_zero = fields.u8()?;
            let is_short = fields.u8()?;
            (is_short != 0).then_some((cycles, mask))
        };
        Some(Self { shift, mult, zero, short: short() })
    }
}
