//! Copies of the user stacks that are deeper than the copies in samples: `bpf/deep.bpf.c`.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{MapData, PerCpuArray, RingBuf};

use super::error::BpfError;
use super::object::{self, LoadedObject, ObjectLoader};

/// The program that runs before each sample.
const PROGRAM: &str = "copy_rest";

/// A program that copies the rest of deep stacks. Dropping it removes it from the kernel once its
/// events are closed.
pub struct DeepStacks {
    loaded: LoadedObject,
    ring: RingBuf<MapData>,
    missing: PerCpuArray<MapData, u64>,
}

impl std::fmt::Debug for DeepStacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeepStacks").finish_non_exhaustive()
    }
}

impl DeepStacks {
    /// Most bytes of a stack that are copied, from the stack pointer on.
    pub const MOST_BYTES: u64 = 1 << 20;

    /// Loads the program for events whose samples copy at least `copied` bytes. It runs after
    /// [`crate::open::EventFile::run_program`].
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn load(copied: u32) -> Result<Self, BpfError> {
        let mut loaded = ObjectLoader::new(object::DEEP, &[]).constant("copied", copied).load()?;
        loaded.load_perf_event(PROGRAM)?;
        let ring = loaded.take_map("ring")?;
        let missing = loaded.take_map("missing")?;
        Ok(Self { loaded, ring, missing })
    }

    /// Returns the descriptor of the program.
    ///
    /// # Errors
    /// Fails if the program isn't loaded.
    pub fn program(&self) -> Result<BorrowedFd<'_>, BpfError> {
        self.loaded.file_of(PROGRAM)
    }

    /// Returns the descriptor that becomes readable when a quarter of the ring buffer is full.
    #[must_use]
    pub fn wakes(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }

    /// Appends the pieces that were copied since the last call, as records
    /// ([`tare_format::record::StackPiece`]).
    pub fn drain(&mut self, into: &mut Vec<u8>) {
        while let Some(piece) = self.ring.next() {
            into.extend_from_slice(&piece);
        }
    }

    /// Returns the number of stacks without room so far.
    ///
    /// # Errors
    /// Fails if the kernel's map can't be read.
    pub fn missing(&self) -> Result<u64, BpfError> {
        Ok(self.missing.get(&0, 0)?.iter().sum())
    }
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::abi::bindings::{PERF_COUNT_SW_CPU_CLOCK, PERF_TYPE_SOFTWARE};
    use tare_format::abi::{Attr, Sampling};
    use tare_format::record::{Records, StackPiece};

    use super::*;
    use crate::open::{EventTarget, Kernel as _, System};

    /// Runs for 50 ms of CPU time below a frame of 100 KiB.
    #[inline(never)]
    fn run_deep() -> u64 {
        let mut locals = [1_u64; 12 << 10];
        let begin = std::time::Instant::now();
        while begin.elapsed() < std::time::Duration::from_millis(50) {
            let at = usize::try_from(locals[0]).unwrap_or(0) % locals.len();
            locals[at] = std::hint::black_box(locals[at].wrapping_mul(5).wrapping_add(1));
        }
        locals.iter().fold(0, |sum, word| sum ^ word)
    }

    #[test]
    fn the_pages_beyond_a_sample_are_copied_up_to_the_end_of_the_stack() {
        let mut deep = match DeepStacks::load(8192) {
            Ok(deep) => deep,
            Err(error) => return println!("skipped: {error}"),
        };
        let attr = Attr {
            kind: PERF_TYPE_SOFTWARE,
            config: PERF_COUNT_SW_CPU_CLOCK.into(),
            sampling: Sampling::Period(1_000_000),
            ..Attr::default()
        };
        let event = match System.open(&attr, EventTarget::Task(0), None) {
            Ok(event) => event,
            Err(error) => return println!("skipped: {error}"),
        };
        event.run_program(deep.program().unwrap()).unwrap();
        event.enable().unwrap();
        std::hint::black_box(run_deep());
        event.disable().unwrap();
        let mut records = Vec::new();
        deep.drain(&mut records);
        let records = Records::new(&records, Endian::NATIVE);
        let pieces: Vec<_> = records.filter_map(|raw| StackPiece::decode(&raw)).collect();
        let first = pieces.first().expect("at least one sample within 50 ms");
        assert_eq!(first.address, (first.sp + 8192) & !4095);
        let of_first = pieces.iter().filter(|piece| piece.time_ns == first.time_ns);
        let addresses: Vec<_> = of_first.map(|piece| piece.address).collect();
        assert!(addresses.windows(2).all(|pair| pair[1] == pair[0] + 4096), "{addresses:x?}");
        assert!(addresses.len() >= 20, "{addresses:x?}");
        assert!(pieces.iter().all(|piece| piece.bytes.len() == 4096 && piece.pid != 0));
    }
}
