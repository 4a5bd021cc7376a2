//! The rings of several CPUs, read in order of time.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use tare_format::Endian;
use tare_format::order::{OrderedRecord, Sorter};
use tare_format::record::{Events, Layout, RawRecord, Records};

use super::{Ring, RingError};
use crate::open::EventFile;

/// Events that write into one ring for each CPU. Dropped, they are closed.
#[derive(Debug, Default)]
pub struct OrderedRings {
    events: Vec<Box<dyn EventFile>>,
    rings: Vec<CpuRing>,
    layouts: Events,
    sorter: Sorter,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct CpuRing {
    cpu: u32,
    ring: Ring,
    /// Which of the events it belongs to.
    owner: usize,
}

/// Why an event has no ring to write into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The first event of a CPU gets none of its own.
    Ring(RingError),
    /// It can't write into that of the first one.
    Output(Errno),
}

impl OrderedRings {
    /// Has an event of this CPU write into the ring there, which is that of the first event, of at
    /// most `bytes`: less where so much memory may not be locked.
    ///
    /// # Errors
    /// See [`AddError`].
    pub fn add(
        &mut self,
        cpu: u32,
        event: Box<dyn EventFile>,
        bytes: usize,
    ) -> Result<(), AddError> {
        if let Some(CpuRing { owner, .. }) = self.rings.iter().find(|ring| ring.cpu == cpu) {
            event.set_output(&*self.events[*owner]).map_err(AddError::Output)?;
        } else {
            let ring = Ring::map(&*event, bytes).map_err(AddError::Ring)?;
            self.rings.push(CpuRing { cpu, ring, owner: self.events.len() });
        }
        self.events.push(event);
        Ok(())
    }

    /// Says what the samples with these ids hold: those of the next event that records name.
    pub fn add_layout(&mut self, layout: Layout, ids: impl IntoIterator<Item = u64>) {
        self.layouts.add(layout, ids);
    }

    /// What was said of samples, in that order.
    #[must_use]
    pub fn layouts(&self) -> &Events {
        &self.layouts
    }

    /// Lets all events begin.
    ///
    /// # Errors
    /// The kernel's own.
    pub fn enable(&self) -> Result<(), Errno> {
        self.events.iter().try_for_each(|event| event.enable())
    }

    /// Ends them; what was written can still be read.
    pub fn stop(&self) {
        for event in &self.events {
            // What can't be disabled ends with its descriptor.
            let _ = event.disable();
        }
    }

    /// What becomes readable when a ring has as much as its event says.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().filter_map(|ring| self.events.get(ring.owner)?.wakes())
    }

    /// Takes over what the rings hold. What is older than `before_ns`, by the events' clock, is due:
    /// no ring can bring anything older any more.
    pub fn drain(&mut self, before_ns: u64) {
        for CpuRing { ring, .. } in &mut self.rings {
            let batch = ring.batch();
            self.bytes.clear();
            batch.slices().iter().for_each(|slice| self.bytes.extend_from_slice(slice));
            batch.advance();
            let mut last_ns = 0;
            for record in Records::new(&self.bytes, Endian::NATIVE) {
                // Losses have no time of their own: they lie where they were found.
                let time_ns = self.layouts.time_ns(&record).unwrap_or(last_ns);
                last_ns = time_ns;
                self.sorter.push(time_ns, 0, &record);
            }
        }
        self.sorter.complete_before(before_ns);
    }

    /// Takes in what comes from elsewhere.
    pub fn push(&mut self, time_ns: u64, kind: u32, body: &[u8]) {
        let record = RawRecord { kind, misc: 0, body, endian: Endian::NATIVE };
        self.sorter.push(time_ns, 0, &record);
    }

    /// The next record that is due.
    pub fn next_record(&mut self) -> Option<OrderedRecord<'_>> {
        self.sorter.pop()
    }
}
