//! The call chains of a recording that its recorder unwound, by its ledger.

use tare_format::file::Description;
use tare_format::ledger::{IncompleteChains, Ledger, UnwoundChains};
use tare_profile::{DeepestStack, EndReasonCount, OffCpuChains, Unwinding};
use tare_symbols::UnwindOutcome;

/// The reason of chains that stayed as the kernel recorded them.
const BEHIND: &str = "unwinding fell behind";

/// How the chains ended that the recorder unwound, by the latest ledger.
#[derive(Debug, Default)]
pub(crate) struct RecordedChains {
    unwound: Option<UnwoundChains>,
    /// Number of notes that were read.
    notes: usize,
}

impl RecordedChains {
    /// Reads the recorder's new notes.
    pub(crate) fn learn(&mut self, description: &Description) {
        let notes = description.notes();
        for note in notes.iter().skip(self.notes) {
            let unwound = Ledger::from_note(note).and_then(|ledger| ledger.unwound);
            self.unwound = unwound.or(self.unwound.take());
        }
        self.notes = notes.len();
    }

    /// Whether the recorder unwound the call chains of samples.
    pub(crate) fn are_unwound(&self) -> bool {
        self.unwound.as_ref().is_some_and(|unwound| unwound.samples)
    }

    /// Returns how much of the off-CPU time has whole chains.
    pub(crate) fn off_cpu(&self) -> Option<OffCpuChains> {
        let reach = self.unwound.as_ref()?.off_cpu;
        (reach.ns > 0).then_some(OffCpuChains { ns: reach.ns, whole_ns: reach.whole_ns })
    }

    /// Returns the counts for a profile.
    pub(crate) fn summary(&self) -> Option<Unwinding> {
        let unwound = self.unwound.as_ref().filter(|unwound| unwound.samples)?;
        let ended = |chains: &IncompleteChains| EndReasonCount {
            why: UnwindOutcome::ALL
                .into_iter()
                .map(UnwindOutcome::reason)
                .find(|reason| *reason == chains.reason)
                .unwrap_or("other reasons"),
            stacks: chains.stacks,
            dso: chains.file.clone(),
        };
        let mut failed: Vec<_> = unwound.failed.iter().map(ended).collect();
        if unwound.behind > 0 {
            failed.push(EndReasonCount { why: BEHIND, stacks: unwound.behind, dso: None });
        }
        Some(Unwinding {
            whole: unwound.whole,
            truncated: unwound.truncated.iter().map(ended).collect(),
            failed,
            by_recorder: true,
            deepest: (unwound.deepest_bytes > 0).then_some(DeepestStack {
                bytes: unwound.deepest_bytes,
                copied_bytes: unwound.copied_bytes,
                lack: unwound.copies_lack.clone().filter(|_| unwound.copied_bytes > 0),
                missed: unwound.copies_missed,
            }),
            ..Unwinding::default()
        })
    }
}
