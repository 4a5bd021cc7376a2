//! The rings of several CPUs, merged in order of time.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use tare_format::Endian;
use tare_format::order::{OrderedRecord, Sorter};
use tare_format::record::{Events, Layout, Records};

use super::{Ring, RingError};
use crate::open::EventFile;

/// Events that share one ring per CPU. Dropping it closes them.
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
    /// Index of the event that it belongs to.
    owner: usize,
}

/// Why an event has no ring to write into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddError {
    /// The CPU's first event can't get a ring.
    Ring(RingError),
    /// The event can't write into the first event's ring.
    Output(Errno),
}

impl OrderedRings {
    /// Adds an event on this CPU. The CPU's first event gets a ring of `bytes`, or less if not all
    /// of it can be locked or allocated; later ones write into that ring.
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

    /// Sets the layout of samples with these ids, which belong to the next event in the order of
    /// [`Self::layouts`].
    pub fn add_layout(&mut self, layout: Layout, ids: impl IntoIterator<Item = u64>) {
        self.layouts.add(layout, ids);
    }

    /// Returns the layouts in the order of their addition.
    #[must_use]
    pub fn layouts(&self) -> &Events {
        &self.layouts
    }

    /// Enables all events.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn enable(&self) -> Result<(), Errno> {
        self.events.iter().try_for_each(|event| event.enable())
    }

    /// Disables all events; written records remain readable.
    pub fn stop(&self) {
        for event in &self.events {
            // An event that can't be disabled ends with its descriptor.
            let _ = event.disable();
        }
    }

    /// Returns descriptors that become readable when a ring reaches its event's watermark.
    pub fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.rings.iter().filter_map(|ring| self.events.get(ring.owner)?.wakes())
    }

    /// Moves the rings' records into the sorter. Records older than `before_ns`, by the events'
    /// clock, become due; the caller knows that no ring delivers older ones after this.
    pub fn drain(&mut self, before_ns: u64) {
        for CpuRing { ring, .. } in &mut self.rings {
            let batch = ring.batch();
            self.bytes.clear();
            batch.slices().iter().for_each(|slice| self.bytes.extend_from_slice(slice));
            batch.advance();
            let mut last_ns = 0;
            for record in Records::new(&self.bytes, Endian::NATIVE) {
                // Records without a time get their predecessor's.
                let time_ns = self.layouts.time_ns(&record).unwrap_or(last_ns);
                last_ns = time_ns;
                self.sorter.push(time_ns, 0, &record);
            }
        }
        self.sorter.complete_before(before_ns);
    }

    /// Returns the next due record.
    pub fn next_record(&mut self) -> Option<OrderedRecord<'_>> {
        self.sorter.pop()
    }

    /// Returns the next due record if it isn't younger than `time_ns`.
    pub fn next_record_until(&mut self, time_ns: u64) -> Option<OrderedRecord<'_>> {
        let next_ns = self.sorter.upcoming().next()?.time_ns;
        if next_ns <= time_ns { self.sorter.pop() } else { None }
    }
}
