//! The end of a recording: drains the ring buffers, and writes the ledger and the final
//! description.

use std::sync::Arc;

use tare_format::file::writer::Feature;
use tare_format::ledger::Ledger;
use tare_kernel::cgroup::CpuTime;

use super::{Recording, cost, followed, ledger, recount};
use crate::capture::jit::JitProcesses;
use crate::capture::scanner::Scanner;
use crate::error::RecordError;
use crate::output::{Closing, OutputStats};

/// The result of a recording.
#[derive(Clone, Debug)]
pub struct RecordingResult {
    /// Samples, losses and costs, over all files.
    pub ledger: Ledger,
    /// Figures of the output.
    pub output: OutputStats,
}

impl Recording {
    /// Stops all events and BPF programs. Records in the ring buffers stay for
    /// [`Recording::finish`]. Further calls do nothing.
    ///
    /// # Errors
    /// Fails if the kernel can't stop an event.
    pub fn stop(&mut self) -> Result<(), RecordError> {
        if self.account.until_ns.is_some() {
            return Ok(());
        }
        self.account.until_ns = Some(self.cpu_ns());
        if !self.is_stopped() {
            self.note_gaps();
            self.targets.cgroup.read_at_end(self.session.following.as_ref());
            self.disable_all()?;
            self.take_off_cpu()?;
            self.targets.cgroup.read_at_end(self.session.following.as_ref());
        }
        Ok(())
    }

    /// Describes the running processes, if the options ask for that at the end: after the last
    /// sample, so the ring buffers are drained first.
    fn describe_at_end(&mut self) -> Result<(), RecordError> {
        let at_the_end = self.session.options.synthesize.at_the_end;
        let Some(existing) = self.targets.tasks.existing.take().filter(|_| at_the_end) else {
            return Ok(());
        };
        if let Err(error) = self.capture.reader.drain(&self.capture.shared) {
            self.stop_recording(error.into());
            return Ok(());
        }
        let mut emit = |bytes: &[u8]| {
            self.capture.shared.see_mappings(bytes);
            let note = self.capture.shared.with_jit(JitProcesses::take_note);
            self.capture.shared.append(&[&note, bytes])
        };
        match self.session.synthesize(&existing, &mut emit) {
            Err(RecordError::Output(error)) => {
                self.stop_recording(error.into());
                Ok(())
            }
            described => described.map(|_| ()),
        }
    }

    /// Adds the facts about the followed command to the ledger. `counted`: the counts of the only
    /// file, if it had to end early.
    fn complete_followed(
        &self,
        ledger: &mut Ledger,
        used: Option<CpuTime>,
        counted: Option<&Scanner>,
    ) {
        let of_rings = || self.capture.reader.rings.iter().map(|ring| &ring.scanner).collect();
        let scanners: Vec<_> = counted.map_or_else(of_rings, |counted| vec![counted]);
        followed::complete(
            ledger,
            &self.session,
            &scanners,
            &self.sources.events.counts(),
            used,
            &self.targets.cgroup,
        );
    }

    /// Ends the recording: stops its events, drains the ring buffers, and completes the file.
    /// `command`: the command's usage, if it has exited.
    ///
    /// # Errors
    /// See [`RecordError`]. An output that takes nothing more is no error: [`OutputStats::stopped`]
    /// states it.
    pub fn finish(mut self, command: Option<CpuTime>) -> Result<RecordingResult, RecordError> {
        self.stop()?;
        let until_ns = self.account.until_ns.unwrap_or_else(|| self.cpu_ns());
        self.capture.join_threads()?;
        if !self.is_stopped() {
            self.end_filter();
        }
        self.note_modules();
        if !self.is_stopped() {
            self.describe_at_end()?;
            self.snapshot()?;
        }
        self.account.shortest = self.capture.shared.shortest();
        let host = &self.session.backend.host;
        let build_ids = self.session.options.build_ids.then(|| self.capture.shared.build_ids(host));
        let mut description = self.description.clone();
        description.features.extend(build_ids.map(Feature::BuildIds));
        let mut counted = self.recount(&description);
        let shared = Arc::clone(&self.capture.shared);
        let (mut ledger, sample_time) = shared.end_file(|output, mut stats| {
            counted.iter_mut().for_each(|counted| recount::replace(&mut stats, counted));
            let ledger = self.ledger_of_file(&stats, output, until_ns);
            (ledger, ledger::sample_time(&stats.rings))
        });
        let compiled = self.capture.shared.with_jit(|jit| jit.files());
        ledger.kept_binaries =
            self.capture.shared.replace_binaries(None).map(|held| held.store(&compiled));
        ledger.command = command.map(ledger::command);
        cost::complete(&mut ledger, &self.session);
        ledger.budget = self.kept_budget(&ledger);
        // The share of time that samples account for is only computed for the whole recording.
        let earlier = self.account.total.take();
        if earlier.is_none() {
            self.complete_followed(
                &mut ledger,
                command,
                counted.as_ref().map(|counted| &counted.samples),
            );
        }
        description.features.extend(sample_time);
        let note = self
            .capture
            .shared
            .with_output(|output| ledger::last_records(&mut ledger, output, &description, &[]))?;
        if let Some(earlier) = earlier {
            ledger = earlier.and(&ledger);
            cost::complete(&mut ledger, &self.session);
            ledger.budget = self.kept_budget(&ledger);
            self.complete_followed(&mut ledger, command, None);
        }
        drop(shared);
        let output = self.capture.into_output()?;
        let output = output.finish(&Closing { description: &description, records: &note });
        ledger::complete(&mut ledger.output, &output);
        Ok(RecordingResult { ledger, output })
    }
}
