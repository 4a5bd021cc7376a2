//! Records that programs in the kernel write to a ring buffer: `bpf/ring.h`.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Array, MapData, RingBuf};

use super::error::BpfError;
use super::object::LoadedObject;

/// Maximum number of records per drain while programs run, so that a fast writer can't keep the
/// reader forever.
const BATCH: usize = 10_000;

/// The ring buffer, and the count of records that it had no room for.
pub(crate) struct RecordRing {
    ring: RingBuf<MapData>,
    missing: Array<MapData, u64>,
}

impl std::fmt::Debug for RecordRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RecordRing").finish_non_exhaustive()
    }
}

impl RecordRing {
    /// Takes both maps out, so that they can be read after the programs are unloaded.
    pub(crate) fn take(loaded: &mut LoadedObject) -> Result<Self, BpfError> {
        Ok(Self { ring: loaded.take_map("ring")?, missing: loaded.take_map("missing")? })
    }

    /// Returns the descriptor to wait for, by which the programs wake the reader.
    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Hands over pending records in the order of their writing: at most 10,000 if programs are
    /// running, otherwise all. Returns whether none is left.
    pub(crate) fn drain<E>(
        &mut self,
        is_running: bool,
        mut each: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let limit = if is_running { BATCH } else { usize::MAX };
        for _ in 0..limit {
            let Some(bytes) = self.ring.next() else { return Ok(true) };
            each(&bytes)?;
        }
        Ok(false)
    }

    /// Returns how many records the ring buffer had no room for so far.
    pub(crate) fn missing(&self) -> Result<u64, BpfError> {
        Ok(self.missing.get(&0, 0)?)
    }
}
