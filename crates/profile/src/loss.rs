//! What a profile lacks.

/// What is not in the rows, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loss {
    /// Records that found no room in their ring (`PERF_RECORD_LOST`).
    pub lost_records: u64,
    /// Samples that were lost before a ring, or that the kernel counted as lost
    /// (`PERF_RECORD_LOST_SAMPLES`).
    pub lost_samples: u64,
    /// How often an event was stopped because it interrupted too often.
    pub throttled: u64,
    /// Samples of the recorder's own threads, which are left out.
    pub own_samples: u64,
    /// Samples of what is not the command's, which are left out: of other tasks, and of its process
    /// before it executed the command.
    pub outside_samples: u64,
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
