//! Appends the contents of overwritten rings and of the flight recorder on request and at the end;
//! also samples that still wait for a command's execve.

use std::sync::Arc;

use tare_format::Endian;
use tare_format::file::writer::FINISHED_ROUND;
use tare_format::record::Records;
use tare_kernel::ring::OverwrittenRing;

use super::{Recording, RecordingState};
use crate::capture::reader::SharedOutput;
use crate::capture::scanner::{EventTable, Scanner};
use crate::error::RecordError;

/// The overwritten rings.
#[derive(Debug)]
pub(super) struct Snapshots {
    rings: Vec<OverwrittenCpuRing>,
}

/// The overwritten ring of a CPU, with the scanner of its records.
#[derive(Debug)]
struct OverwrittenCpuRing {
    /// The ring's number in the output.
    number: usize,
    /// Index of the open event that owns it.
    owner: usize,
    ring: OverwrittenRing,
    scanner: Scanner,
}

impl Snapshots {
    pub(super) fn new(
        rings: Vec<(u32, usize, OverwrittenRing)>,
        known: &Arc<EventTable>,
        shared: &SharedOutput,
    ) -> Self {
        if !rings.is_empty() {
            shared.note_overwritten();
        }
        let mut snapshots = Self { rings: Vec::new() };
        snapshots.add(rings, known, shared);
        snapshots
    }

    /// Adds rings of events that were opened later.
    pub(super) fn add(
        &mut self,
        rings: Vec<(u32, usize, OverwrittenRing)>,
        known: &Arc<EventTable>,
        shared: &SharedOutput,
    ) {
        self.rings.extend(rings.into_iter().map(|(cpu, owner, ring)| OverwrittenCpuRing {
            number: shared.register(cpu, ring.size()),
            owner,
            ring,
            scanner: Scanner::new(known),
        }));
    }
}

impl Recording {
    /// Drains the rings, and appends the samples that then still wait for the command's execve: its
    /// record didn't come.
    pub(super) fn end_filter(&mut self) {
        if let Err(error) = self.capture.reader.drain(&self.capture.shared) {
            return self.stop_recording(error.into());
        }
        let records = self.capture.shared.finish_filter();
        let Some(ring) = self.capture.reader.rings.first_mut().filter(|_| !records.is_empty())
        else {
            return;
        };
        ring.scanner.see(&records, [&[], &[]]);
        if let Err(error) =
            self.capture.shared.append_overwritten(ring.number, &ring.scanner, &records)
        {
            self.stop_recording(error.into());
        }
    }

    /// Appends the contents of overwritten ring buffers, and of the flight recorder.
    ///
    /// # Errors
    /// Fails if an overwritten ring buffer can't be read.
    pub fn snapshot(&mut self) -> Result<(), RecordError> {
        if self.is_stopped() {
            return Ok(());
        }
        // Records of processes come first, since samples refer to them.
        if let Err(error) = self
            .capture
            .reader
            .drain(&self.capture.shared)
            .and_then(|()| self.capture.shared.append_recent())
        {
            self.stop_recording(error.into());
        }
        for OverwrittenCpuRing { number, owner, ring, scanner } in &mut self.capture.snapshots.rings
        {
            let Some(event) = self.sources.events.file(*owner) else { continue };
            let records = ring.snapshot(event).map_err(super::event_error("read a ring buffer"))?;
            let records = self.capture.shared.filter_older(oldest_first(&records));
            scanner.see(&records, [&[], &[]]);
            let is_stopped = matches!(self.state, RecordingState::Stopped(_));
            if !is_stopped
                && !records.is_empty()
                && let Err(error) =
                    self.capture.shared.append_overwritten(*number, scanner, &records)
            {
                self.state = RecordingState::Stopped(error.into());
            }
        }
        if !self.is_stopped()
            && let Err(error) = self
                .capture
                .shared
                .append(&[&FINISHED_ROUND])
                .and_then(|()| self.capture.shared.flush())
        {
            self.state = RecordingState::Stopped(error.into());
        }
        Ok(())
    }
}

/// Reverses the order of whole records.
fn oldest_first(newest_first: &[u8]) -> Vec<u8> {
    let mut sizes: Vec<usize> =
        Records::new(newest_first, Endian::NATIVE).map(|record| record.size()).collect();
    let mut end: usize = sizes.iter().sum();
    let mut records = Vec::with_capacity(end);
    while let Some(size) = sizes.pop() {
        records.extend_from_slice(&newest_first[end - size..end]);
        end -= size;
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_order_of_records_is_reversed() {
        let record = |size: u16, byte: u8| {
            [&[9, 0, 0, 0, 0, 0][..], &size.to_ne_bytes(), &vec![byte; usize::from(size) - 8]]
                .concat()
        };
        let newest = record(24, 1);
        let oldest = record(16, 2);
        assert_eq!(
            oldest_first(&[newest.clone(), oldest.clone()].concat()),
            [oldest, newest].concat()
        );
        assert_eq!(oldest_first(&[]), Vec::<u8>::new());
    }

    #[test]
    fn rings_that_are_added_later_have_later_numbers() {
        use tare_format::abi::Attr;
        use tare_kernel::fake::Scripted;
        use tare_kernel::host::Host;
        use tare_kernel::open::{EventTarget, Kernel};

        use crate::capture::jit::JitProcesses;
        use crate::clock::SystemClock;
        use crate::output::{Destination, Output};

        let table = Arc::new(EventTable::default());
        let jit = JitProcesses::new(Host::default(), Arc::new(SystemClock), None);
        let output = Output::open(&Destination::File("/dev/null".into()), &Default::default());
        let clock = Arc::new(SystemClock);
        let shared = SharedOutput::new(output.unwrap(), 1, &table, None, clock, jit);
        let event = Scripted::new().open(&Attr::default(), EventTarget::Cpu(0), None).unwrap();
        let ring = |owner| (0, owner, OverwrittenRing::map(&*event, 4096).unwrap());
        let mut snapshots = Snapshots::new(vec![ring(4)], &table, &shared);
        assert_eq!(shared.register(0, 4096), 1);
        snapshots.add(vec![ring(9)], &table, &shared);
        let rings: Vec<_> = snapshots.rings.iter().map(|ring| (ring.number, ring.owner)).collect();
        assert_eq!(rings, [(0, 4), (2, 9)]);
    }
}
