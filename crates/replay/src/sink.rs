//! What is handed the records of a recording, one after the other.

use std::ops::ControlFlow;

use tare_format::file::Description;
use tare_format::record::{RawRecord, Record, Sample};

use crate::machine::Machine;
use crate::replayed::Replayed;

/// Takes samples and other records. An exporter takes each sample, [`crate::ProfileSink`] sums them
/// up.
pub trait Sink {
    /// Why it can't go on.
    type Error;

    /// Takes a sample; ends the replay early with [`ControlFlow::Break`].
    ///
    /// # Errors
    /// The sink's own.
    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Self::Error>;

    /// Whether a sample is looked at; asked before samples are in order of time, of their raw bytes.
    /// What isn't wanted costs no place among those that wait.
    fn wants_sample(&mut self, description: &Description, sample: &RawRecord<'_>) -> bool {
        let _ = (description, sample);
        true
    }

    /// Whether [`Machine::callchain`] will be asked for a sample's call chain. Copied stacks are
    /// unwound before their samples' turn, so this is asked ahead of it.
    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let _ = sample;
        true
    }

    /// Takes any other record.
    ///
    /// # Errors
    /// The sink's own.
    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Self::Error> {
        let _ = (machine, record);
        Ok(ControlFlow::Continue(()))
    }

    /// Nothing more comes: the recording has ended, or can't be read any further, or the sink has
    /// ended the replay.
    ///
    /// # Errors
    /// The sink's own.
    fn end(&mut self, machine: &mut Machine) -> Result<(), Self::Error> {
        let _ = machine;
        Ok(())
    }
}
