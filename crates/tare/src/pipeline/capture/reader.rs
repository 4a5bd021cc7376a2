//! Reading rings: in one pass everything that they hold, also below their watermarks, goes to the output in few, large pieces.
//!
//! ```text
//! wait for a watermark (half a ring), or for the flush interval
//! for each ring:  what is in it     -> meter (headers)
//! append                            -> output, unparsed
//! move the tails                    the kernel may write there again
//! all readers through?              FINISHED_ROUND
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use tare_format::file::writer::FINISHED_ROUND;
use tare_kernel::ring::{Batch, Ring};

use super::meter::Meter;
use super::rounds::Rounds;
use crate::pipeline::output::{Output, Result};

/// Bytes from which a piece is appended before the next ring is looked at: its place goes back to the kernel the sooner.
const LARGE: usize = 1 << 20;

/// The ring of a CPU and what it brought.
#[derive(Debug)]
pub(crate) struct CpuRing {
    pub(crate) cpu: u32,
    pub(crate) ring: Ring,
    pub(crate) meter: Meter,
}

/// The output, which all readers append to.
#[derive(Debug)]
pub(crate) struct Shared(Mutex<Common>);

#[derive(Debug)]
struct Common {
    output: Output,
    rounds: Rounds,
    /// How often the output was called: a system call each, where it writes.
    calls: u64,
}

impl Shared {
    pub(crate) fn new(output: Output, readers: usize) -> Self {
        Self(Mutex::new(Common { output, rounds: Rounds::new(readers), calls: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Common> {
        // A reader that panicked left whole records behind: each append is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends whole records that come from no ring.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append(&self, records: &[&[u8]]) -> Result<()> {
        let mut common = self.lock();
        common.calls += 1;
        common.output.append(records)
    }

    /// Has what was appended in the recording, whatever becomes of the recorder.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn flush(&self) -> Result<()> {
        let mut common = self.lock();
        common.calls += 1;
        common.output.flush()
    }

    /// The output, for what only one thread asks of it.
    pub(crate) fn with_output<T>(&self, ask: impl FnOnce(&mut Output) -> T) -> T {
        ask(&mut self.lock().output)
    }

    /// How often records were appended, and flushed.
    pub(crate) fn calls(&self) -> u64 {
        self.lock().calls
    }

    /// The output, once no reader is left.
    pub(crate) fn into_output(self) -> Output {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner).output
    }
}

/// Reads some of the rings.
#[derive(Debug)]
pub(crate) struct Reader {
    number: usize,
    pub(crate) rings: Vec<CpuRing>,
}

impl Reader {
    /// The reader with this number, counted from 0.
    pub(crate) fn new(number: usize, rings: Vec<CpuRing>) -> Self {
        Self { number, rings }
    }

    /// Takes all that the rings hold, and returns whether there was anything.
    ///
    /// # Errors
    /// The output's own. What could not be appended stays in the rings.
    pub(crate) fn pass(&mut self, shared: &Shared) -> Result<bool> {
        let since = shared.lock().rounds.number();
        let mut held: Vec<Batch<'_>> = Vec::with_capacity(self.rings.len());
        let (mut bytes, mut any) = (0, false);
        for CpuRing { ring, meter, .. } in &mut self.rings {
            let batch = ring.batch();
            if batch.is_empty() {
                continue;
            }
            meter.see(batch.slices());
            bytes += batch.len();
            held.push(batch);
            if bytes >= LARGE {
                append(&mut shared.lock(), &mut held, None)?;
                (bytes, any) = (0, true);
            }
        }
        any |= !held.is_empty();
        append(&mut shared.lock(), &mut held, Some((self.number, since)))?;
        Ok(any)
    }
}

/// Appends batches and gives their places back. With the last ones of a pass, the reader's number and the round in which the pass
/// began: where that completes a round, its mark goes along.
fn append(common: &mut Common, held: &mut Vec<Batch<'_>>, ends: Option<(usize, u64)>) -> Result<()> {
    let mut pieces: Vec<&[u8]> = held.iter().flat_map(Batch::slices).filter(|piece| !piece.is_empty()).collect();
    if !pieces.is_empty() {
        common.rounds.appended();
    }
    if ends.is_some_and(|(reader, since)| common.rounds.drained(reader, since)) {
        pieces.push(&FINISHED_ROUND);
    }
    if !pieces.is_empty() {
        common.calls += 1;
        common.output.append(&pieces)?;
    }
    held.drain(..).for_each(Batch::advance);
    Ok(())
}
