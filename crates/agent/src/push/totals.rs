//! The figures of a target.

use serde::{Deserialize, Serialize};

/// What a target was sent since the agent's start, and what it wasn't.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushTotals {
    /// URL of the target.
    pub url: String,
    /// Windows that it has accepted as a whole.
    pub windows: u64,
    /// Samples that it has accepted.
    pub samples: u64,
    /// Bytes of the accepted requests.
    pub bytes: u64,
    /// Windows that wait, also those of an earlier agent.
    pub waiting_windows: u64,
    /// Their samples.
    pub waiting_samples: u64,
    /// Bytes of their requests.
    pub waiting_bytes: u64,
    /// Windows of which at least a part was dropped.
    pub dropped_windows: u64,
    /// Samples that were dropped.
    pub dropped_samples: u64,
    /// Why the last request failed; `None` if it didn't.
    pub error: Option<String>,
}
