//! Sinks receive the records of a recording one by one.

use std::fmt::{self, Debug, Formatter};
use std::ops::ControlFlow;

use tare_format::file::Description;
use tare_format::record::{Record, Sample};

use crate::machine::Machine;
use crate::replayed::Replayed;

/// Receives samples and other records. [`crate::ProfileSink`] sums samples up; an exporter uses
/// each one.
pub trait Sink {
    /// The error that ends a replay.
    type Error;

    /// Receives a sample. Returns [`ControlFlow::Break`] to end the replay.
    ///
    /// # Errors
    /// Fails with the sink's own error.
    fn sample(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Result<ControlFlow<()>, Self::Error>;

    /// Returns a filter of samples by event; by default all are received. Called once, before the
    /// first record.
    fn event_filter(&self) -> Option<EventFilter> {
        None
    }

    /// Whether the sink will call [`Machine::callchain`] for a sample. Called for samples with
    /// copied stacks, before they are delivered, because stacks are unwound ahead.
    fn wants_callchain(&self, sample: &Replayed<'_, Sample<'_>>) -> bool {
        let _ = sample;
        true
    }

    /// Receives any other record.
    ///
    /// # Errors
    /// Fails with the sink's own error.
    fn record(
        &mut self,
        machine: &mut Machine,
        record: &Replayed<'_, Record<'_>>,
    ) -> Result<ControlFlow<()>, Self::Error> {
        let _ = (machine, record);
        Ok(ControlFlow::Continue(()))
    }

    /// Called after the last record: at the end of the recording, after an error, or after the sink
    /// ended the replay. [`crate::Replay::run`] calls it; with other methods the caller must.
    ///
    /// # Errors
    /// Fails with the sink's own error.
    fn end(&mut self, machine: &mut Machine) -> Result<(), Self::Error> {
        let _ = machine;
        Ok(())
    }
}

/// Selects samples by event before they are sorted by time, so that other samples take no memory.
/// It may run on another thread than the sink's.
pub struct EventFilter(Box<EventPredicate>);

type EventPredicate = dyn FnMut(&Description, usize) -> bool + Send;

impl EventFilter {
    /// Makes a filter. `wants` returns whether samples of an event are received; it is passed an
    /// index into the description's events.
    #[must_use]
    pub fn new(wants: impl FnMut(&Description, usize) -> bool + Send + 'static) -> Self {
        Self(Box::new(wants))
    }

    pub(crate) fn wants(&mut self, description: &Description, event: usize) -> bool {
        (self.0)(description, event)
    }
}

impl Debug for EventFilter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventFilter").finish_non_exhaustive()
    }
}
