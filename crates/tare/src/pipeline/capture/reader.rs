//! Reading rings: in one pass everything that they hold, also below their watermarks, goes to the output in few, large pieces.
//!
//! ```text
//! wait for a watermark (half a ring), or for the flush interval
//! for each ring:  what is in it     -> meter (headers)
//! append                            -> output, unparsed
//! move the tails                    the kernel may write there again
//! all readers through?              FINISHED_ROUND
//! ```

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tare_format::file::writer::{BuildId, FINISHED_ROUND};
use tare_kernel::host::Host;
use tare_kernel::ring::{Batch, Ring};

use super::meter::{Known, Meter};
use super::recent::{Recent, without_samples};
use super::rounds::Rounds;
use crate::pipeline::describe::BuildIds;
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
    /// Where records wait that may never go to the output.
    recent: Option<Recent>,
    /// What was forgotten of them.
    forgotten: Meter,
    /// The files that samples can lie in.
    build_ids: BuildIds,
    rounds: Rounds,
    /// How often the output was called: a system call each, where it writes.
    calls: u64,
}

impl Shared {
    /// `keep`: only what came in that time stays, and goes to the output when it is asked for.
    pub(crate) fn new(output: Output, readers: usize, known: &Arc<Known>, keep: Option<Duration>) -> Self {
        let (rounds, recent) = (Rounds::new(readers), keep.map(Recent::new));
        Self(Mutex::new(Common { output, recent, forgotten: Meter::new(known), build_ids: BuildIds::default(), rounds, calls: 0 }))
    }

    fn lock(&self) -> MutexGuard<'_, Common> {
        // A reader that panicked left whole records behind: each append is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends whole records that come from no ring that is drained.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append(&self, records: &[&[u8]]) -> Result<()> {
        let mut common = self.lock();
        common.calls += 1;
        common.output.append(records)
    }

    /// Notes which files code was mapped from.
    pub(crate) fn see_mappings(&self, records: &[u8]) {
        self.lock().build_ids.see(records);
    }

    /// The build ids of these files.
    pub(crate) fn build_ids(&self, host: &Host) -> Vec<BuildId> {
        self.lock().build_ids.read(host)
    }

    /// Appends what was kept back, if that is done.
    ///
    /// # Errors
    /// The output's own.
    pub(crate) fn append_recent(&self) -> Result<()> {
        let mut common = self.lock();
        for chunk in common.recent.as_mut().map(Recent::take).unwrap_or_default() {
            common.calls += 1;
            common.output.append(&[&chunk])?;
        }
        Ok(())
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

    /// What was done with the output, once no reader is left.
    pub(crate) fn into_done(self) -> Done {
        let Common { output, recent, forgotten, build_ids, calls, .. } = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        Done { output, shortest: recent.and_then(|recent| recent.shortest), forgotten, build_ids, calls }
    }
}

/// What readers leave behind together.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) output: Output,
    /// What was read and not kept.
    pub(crate) forgotten: Meter,
    /// Where less than was asked for could be kept, for how long that was.
    pub(crate) shortest: Option<Duration>,
    /// The files that samples can lie in.
    pub(crate) build_ids: BuildIds,
    /// How often records were appended, and flushed.
    pub(crate) calls: u64,
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
        let (mut bytes, mut any, mut mappings) = (0, false, Vec::new());
        for CpuRing { ring, meter, .. } in &mut self.rings {
            let batch = ring.batch();
            if batch.is_empty() {
                continue;
            }
            meter.see(batch.slices());
            meter.take_mappings(&mut mappings);
            bytes += batch.len();
            held.push(batch);
            if bytes >= LARGE {
                append(&mut shared.lock(), &mut held, &mut mappings, None)?;
                (bytes, any) = (0, true);
            }
        }
        any |= !held.is_empty();
        append(&mut shared.lock(), &mut held, &mut mappings, Some((self.number, since)))?;
        Ok(any)
    }
}

/// Appends batches and gives their places back. With the last ones of a pass, the reader's number and the round in which the pass
/// began: where that completes a round, its mark goes along.
fn append(common: &mut Common, held: &mut Vec<Batch<'_>>, mappings: &mut Vec<u8>, ends: Option<(usize, u64)>) -> Result<()> {
    let mut pieces: Vec<&[u8]> = held.iter().flat_map(Batch::slices).filter(|piece| !piece.is_empty()).collect();
    if !pieces.is_empty() {
        common.rounds.appended();
    }
    if ends.is_some_and(|(reader, since)| common.rounds.drained(reader, since)) {
        pieces.push(&FINISHED_ROUND);
    }
    common.build_ids.see(mappings);
    mappings.clear();
    common.take(&pieces)?;
    held.drain(..).for_each(Batch::advance);
    Ok(())
}

impl Common {
    /// Takes records from rings: to the output, or to where what came last is kept.
    fn take(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let Some(recent) = &mut self.recent else {
            self.calls += u64::from(!pieces.is_empty());
            return if pieces.is_empty() { Ok(()) } else { self.output.append(pieces) };
        };
        let now = Instant::now();
        if !pieces.is_empty() {
            recent.push(pieces, now);
        }
        while let Some(chunk) = recent.expired(now) {
            self.forgotten.see([&chunk, &[]]);
            let kept = without_samples(&chunk);
            if !kept.is_empty() {
                self.calls += 1;
                self.output.append(&[&kept, &FINISHED_ROUND])?;
            }
        }
        Ok(())
    }
}
