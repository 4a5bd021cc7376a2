//! A recording's data on processes that compile code at run time, for readers that look up the
//! names of that code: a note (see [`crate::file::note`]) of versioned JSON.
//!
//! A recorder writes one after a process has mapped code without a file, or a jitdump, for the
//! first time, and whenever it has read both clocks.

use serde::{Deserialize, Serialize};

use crate::file::note;

/// The version that this program writes. Readers accept any version and use the fields they know.
const VERSION: u32 = 1;

/// The first bytes of a note with a [`JitNote`].
const MARK: &[u8] = b"tare jit ";

/// A reading of both clocks, and the processes that are new since the previous note.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct JitNote {
    /// Version of the layout.
    pub version: u32,
    /// Both clocks; `None` if they weren't read for this note.
    pub clock: Option<ClockPair>,
    /// Processes that map code without a file, or a jitdump, and that no earlier note in the file
    /// names.
    pub processes: Vec<JitProcess>,
}

/// Two clocks read within some microseconds of each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ClockPair {
    /// The recording's clock, in nanoseconds.
    pub recorded_ns: u64,
    /// `CLOCK_MONOTONIC`, the clock of jitdumps, in nanoseconds.
    pub monotonic_ns: u64,
}

/// A process that maps code without a file, or a jitdump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct JitProcess {
    /// Its id in the recording.
    pub pid: i32,
    /// Its effective user id.
    pub uid: u32,
    /// Its id in its own pid namespace.
    pub own_pid: i32,
    /// Its start time, in clock ticks since boot (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
    /// Its start time, in nanoseconds since 1970; `None` if unknown.
    pub started_ns: Option<u64>,
    /// How far its `CLOCK_MONOTONIC` is ahead of the recorder's, in nanoseconds: not 0 in another
    /// time namespace.
    pub monotonic_ahead_ns: i64,
}

impl JitNote {
    /// Encodes the note.
    #[must_use]
    pub fn to_note(&self) -> Vec<u8> {
        note::to_json(MARK, &Self { version: VERSION, ..self.clone() })
    }

    /// Decodes a note; `None` for notes of another kind and for damaged ones.
    #[must_use]
    pub fn from_note(note: &[u8]) -> Option<Self> {
        note::from_json(MARK, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_its_own_notes_and_ignores_others() {
        let note = JitNote {
            version: VERSION,
            clock: Some(ClockPair { recorded_ns: 5, monotonic_ns: u64::MAX }),
            processes: vec![JitProcess {
                pid: 7,
                uid: 1000,
                own_pid: 1,
                start_ticks: 99,
                started_ns: Some(1 << 60),
                monotonic_ahead_ns: -5,
            }],
        };
        assert_eq!(JitNote::from_note(&note.to_note()), Some(note));
        assert_eq!(JitNote::from_note(b"tare ledger {}"), None);
        assert_eq!(JitNote::from_note(b"tare jit {\"later\": 1}"), Some(JitNote::default()));
        assert_eq!(JitNote::from_note(b"tare jit {\"processes\": 1}"), None);
    }
}
