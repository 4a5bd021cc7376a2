//! What of a recording could not be read, and why.

use std::fmt;

use crate::limits;

/// Why bytes were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LossReason {
    /// Nothing but zeros: room that the recorder had not filled when it ended.
    Zeros,
    /// A record's size is below the 8 bytes of its header, so the next record's start is unknown.
    BadSize,
    /// The data end within a record.
    CutRecord,
    /// The header promises more data than the file has.
    CutData,
    /// The feature table or a section lies outside the file.
    CutFeature,
    /// An entry of the attribute section is cut, or not one.
    BadAttr,
    /// More than a limit of [`limits`] allows.
    OverLimit,
    /// Compressed data that are damaged, or follow such data.
    Compressed,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Zeros => "zeros that the recorder had not filled",
            Self::BadSize => "a record with an impossible size",
            Self::CutRecord => "the data end within a record",
            Self::CutData => "the header promises more data than there are",
            Self::CutFeature => "a feature section lies outside of the file",
            Self::BadAttr => "a malformed description of an event",
            Self::OverLimit => "more than a reader's limit",
            Self::Compressed => "compressed data are damaged",
        })
    }
}

/// Bytes that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Start, in bytes from the start of the recording.
    pub offset: u64,
    /// Length in bytes; for missing data, the promised length.
    pub bytes: u64,
    /// Why they were left out.
    pub why: LossReason,
}

/// The account of what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    gaps: Vec<Gap>,
    more: u64,
    bytes: u64,
    /// The recorder was killed before it wrote the data's size.
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

    /// Adds another account.
    pub fn extend(&mut self, other: &Self) {
        let room = limits::GAPS - self.gaps.len();
        self.gaps.extend(other.gaps.iter().take(room));
        self.more += other.gaps.len().saturating_sub(room) as u64 + other.more;
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.unfinished |= other.unfinished;
    }

    /// The first gaps, at most [`limits::GAPS`], as they were met.
    #[must_use]
    pub fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Number of gaps beyond [`Losses::gaps`].
    #[must_use]
    pub fn more(&self) -> u64 {
        self.more
    }

    /// Bytes in all gaps.
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
