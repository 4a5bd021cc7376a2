//! Unwinds copied stacks while the recorder runs, with the unwinder of `tare_replay`.

use tare_format::abi::Flags;
use tare_format::file::writer::Description;
use tare_format::ledger::UnwoundChains;
use tare_record::options::Sampling;
use tare_record::output::{StackTrimmer, StackUnwinder};
use tare_record::plan::RecordPlan;
use tare_replay::{LiveUnwinder, UnwoundEvent};
use tare_symbols::SymbolOptions;

/// Unwinds the stacks of some events.
#[derive(Debug)]
pub(super) struct RecorderUnwinder {
    /// Whether any of the events is another one than off-CPU time.
    has_samples: bool,
    unwinder: LiveUnwinder,
}

impl RecorderUnwinder {
    /// Creates an unwinder for the events of a plan. Their samples keep user registers, and the
    /// recording records of mappings without code, if the options ask for them.
    pub(super) fn new(plan: &RecordPlan, sampling: &Sampling) -> Self {
        let keeps_registers = sampling.user_registers != 0;
        let keeps_data_mappings = sampling.tracking.contains(Flags::MMAP_DATA);
        let unwound = |event: &usize| UnwoundEvent { event: *event, keeps_registers };
        let events = plan.unwound.iter().map(unwound).collect();
        let has_samples = plan.unwound.iter().any(|event| *event < plan.events.len());
        let unwinder = LiveUnwinder::new(SymbolOptions::default(), events, keeps_data_mappings);
        Self { has_samples, unwinder }
    }
}

/// Shortens copied stacks before they are queued.
#[derive(Debug)]
struct RecorderTrimmer(tare_replay::StackTrimmer);

impl StackTrimmer for RecorderTrimmer {
    fn describe(&mut self, description: &Description) {
        // As in `RecorderUnwinder::describe`.
        if let Ok(stream) = description.stream_beginning() {
            let _ = self.0.describe(&stream);
        }
    }

    fn trim(&mut self, pieces: &[&[u8]], into: &mut Vec<u8>) {
        self.0.trim(pieces, into);
    }
}

impl StackUnwinder for RecorderUnwinder {
    fn trimmer(&self) -> Box<dyn StackTrimmer> {
        Box::new(RecorderTrimmer(self.unwinder.trimmer()))
    }

    fn describe(&mut self, description: &Description) {
        // A stream that the output can't begin either is reported by the output.
        if let Ok(stream) = description.stream_beginning() {
            // It is a stream's beginning.
            let _ = self.unwinder.describe(&stream);
        }
    }

    fn unwind(&mut self, records: &[u8], is_behind: bool, into: &mut Vec<u8>) {
        self.unwinder.unwind(records, is_behind, into);
    }

    fn described(&self, description: &Description) -> Description {
        self.unwinder.written(description)
    }

    fn counts(&self) -> UnwoundChains {
        UnwoundChains { samples: self.has_samples, ..self.unwinder.counts() }
    }

    fn reset_counts(&mut self) {
        self.unwinder.reset_counts();
    }
}
