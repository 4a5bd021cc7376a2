//! Reopens the events of CPUs that go offline and come back online during a recording.

use std::ffi::CString;
use std::sync::Arc;

use tare_format::ledger::Gap;
use tare_kernel::host::{CpuList, CpuWatch};
use tare_kernel::open::EventFile;

use super::{EventSources, Recording};
use crate::capture::batch::CpuRing;
use crate::capture::opening::Events;
use crate::capture::poller::{Poller, ReadySources, WakeSource};
use crate::capture::reopening::ReopenedCpu;
use crate::capture::scanner::Scanner;
use crate::error::RecordError;
use crate::session::RecordSession;

/// The state for reopening the events of a CPU.
#[derive(Debug)]
pub(super) struct Hotplug {
    /// `None` if no event is open on a CPU, or if the list of online CPUs can't be read.
    watch: Option<CpuWatch>,
    filters: Vec<Option<CString>>,
    ring_bytes: usize,
    /// Gaps in the recording of CPUs, in the current file.
    gaps: Vec<Gap>,
}

impl Hotplug {
    pub(super) fn start(
        session: &RecordSession,
        events: &Events,
        filters: Vec<Option<CString>>,
        ring_bytes: usize,
    ) -> Self {
        let host = &session.backend.host;
        let watch = events.has_cpus().then(|| CpuWatch::start(host).ok()).flatten();
        Self { watch, filters, ring_bytes, gaps: Vec::new() }
    }

    /// Adds the descriptor that reports CPUs coming and going.
    pub(super) fn add_to_poller(&self, poller: &Poller) -> Result<(), RecordError> {
        let wakes = self.watch.as_ref().and_then(CpuWatch::wakes);
        wakes.map_or(Ok(()), |file| poller.add(file, WakeSource::Cpus).map_err(RecordError::Poll))
    }

    /// Whether the kernel's messages about devices are received; otherwise lists must be compared.
    pub(super) fn has_messages(&self) -> bool {
        self.watch.as_ref().is_some_and(|watch| watch.wakes().is_some())
    }

    /// Returns the current file's gaps. Open gaps continue in the next file.
    pub(super) fn take_gaps(&mut self) -> Vec<Gap> {
        let gaps = self.gaps.clone();
        self.gaps.retain(|gap| gap.to_ns.is_none());
        gaps
    }
}

impl Recording {
    /// Notes recorded CPUs that went offline or came back, and reopens the events of the latter.
    pub(super) fn look_at_cpus(&mut self, ready: ReadySources, is_due: bool) {
        // Without messages, lists are compared at each flush.
        if self.is_stopped()
            || !(ready.contains(WakeSource::Cpus) || is_due && !self.watch.hotplug.has_messages())
        {
            return;
        }
        for cpu in self.note_gaps() {
            // If the events can't be reopened, the gap stays open.
            if self.reopen(cpu).is_ok() {
                let to_ns = self.now_ns();
                let gaps = self.watch.hotplug.gaps.iter_mut();
                for gap in gaps.filter(|gap| gap.cpu == cpu && gap.to_ns.is_none()) {
                    gap.to_ns = to_ns;
                }
            }
        }
    }

    /// Notes which recorded CPUs went offline, and returns the ones that came back online.
    pub(super) fn note_gaps(&mut self) -> Vec<u32> {
        let Some(watch) = &mut self.watch.hotplug.watch else { return Vec::new() };
        self.account.counts.system_calls += 1;
        // An unreadable list means no change.
        let changes = watch.changes(&self.session.backend.host).unwrap_or_default();
        let from_ns = self.now_ns();
        for cpu in self.recorded_among(&changes.offline) {
            self.watch.hotplug.gaps.push(Gap { cpu, from_ns, to_ns: None });
        }
        self.recorded_among(&changes.online)
    }

    /// Returns the ones of these CPUs on which events themselves are open, rather than on tasks
    /// there.
    fn recorded_among(&self, cpus: &CpuList) -> Vec<u32> {
        cpus.iter().filter(|&cpu| self.sources.events.has_events_of(cpu)).collect()
    }

    /// Returns the time in the recording's clock, if that can be read.
    fn now_ns(&self) -> Option<u64> {
        let RecordSession { options, backend, .. } = &self.session;
        backend.clock.recording_clock(options.sampling.clock?).map(|now| now.clock.clock_ns)
    }

    /// Reopens the events of a CPU; this thread reads its ring buffers.
    fn reopen(&mut self, cpu: u32) -> Result<(), RecordError> {
        // Records that the rings already hold are older than those of the reopened events.
        if let Err(error) = self.capture.reader.drain(&self.capture.shared) {
            self.stop_recording(error.into());
            return Ok(());
        }
        let Hotplug { filters, ring_bytes, .. } = &self.watch.hotplug;
        let kernel = &*self.session.backend.kernel;
        let ReopenedCpu { rings, ids } =
            self.sources.events.reopen(kernel, cpu, *ring_bytes, filters)?;
        let EventSources { events, deep, .. } = &self.sources;
        // Without the program their chains are truncated, and counted.
        let _ = deep.as_ref().map(|deep| deep.attach(events, &self.session.plan));
        for (event, ids) in self.description.events.iter_mut().zip(&ids) {
            event.ids.extend(ids);
        }
        let table = self.capture.shared.with_scanner(|scanner| {
            let table = Arc::new(scanner.table().with_ids(&ids));
            scanner.set_table(&table);
            table
        });
        let described =
            self.capture.shared.with_output(|output| output.add_ids(&self.description, &ids));
        for (cpu, owner, ring) in rings.consumed {
            if let Some(file) = self.sources.events.file(owner).and_then(EventFile::wakes) {
                self.capture.poller.add(file, WakeSource::Ring).map_err(RecordError::Poll)?;
            }
            let number = self.capture.shared.register(cpu, ring.size());
            self.capture.reader.rings.push(CpuRing::new(number, ring, Scanner::new(&table)));
        }
        self.capture.snapshots.add(rings.overwritten, &table, &self.capture.shared);
        if let Err(error) = described {
            self.stop_recording(error.into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_gaps_continue_in_the_next_file() {
        let closed = Gap { cpu: 1, from_ns: Some(5), to_ns: Some(9) };
        let open = Gap { cpu: 2, from_ns: Some(7), to_ns: None };
        let gaps = vec![closed.clone(), open.clone()];
        let mut hotplug = Hotplug { watch: None, filters: Vec::new(), ring_bytes: 4096, gaps };
        assert_eq!(hotplug.take_gaps(), [closed, open.clone()]);
        assert_eq!(hotplug.take_gaps(), [open]);
        assert!(!hotplug.has_messages());
    }
}
