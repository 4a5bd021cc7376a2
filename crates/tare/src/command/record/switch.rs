//! A recording that goes on in another file.

use std::io;

use tare_format::file::note;
use tare_format::file::writer::{FINISHED_INIT, Feature};

use super::live::{Live, Stopped};
use crate::exit::say;
use crate::pipeline::output::Closing;
use crate::pipeline::synthesize;

impl Live<'_> {
    /// Completes the file, and goes on in the next one, which begins with what runs now.
    pub(super) fn switch(&mut self) {
        match self.next_file() {
            Ok(()) => {}
            Err(Failed::Output(why)) => self.stop_recording(why),
            Err(Failed::Describing(error)) => say(&format!("the recording goes on in the same file: {error:#}")),
        }
    }

    fn next_file(&mut self) -> Result<(), Failed> {
        let mut records = note::encode(&self.ledger.to_note()).map_err(anyhow::Error::from)?;
        let mut emit = |bytes: &[u8]| -> io::Result<()> {
            records.extend_from_slice(bytes);
            Ok(())
        };
        // Of a command, any of its processes may be the one that goes on.
        self.session.synthesize(&synthesize::Targets::All, &mut emit)?;
        let mut ending = self.description.clone();
        if self.session.record.output.build_ids {
            ending.features.push(Feature::BuildIds(self.shared.build_ids(self.session.host)));
        }
        let closing = Closing { description: &ending, records: &[] };
        let (beginning, shared) = (&self.description, &self.shared);
        let finished = shared.with_output(|output| output.switch(&closing, beginning, &[&records, &FINISHED_INIT])).map_err(Stopped::from)?;
        if let Some(file) = finished.filter(|_| !self.session.record.quiet) {
            say(&format!("-> {}", file.display()));
        }
        Ok(())
    }
}

/// Why there is no next file.
enum Failed {
    Output(Stopped),
    /// What runs can't be described; the file at hand is whole.
    Describing(anyhow::Error),
}

impl From<Stopped> for Failed {
    fn from(why: Stopped) -> Self {
        Self::Output(why)
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self::Describing(error)
    }
}
