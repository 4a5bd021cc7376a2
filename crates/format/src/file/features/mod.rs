//! Feature sections: the machine, the session, and tables that reports need. Bits:
//! `tools/perf/util/header.h` (`HEADER_*`).
#![allow(missing_docs, reason = "the names are those of the header")]

mod machine;
mod session;

use std::collections::BTreeMap;
use std::sync::Arc;

pub use machine::{
    Cache, CpuPlace, CpuTopology, MemoryNode, MemoryTopology, NameValue, NumaNode, PmuCaps,
};
pub use session::{ClockData, Compression, EventDesc, GroupDesc};

use crate::bytes::{Cursor, Endian};
use crate::limits;
use crate::record::RawRecord;

pub const TRACING_DATA: u32 = 1;
pub const BUILD_ID: u32 = 2;
pub const HOSTNAME: u32 = 3;
pub const OSRELEASE: u32 = 4;
pub const VERSION: u32 = 5;
pub const ARCH: u32 = 6;
pub const NRCPUS: u32 = 7;
pub const CPUDESC: u32 = 8;
pub const CPUID: u32 = 9;
pub const TOTAL_MEM: u32 = 10;
pub const CMDLINE: u32 = 11;
pub const EVENT_DESC: u32 = 12;
pub const CPU_TOPOLOGY: u32 = 13;
pub const NUMA_TOPOLOGY: u32 = 14;
pub const BRANCH_STACK: u32 = 15;
pub const PMU_MAPPINGS: u32 = 16;
pub const GROUP_DESC: u32 = 17;
pub const AUXTRACE: u32 = 18;
pub const STAT: u32 = 19;
pub const CACHE: u32 = 20;
pub const SAMPLE_TIME: u32 = 21;
pub const MEM_TOPOLOGY: u32 = 22;
pub const CLOCKID: u32 = 23;
pub const DIR_FORMAT: u32 = 24;
pub const BPF_PROG_INFO: u32 = 25;
pub const BPF_BTF: u32 = 26;
pub const COMPRESSED: u32 = 27;
pub const CPU_PMU_CAPS: u32 = 28;
pub const CLOCK_DATA: u32 = 29;
pub const HYBRID_TOPOLOGY: u32 = 30;
pub const PMU_CAPS: u32 = 31;

/// Why a feature section can't be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FeatureError {
    /// The recording has no such section.
    #[error("the recording has no feature section {0}")]
    Absent(u32),
    /// The section ends within its fields, has more items than [`limits::LIST_ITEMS`], or a field
    /// is invalid.
    #[error("feature section {0} is malformed")]
    Malformed(u32),
}

/// The feature sections of a recording, by bit.
#[derive(Clone, Debug)]
pub struct Features {
    /// Shared by clones.
    sections: BTreeMap<u32, Arc<Vec<u8>>>,
    bytes: u64,
    endian: Endian,
}

impl Features {
    pub(super) fn new(endian: Endian) -> Self {
        Self { sections: BTreeMap::new(), bytes: 0, endian }
    }

    /// Adds or replaces a section. Returns `false` if all sections together would exceed
    /// [`limits::FEATURE_BYTES`].
    pub(super) fn add(&mut self, feature: u32, data: Vec<u8>) -> bool {
        let replaced = self.sections.get(&feature).map_or(0, |section| section.len());
        let bytes = self.bytes - replaced as u64 + data.len() as u64;
        if bytes > limits::FEATURE_BYTES {
            return false;
        }
        self.bytes = bytes;
        self.sections.insert(feature, Arc::new(data));
        true
    }

    /// Appends a record to the section of build ids. Returns `false` if all sections together would
    /// exceed [`limits::FEATURE_BYTES`].
    pub(super) fn add_build_id(&mut self, record: &RawRecord<'_>) -> bool {
        let kind = record.kind.to_le_bytes();
        let misc = record.misc.to_le_bytes();
        // A record's size always fits in two bytes.
        let size = u16::try_from(record.size()).unwrap_or(0).to_le_bytes();
        let mut header = [kind.as_slice(), &misc, &size].map(<[u8]>::to_vec);
        if self.endian == Endian::Big {
            header.iter_mut().for_each(|field| field.reverse());
        }
        if self.room() < record.size() as u64 {
            return false;
        }
        self.bytes += record.size() as u64;
        let section = Arc::make_mut(self.sections.entry(BUILD_ID).or_default());
        section.extend(header.concat());
        section.extend_from_slice(record.body);
        true
    }

    /// Returns the number of bytes that further sections may have.
    pub(super) fn room(&self) -> u64 {
        limits::FEATURE_BYTES.saturating_sub(self.bytes)
    }

    /// Iterates over the bits of the present sections, in ascending order.
    pub fn bits(&self) -> impl Iterator<Item = u32> {
        self.sections.keys().copied()
    }

    /// Returns the bytes of a section; `None` if the recording lacks it.
    #[must_use]
    pub fn section(&self, feature: u32) -> Option<&[u8]> {
        self.sections.get(&feature).map(|section| section.as_slice())
    }

    /// Returns the text of one of these sections: [`HOSTNAME`], [`OSRELEASE`], [`VERSION`],
    /// [`ARCH`], [`CPUDESC`] or [`CPUID`].
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn text(&self, feature: u32) -> Result<&[u8], FeatureError> {
        self.decode(feature, Cursor::header_string)
    }

    /// Returns the number in one of these sections: [`TOTAL_MEM`] (KiB), [`CLOCKID`] (the clock's
    /// resolution in ns) or [`DIR_FORMAT`] (version).
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn number(&self, feature: u32) -> Result<u64, FeatureError> {
        self.decode(feature, Cursor::u64)
    }

    fn decode<'a, T>(
        &'a self,
        feature: u32,
        decode: impl FnOnce(&mut Cursor<'a>) -> Option<T>,
    ) -> Result<T, FeatureError> {
        let section = self.section(feature).ok_or(FeatureError::Absent(feature))?;
        decode(&mut Cursor::new(section, self.endian)).ok_or(FeatureError::Malformed(feature))
    }
}

/// Reads a list whose length is in its first four bytes; `None` if an item is truncated or there
/// are more than [`limits::LIST_ITEMS`].
fn decode_list<'a, T>(
    fields: &mut Cursor<'a>,
    mut item: impl FnMut(&mut Cursor<'a>) -> Option<T>,
) -> Option<Vec<T>> {
    let count = fields.u32().filter(|count| *count <= limits::LIST_ITEMS)?;
    (0..count).map(|_| item(fields)).collect()
}
