//! What a recording says of processes whose code was made while they ran, for readers that look for
//! its names: a note (see [`crate::file::note`]) as JSON of a version.
//!
//! A recorder writes one when it sees that a process maps code without a file, and one whenever it
//! has read both clocks.

use serde::{Deserialize, Serialize};

use crate::file::note;

/// The version that this program writes. A reader takes what it knows of any version.
const VERSION: u32 = 1;

/// What a note of this kind begins with.
const MARK: &[u8] = b"tare jit ";

/// What became known since the note before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct JitNote {
    /// Of this layout.
    pub version: u32,
    /// Both clocks, where they were read.
    pub clock: Option<ClockPair>,
    /// Processes.
    pub processes: Vec<JitProcess>,
}

/// Two clocks, read at one moment: within some microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ClockPair {
    /// The recording's, in nanoseconds.
    pub recorded_ns: u64,
    /// `CLOCK_MONOTONIC`, which jitdumps go by, in nanoseconds.
    pub monotonic_ns: u64,
}

/// A process that maps code without a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct JitProcess {
    /// Its number, as the recording has it.
    pub pid: i32,
    /// Its effective user.
    pub uid: u32,
    /// Its number as it knows itself: another one in a container.
    pub own_pid: i32,
    /// When it began, in clock ticks since the machine did (field 22 of `/proc/PID/stat`).
    pub start_ticks: u64,
}

impl JitNote {
    /// The note's bytes.
    #[must_use]
    pub fn to_note(&self) -> Vec<u8> {
        note::to_json(MARK, &Self { version: VERSION, ..self.clone() })
    }

    /// What a note says; `None` where it is another note, or can't be understood.
    #[must_use]
    pub fn from_note(note: &[u8]) -> Option<Self> {
        note::from_json(MARK, note)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_come_back_and_others_are_none() {
        let note = JitNote {
            version: VERSION,
            clock: Some(ClockPair { recorded_ns: 5, monotonic_ns: u64::MAX }),
            processes: vec![JitProcess { pid: 7, uid: 1000, own_pid: 1, start_ticks: 99 }],
        };
        assert_eq!(JitNote::from_note(&note.to_note()), Some(note));
        assert_eq!(JitNote::from_note(b"tare ledger {}"), None);
        assert_eq!(JitNote::from_note(b"tare jit {\"later\": 1}"), Some(JitNote::default()));
        assert_eq!(JitNote::from_note(b"tare jit {\"processes\": 1}"), None);
    }
}
