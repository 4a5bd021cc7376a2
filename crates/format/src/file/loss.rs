//! The parts of a recording that could not be read, and why.

use std::fmt;

use crate::limits;

/// Why bytes were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// Zeros: space that the recorder had allocated but not filled when it ended.
    Zeros,
    /// A record's size is below the 8 bytes of its header, so the next record's start is unknown.
    BadSize,
    /// The data ends within a record, or within the data that follows a record.
    CutRecord,
    /// The header, or an entry of the attribute section, promises more data than the file has.
    CutData,
    /// The feature table or a section lies outside the file, at least in part.
    CutFeature,
    /// An entry of the attribute section is truncated or malformed, or the header states an
    /// impossible size for these entries.
    BadAttr,
    /// A limit of [`limits`] is exceeded, or parts of a note are missing.
    OverLimit,
    /// Compressed data that is damaged, that follows data left out, or for which no decoder could
    /// be created.
    Compressed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zeros => "space that the recorder had not filled",
            Self::BadSize => "a record with an impossible size",
            Self::CutRecord => "the data end within a record",
            Self::CutData => "the header promises more data than there are",
            Self::CutFeature => "a feature section lies outside the file",
            Self::BadAttr => "a malformed description of an event",
            Self::OverLimit => "a limit of the reader is exceeded",
            Self::Compressed => "the compressed data is damaged",
        })
    }
}

/// A range of bytes that was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Start, in bytes from the start of the recording; in compressed data, that of the compressed
    /// record.
    pub offset: u64,
    /// Length in bytes; for missing data, the number of missing bytes.
    pub bytes: u64,
    /// Why they were left out.
    pub why: LossReason,
}

/// The ranges that were left out: the first ones as a list, and the sums of all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    gaps: Vec<Gap>,
    /// Number of gaps that aren't in `gaps`.
    more: u64,
    bytes: u64,
    /// Whether the header states no size of the data: the recorder was killed before it wrote one.
    pub unfinished: bool,
}

impl Losses {
    pub(super) fn add(&mut self, offset: u64, bytes: u64, why: LossReason) {
        if bytes == 0 {
            return;
        }
        self.bytes = self.bytes.saturating_add(bytes);
        if self.gaps.len() < limits::GAPS {
            self.gaps.push(Gap { offset, bytes, why });
        } else {
            self.more += 1;
        }
    }

    /// Adds the losses of another file of the recording.
    pub fn extend(&mut self, other: &Self) {
        let room = limits::GAPS - self.gaps.len();
        self.gaps.extend(other.gaps.iter().take(room));
        self.more += other.gaps.len().saturating_sub(room) as u64 + other.more;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unfinished |= other.unfinished;
    }

    /// Returns the first gaps, at most [`limits::GAPS`], in the order of reading.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Returns the number of gaps beyond [`Losses::gaps`].
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Returns the sum of the lengths of all gaps, in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Whether nothing was left out.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gaps.is_empty()
    }
}
