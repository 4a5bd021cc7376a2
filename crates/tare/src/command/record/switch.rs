//! A recording that goes on in another file.

use std::io;
use std::sync::Arc;

use tare_format::file::note;
use tare_format::file::writer::{FINISHED_INIT, Feature};

use super::account::sample_time;
use super::cost;
use super::live::{Live, Stopped, cpu_ns};
use crate::exit::say;
use crate::pipeline::output::Closing;
use crate::pipeline::synthesize;

impl Live<'_> {
    /// Completes the file, with a ledger of its own, and goes on in the next one, which begins with
    /// what runs now.
    pub(super) fn switch(&mut self) {
        match self.next_file() {
            Ok(()) => {}
            Err(Failed::Output(why)) => self.stop_recording(why),
            Err(Failed::Describing(error)) => {
                say(&format!("the recording goes on in the same file: {error:#}"));
            }
        }
    }

    fn next_file(&mut self) -> Result<(), Failed> {
        let until_ns = cpu_ns();
        let mut running = Vec::new();
        let mut emit = |bytes: &[u8]| -> io::Result<()> {
            running.extend_from_slice(bytes);
            Ok(())
        };
        // Of a command, any of its processes may be the one that goes on.
        self.session.synthesize(&synthesize::Targets::All, &mut emit)?;
        let mut records = note::encode(&self.ledger.to_note()).map_err(anyhow::Error::from)?;
        let mut ending = self.description.clone();
        if self.session.record.output.build_ids {
            ending.features.push(Feature::BuildIds(self.shared.build_ids(self.session.host)));
        }
        let mut last = Vec::new();
        if self.session.record.synthesize.at_the_end {
            last.append(&mut running);
        } else {
            records.append(&mut running);
        }
        let shared = Arc::clone(&self.shared);
        let finished = shared.end_file(|output, figures| {
            ending.features.extend(sample_time(&figures.rings));
            let mut ledger = self.ledger_of_file(&figures, output, until_ns);
            cost::complete(&mut ledger, self.session);
            last.extend(note::encode(&ledger.to_note()).map_err(anyhow::Error::from)?);
            self.add_to_total(&ledger);
            let closing = Closing { description: &ending, records: &last };
            let finished = output.switch(&closing, &self.description, &[&records, &FINISHED_INIT]);
            finished
                .map(|file| file.map(|file| (file, ledger)))
                .map_err(|error| Failed::Output(Stopped::from(error)))
        })?;
        if let Some((file, ledger)) = finished.filter(|_| !self.session.record.quiet) {
            say(&format!(
                "{} -> {}",
                tare_render::ledger_lines(&ledger).swap_remove(0),
                file.display()
            ));
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

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Self {
        Self::Describing(error)
    }
}
