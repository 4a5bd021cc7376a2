//! A sink that keeps all records.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};

use tare_format::file::writer::Description;
use tare_record::output::{RecordSink, SinkClosed};

/// The records that the sink received. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRecords {
    bytes: Arc<Mutex<Vec<u8>>>,
    description: Arc<Mutex<Option<Description>>>,
}

impl KeptRecords {
    /// The records.
    #[must_use]
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The description at the recording's end; `None` before it.
    #[must_use]
    pub(crate) fn description(&self) -> Option<Description> {
        self.description.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RecordSink for KeptRecords {
    fn begin(&mut self, _description: &Description) -> ControlFlow<SinkClosed> {
        ControlFlow::Continue(())
    }

    fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(records);
        ControlFlow::Continue(())
    }

    fn finish(&mut self, description: &Description) {
        *self.description.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(description.clone());
    }
}
