//! The recorder's own threads, whose samples are left out.

use tare_format::file::Description;
use tare_format::ledger::{Ledger, Recorder};
use tare_profile::{Profile, Thread};

/// The threads of a recorder, as its ledger lists them. A recording's last ledger counts.
#[derive(Debug, Default)]
pub struct OwnThreads {
    include_self: bool,
    /// Number of the recording's notes that were read.
    notes: usize,
    ledger: Option<Ledger>,
}

impl OwnThreads {
    /// With `include_self`, no thread is left out.
    #[must_use]
    pub fn new(include_self: bool) -> Self {
        Self { include_self, ..Self::default() }
    }

    /// Reads the ledger, if the recording has new notes.
    pub fn learn(&mut self, description: &Description) {
        let notes = description.notes();
        if notes.len() != self.notes {
            self.notes = notes.len();
            self.ledger = notes.iter().rev().find_map(|note| Ledger::from_note(note));
        }
    }

    /// Whether samples of a thread are left out.
    #[must_use]
    pub fn contains(&self, tid: i32) -> bool {
        recorder(self.ledger.as_ref(), self.include_self).is_some_and(|own| own.tids.contains(&tid))
    }

    /// Removes the threads' rows from a profile. Returns the number of their samples.
    pub(crate) fn remove_rows(&self, profile: &mut Profile) -> u64 {
        let is_own = |thread: &Thread| self.contains(thread.tid);
        let removed = profile.remove_rows(|profile, row| {
            row.thread.and_then(|thread| profile.thread(thread)).is_some_and(is_own)
        });
        removed.samples
    }

    /// Returns the recording's last ledger.
    #[must_use]
    pub fn into_ledger(self) -> Option<Ledger> {
        self.ledger
    }
}

/// Returns the threads whose samples are left out, by a recording's ledger.
pub fn own_tids(ledger: Option<&Ledger>, include_self: bool) -> impl Iterator<Item = i32> {
    recorder(ledger, include_self).into_iter().flat_map(|own| own.tids.iter().copied())
}

/// Returns the recorder whose threads are left out; `None` if the caller or the recording's user
/// includes them.
fn recorder(ledger: Option<&Ledger>, include_self: bool) -> Option<&Recorder> {
    let recorder = ledger.map(|ledger| &ledger.recorder);
    recorder.filter(|recorder| !include_self && !recorder.included)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contains_the_recorders_threads_unless_they_were_recorded_on_purpose() {
        let mut ledger = Ledger::default();
        ledger.recorder.tids = [7].into();
        let own = |include_self, included| {
            let mut ledger = ledger.clone();
            ledger.recorder.included = included;
            OwnThreads { include_self, notes: 1, ledger: Some(ledger) }
        };
        assert!(own(false, false).contains(7) && !own(false, false).contains(8));
        assert_eq!(own_tids(Some(&ledger), false).collect::<Vec<_>>(), [7]);
        assert!(!own(true, false).contains(7) && !own(false, true).contains(7));
        assert!(!OwnThreads::new(false).contains(7));
    }
}
