//! Continues a recording in another file.

use std::sync::Arc;

use tare_format::file::note;
use tare_format::file::writer::{FINISHED_INIT, Feature};

use super::ledger::{last_records, sample_time};
use super::{Recording, StopReason, cost, recount};
use crate::capture::jit::JitProcesses;
use crate::capture::processes::TrackedProcesses;
use crate::error::RecordError;
use crate::off_cpu::OffCpuTimes;
use crate::options::Keep;
use crate::output::Closing;
use crate::synthesize;
use crate::warning::{FinishedFile, Notice, Warning};

impl Recording {
    /// Completes the file, with a ledger of its own, and begins the next one. The running processes
    /// are described at its beginning, or at the end of the completed file if the options ask for
    /// that. A notice reports the completed file, or why the recording continues in the same one.
    /// If the output fails, the recording stops.
    pub fn switch(&mut self) {
        if self.is_stopped() {
            return;
        }
        if let Err(error) = self.empty_before_switch() {
            self.warn(Warning::NotSwitched { reason: error.to_string() });
            return;
        }
        if self.is_stopped() {
            return;
        }
        match self.begin_next_file() {
            Ok(finished) => {
                if let Some(Err(error)) = self.sources.off_cpu.as_mut().map(OffCpuTimes::begin_file)
                {
                    self.warn(Warning::NotSwitched { reason: error.to_string() });
                }
                self.notices.extend(finished.map(|file| Notice::Finished(Box::new(file))));
            }
            Err(SwitchError::Output(why)) => self.stop_recording(why),
            Err(SwitchError::Describing(error)) => {
                self.warn(Warning::NotSwitched { reason: error.to_string() });
            }
        }
    }

    /// Empties the ring buffers into the current file, unless its size is limited: the records may
    /// belong to tasks that have exited, which the next file doesn't describe.
    fn empty_before_switch(&mut self) -> Result<(), RecordError> {
        self.take_off_cpu()?;
        self.note_modules();
        if self.session.options.rings.keep != Keep::All {
            self.snapshot()?;
        } else if !self.capture.shared.is_limited()
            && let Err(error) = self.capture.reader.drain(&self.capture.shared)
        {
            self.stop_recording(error.into());
        }
        Ok(())
    }

    /// Returns records that describe the kernel's code and the running processes: those that the
    /// records so far tell of, or for the whole machine those in `/proc`.
    fn describe_running(&mut self) -> Result<Vec<u8>, RecordError> {
        let mut running = Vec::new();
        let mut known = Vec::new();
        let is_tracked =
            self.capture.shared.with_processes(|processes| processes.encode(&mut known)).is_some();
        if !self.session.options.synthesize.tasks {
            known.clear();
        }
        let in_proc = if is_tracked {
            synthesize::Targets::Processes(Vec::new())
        } else {
            synthesize::Targets::All
        };
        let modules = self.session.synthesize(&in_proc, &mut |bytes| {
            running.extend_from_slice(bytes);
            Ok(())
        })?;
        self.watch.modules.begin(modules);
        running.append(&mut known);
        Ok(running)
    }

    fn begin_next_file(&mut self) -> Result<Option<FinishedFile>, SwitchError> {
        let until_ns = self.cpu_ns();
        let mut running = self.describe_running()?;
        let mut beginning = self.account.ledger.clone();
        if let Some(follow) = &mut beginning.follow {
            follow.exec_ns = self.capture.shared.exec_ns();
            if self.session.tracks_members() {
                let threads = self.capture.shared.with_processes(TrackedProcesses::threads);
                follow.members = threads.unwrap_or_default();
            }
        }
        let mut records = note::encode(&beginning.to_note()).map_err(RecordError::from)?;
        let mut ending = self.description.clone();
        if self.session.options.build_ids {
            let build_ids = self.capture.shared.build_ids(&self.session.backend.host);
            ending.features.push(Feature::BuildIds(build_ids));
        }
        records.extend(self.capture.shared.with_jit(JitProcesses::take_note_of_all));
        let room = recount::room_for_end(&ending);
        self.capture
            .shared
            .with_output(|output| output.reserve(room))
            .map_err(|error| SwitchError::Output(error.into()))?;
        let mut last = Vec::new();
        if self.session.options.synthesize.at_the_end {
            last.append(&mut running);
        } else {
            records.append(&mut running);
        }
        let shared = Arc::clone(&self.capture.shared);
        shared.end_file(|output, stats| {
            ending.features.extend(sample_time(&stats.rings));
            let mut ledger = self.ledger_of_file(&stats, output, until_ns);
            cost::complete(&mut ledger, &self.session);
            let last = last_records(&mut ledger, output, &ending, &last)?;
            self.account.add_to_total(&ledger);
            let closing = Closing { description: &ending, records: &last };
            let finished = output.switch(&closing, &self.description, &[&records, &FINISHED_INIT]);
            finished
                .map(|path| path.map(|path| FinishedFile { path, ledger }))
                .map_err(|error| SwitchError::Output(StopReason::from(error)))
        })
    }
}

/// Why there is no next file.
enum SwitchError {
    Output(StopReason),
    /// The next file can't be described; the recording continues in the current one.
    Describing(RecordError),
}

impl From<RecordError> for SwitchError {
    fn from(error: RecordError) -> Self {
        Self::Describing(error)
    }
}
