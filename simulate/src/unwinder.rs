//! An unwinder for machines whose samples have no stacks: records pass through its stage as they
//! are.

use tare_format::Endian;
use tare_format::file::writer::Description;
use tare_format::ledger::UnwoundChains;
use tare_format::record::{Records, kind};
use tare_record::output::{StackTrimmer, StackUnwinder};

/// Counts samples, as whole or as those for which unwinding was behind.
#[derive(Debug, Default)]
pub(crate) struct PassingUnwinder {
    counts: UnwoundChains,
}

impl StackUnwinder for PassingUnwinder {
    fn trimmer(&self) -> Box<dyn StackTrimmer> {
        Box::new(PassingTrimmer)
    }

    fn describe(&mut self, _: &Description) {}

    fn unwind(&mut self, records: &[u8], is_behind: bool, into: &mut Vec<u8>) {
        let is_sample = |kind: u32| kind == kind::PERF_RECORD_SAMPLE;
        let records_of = Records::new(records, Endian::NATIVE);
        let samples = records_of.filter(|record| is_sample(record.kind)).count() as u64;
        match is_behind {
            true => self.counts.behind += samples,
            false => self.counts.whole += samples,
        }
        into.extend_from_slice(records);
    }

    fn described(&self, description: &Description) -> Description {
        description.clone()
    }

    fn counts(&self) -> UnwoundChains {
        UnwoundChains { samples: true, ..self.counts.clone() }
    }

    fn reset_counts(&mut self) {
        self.counts = UnwoundChains::default();
    }
}

/// Leaves nothing out.
#[derive(Debug)]
struct PassingTrimmer;

impl StackTrimmer for PassingTrimmer {
    fn describe(&mut self, _: &Description) {}

    fn trim(&mut self, pieces: &[&[u8]], into: &mut Vec<u8>) {
        pieces.iter().for_each(|piece| into.extend_from_slice(piece));
    }
}
