//! The sampling budget and how it was used, and the changes of sampling rates that it caused.

use serde::{Deserialize, Serialize};

use super::Estimate;
use crate::file::note;

/// The first bytes of a note about a change of rates; JSON follows.
const MARK: &[u8] = b"tare rate ";

/// The rates from some time on: a note in the recording, written at the start and at each change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct RateChange {
    /// How long events had been enabled before the change, in nanoseconds.
    pub after_ns: u64,
    /// The frequency of each event from then on, in Hz and in the order of the recording; 0 for
    /// events without one.
    pub hz: Vec<u64>,
}

impl RateChange {
    /// Encodes the change as a note.
    #[must_use]
    pub fn to_note(&self) -> Vec<u8> {
        note::to_json(MARK, self)
    }

    /// Decodes a note; `None` for notes of another kind and for damaged ones.
    #[must_use]
    pub fn from_note(note: &[u8]) -> Option<Self> {
        note::from_json(MARK, note)
    }
}

/// Why sampling is slower than requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum SlowRateCause {
    /// Samples at the requested rate would exceed the budget.
    Samples,
    /// The recorder's own CPU time used up the budget.
    Recorder,
    /// The kernel throttled the events.
    Throttling,
}

/// A sampling budget, and how it was used.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Budget {
    /// The requested budget, as a share of the recorded CPUs' time.
    pub asked: f64,
    /// The share spent by samples and the recorder, without start-up and exit; `None` if no event's
    /// cost is known or nothing was recorded.
    pub spent: Option<Estimate>,
    /// The lowest allowed rate, in Hz.
    pub min_hz: u64,
    /// The highest frequency of any event at the end, in Hz; 0 if no event has one.
    pub hz: u64,
    /// Number of rate changes.
    pub changes: u64,
    /// How long even the lowest rate exceeded the budget, in nanoseconds of recording.
    pub floor_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_it_encoded() {
        let change = RateChange { after_ns: 5, hz: vec![197, 0] };
        assert_eq!(RateChange::from_note(&change.to_note()), Some(change));
        assert_eq!(RateChange::from_note(b"tare ledger {}"), None);
    }
}
