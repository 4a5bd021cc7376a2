//! What is handed the records of a recording, one after the other.

use std::fmt::{self, Debug, Formatter};
use std::ops::ControlFlow;

use tare_format::file::Description;
use tare_format::record::{Record, Sample};

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

    /// What says which samples are looked at; `None`: all. Asked for once, before the first record.
    fn event_filter(&self) -> Option<EventFilter> {
        None
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

/// Says which samples a sink looks at, before they are in order of time: what isn't wanted costs no
/// place among those that wait. It may be asked on another thread than the sink's.
pub struct EventFilter(Box<EventPredicate>);

type EventPredicate = dyn FnMut(&Description, usize) -> bool + Send;

impl EventFilter {
    /// `wants` says whether samples of an event are looked at: an index into the description's
    /// events.
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
