//! Rings that are overwritten, put into the recording when that is asked for.

use std::sync::Arc;

use anyhow::Context;
use tare_format::Endian;
use tare_format::file::writer::FINISHED_ROUND;
use tare_format::record::Records;
use tare_kernel::ring::OverwrittenRing;

use super::live::{Live, Stopped};
use crate::pipeline::capture::meter::{Known, Meter};
use crate::pipeline::capture::reader::Shared;

/// The rings that are overwritten.
#[derive(Debug)]
pub(super) struct Snapshots {
    rings: Vec<Overwritten>,
}

/// The ring of a CPU that is overwritten, and what was taken of it.
#[derive(Debug)]
struct Overwritten {
    /// What the output knows it by.
    number: usize,
    /// The event that it was mapped for, among those that are open.
    owner: usize,
    ring: OverwrittenRing,
    meter: Meter,
}

impl Snapshots {
    pub(super) fn new(
        rings: Vec<(u32, usize, OverwrittenRing)>,
        known: &Arc<Known>,
        shared: &Shared,
    ) -> Self {
        let ring = |(cpu, owner, ring): (u32, usize, OverwrittenRing)| Overwritten {
            number: shared.register(cpu, ring.size()),
            owner,
            ring,
            meter: Meter::new(known),
        };
        Self { rings: rings.into_iter().map(ring).collect() }
    }
}

impl Live<'_> {
    /// Puts what overwritten rings hold, and what came last, into the recording.
    pub(super) fn dump(&mut self) -> anyhow::Result<()> {
        if self.stopped.is_some() {
            return Ok(());
        }
        // What tells of processes comes first: samples refer to it.
        if let Err(error) =
            self.reader.drain(&self.shared).and_then(|()| self.shared.append_recent())
        {
            self.stop_recording(error.into());
        }
        for Overwritten { number, owner, ring, meter } in &mut self.snapshots.rings {
            let event = self.events.file(*owner).context("a ring without an event")?;
            let records = oldest_first(&ring.snapshot(event).context("cannot read a ring")?);
            meter.see([&records, &[]]);
            if self.stopped.is_none() && !records.is_empty() {
                self.stopped =
                    self.shared.append_of(*number, meter, &records).err().map(Stopped::from);
            }
        }
        if self.stopped.is_none() {
            self.stopped = self
                .shared
                .append(&[&FINISHED_ROUND])
                .and_then(|()| self.shared.flush())
                .err()
                .map(Stopped::from);
        }
        Ok(())
    }
}

/// Whole records in the other order.
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
    fn records_change_their_order_and_nothing_else() {
        let record = |size: u16, byte: u8| {
            [&[9, 0, 0, 0, 0, 0][..], &size.to_ne_bytes(), &vec![byte; usize::from(size) - 8]]
                .concat()
        };
        let (newest, oldest) = (record(24, 1), record(16, 2));
        assert_eq!(
            oldest_first(&[newest.clone(), oldest.clone()].concat()),
            [oldest, newest].concat()
        );
        assert_eq!(oldest_first(&[]), Vec::<u8>::new());
    }
}
