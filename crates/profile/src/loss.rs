//! What a profile lacks.

use std::fmt;

/// Why an address has no function's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unresolved {
    /// Nothing was mapped there, as far as the recording says.
    NotMapped,
    /// What was mapped there is no file: memory of the program's own.
    NoFile,
    /// The file can't be read any more.
    FileUnreadable,
    /// The file at the path is not the one that was recorded.
    OtherFile,
    /// The file is malformed.
    FileMalformed,
    /// The file has no symbols.
    NoSymbols,
    /// The file has symbols, and none is there.
    BetweenSymbols,
    /// The kernel hides its addresses.
    KernelHidden,
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMapped => "nothing was mapped there",
            Self::NoFile => "memory that is no file",
            Self::FileUnreadable => "the file can't be read",
            Self::OtherFile => "the file is not the one that was recorded",
            Self::FileMalformed => "the file is malformed",
            Self::NoSymbols => "the file has no symbols",
            Self::BetweenSymbols => "no symbol is there",
            Self::KernelHidden => "the kernel hides its symbols from this user",
        })
    }
}

/// What is not in the rows, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Records that found no room in their ring (`PERF_RECORD_LOST`).
    pub lost_records: u64,
    /// Samples that were lost before a ring, or that the kernel counted as lost (`PERF_RECORD_LOST_SAMPLES`).
    pub lost_samples: u64,
    /// How often an event was stopped because it interrupted too often.
    pub throttled: u64,
    /// Samples of the recorder's own threads, which are left out.
    pub own_samples: u64,
    /// Samples that could not be decoded.
    pub malformed_samples: u64,
    /// Records that came too late to be put in order.
    pub late_records: u64,
    /// Parts of the recording that could not be read, one line each, for people.
    pub unread: Vec<String>,
}

impl Loss {
    /// Whether nothing is missing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
