//! The ring buffers of all CPUs, read in order of time.

use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use tare_format::Endian;
use tare_format::order::{Ordered, Sorter};
use tare_format::record::{Events, RawRecord, Records};
use tare_kernel::open::EventFile;
use tare_kernel::ring::Ring;

use super::open::Opened;

/// How long a record may be under way between its time and its ring buffer, in nanoseconds.
const UNDER_WAY_NS: u64 = 50_000_000;

/// Events with their ring buffers, one for each CPU.
#[derive(Debug)]
pub(super) struct Rings {
    events: Vec<Box<dyn EventFile>>,
    rings: Vec<Ring>,
    /// Which of the events each ring buffer belongs to.
    owners: Vec<usize>,
    layouts: Events,
    sorter: Sorter,
    bytes: Vec<u8>,
    /// What was read so far, in bytes.
    offset: u64,
}

impl Rings {
    pub(super) fn new(opened: Opened) -> Self {
        Self {
            events: opened.events,
            rings: opened.rings,
            owners: opened.owners,
            layouts: opened.layouts,
            sorter: Sorter::default(),
            bytes: Vec::new(),
            offset: 0,
        }
    }

    pub(super) fn enable(&self) -> Result<(), Errno> {
        self.events.iter().try_for_each(|event| event.enable())
    }

    pub(super) fn stop(&self) {
        for event in &self.events {
            // What can't be disabled ends with its descriptor.
            let _ = event.disable();
        }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.owners.iter().filter_map(|&owner| self.events.get(owner)?.wakes())
    }

    /// Takes over what the ring buffers hold.
    pub(super) fn drain(&mut self, is_over: bool) {
        let before_ns = now_ns().saturating_sub(UNDER_WAY_NS);
        for ring in &mut self.rings {
            let batch = ring.batch();
            self.bytes.clear();
            batch.slices().iter().for_each(|slice| self.bytes.extend_from_slice(slice));
            batch.advance();
            let mut last_ns = 0;
            for record in Records::new(&self.bytes, Endian::NATIVE) {
                // Losses have no time of their own: they lie where they were found.
                let time_ns = self.layouts.time_ns(&record).unwrap_or(last_ns);
                last_ns = time_ns;
                self.sorter.push(time_ns, self.offset, &record);
                self.offset += record.size() as u64;
            }
        }
        if is_over {
            self.sorter.finish();
        } else {
            self.sorter.complete_before(before_ns);
        }
    }

    /// Takes in what comes from elsewhere.
    pub(super) fn push(&mut self, time_ns: u64, kind: u32, body: &[u8]) {
        let record = RawRecord { kind, misc: 0, body, endian: Endian::NATIVE };
        self.sorter.push(time_ns, self.offset, &record);
    }

    pub(super) fn next_record(&mut self) -> Option<Ordered<'_>> {
        self.sorter.pop()
    }
}

fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
