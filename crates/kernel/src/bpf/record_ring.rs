//! Records that programs in the kernel write to a ring buffer: `bpf/ring.h`.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, MapData, RingBuf};

use super::load::{BpfError, LoadedObject};

/// How many records are read before anything else is looked at.
const BATCH: usize = 10_000;

/// The ring buffer, and how many records found no room in it.
pub(crate) struct RecordRing {
    ring: RingBuf<MapData>,
    missing: Array<MapData, u64>,
}

impl RecordRing {
    /// Takes both out, to be read after the programs are gone.
    pub(crate) fn take(loaded: &mut LoadedObject) -> Result<Self, BpfError> {
        let ring = loaded.take("ring")?.try_into()?;
        Ok(Self { ring, missing: loaded.take("missing")?.try_into()? })
    }

    /// What becomes readable when the programs wake the reader.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Hands over the bytes of records that wait, in the order in which they were written: at most
    /// 10,000, as others may come as fast as these are read. Returns how many there were.
    pub(crate) fn drain<E>(
        &mut self,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<usize, E> {
        for number in 0..BATCH {
            let Some(bytes) = self.ring.next() else { return Ok(number) };
            each(&bytes)?;
        }
        Ok(BATCH)
    }

    /// How many records found no room until now.
    pub(crate) fn missing(&self) -> Result<u64, BpfError> {
        Ok(self.missing.get(&0, 0)?)
    }
}
