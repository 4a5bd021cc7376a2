//! Copies of the user stacks that are deeper than the copies in samples: `bpf/deep.bpf.c`.

use std::os::fd::{AsFd, BorrowedFd};

use aya::maps::{Map, MapData, PerCpuArray, RingBuf};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::error::BpfError;
use super::object;
use super::perf_event_object::PerfEventObject;
use super::syscall::ProgramSlot;

/// Bytes of the ring buffer: some stacks of the largest size. While it is full, stacks are copied as
/// far as samples have room.
const RING_BYTES: u32 = 8 << 20;

/// The program that runs before each sample.
const PROGRAM: &str = "copy_rest";

/// Where events run the program. They can before it is loaded, so that events which tasks inherit
/// in the meantime run it too. Dropping it stops the program.
#[derive(Debug)]
pub struct DeepStackSlot(ProgramSlot);

impl DeepStackSlot {
    /// Creates a slot without a program.
    ///
    /// # Errors
    /// Fails if the kernel refuses BPF programs for perf events.
    pub fn new() -> Result<Self, BpfError> {
        ProgramSlot::new(PROGRAM).map(Self).map_err(BpfError::NotPermitted)
    }

    /// Returns the descriptor for [`crate::open::EventFile::run_program`].
    #[must_use]
    pub fn program(&self) -> BorrowedFd<'_> {
        self.0.program()
    }
}

/// What the program has copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeepStackCounts {
    /// Number of deep stacks that weren't copied, because the ring buffer lacked room.
    pub missing: u64,
    /// Number of the other deep stacks.
    pub copies: u64,
    /// Time that copying these took, in nanoseconds.
    pub copying_ns: u64,
}

impl DeepStackCounts {
    /// Returns what was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            missing: self.missing.saturating_sub(before.missing),
            copies: self.copies.saturating_sub(before.copies),
            copying_ns: self.copying_ns.saturating_sub(before.copying_ns),
        }
    }
}

/// A program that copies the rest of deep stacks, until its [`DeepStackSlot`] is dropped.
pub struct DeepStacks {
    ring: PieceRing,
    counts: PerCpuArray<MapData, u64>,
}

/// The ring buffer. Mapped memory counts as this process's, so it is mapped when the first piece is
/// there: most programs have no deep stacks.
enum PieceRing {
    Unmapped(MapData),
    Mapped(RingBuf<MapData>),
    /// It can't be mapped.
    Unusable,
}

impl PieceRing {
    fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Unmapped(map) => Some(map.fd().as_fd()),
            Self::Mapped(ring) => Some(ring.as_fd()),
            Self::Unusable => None,
        }
    }

    /// Maps the ring if it holds a piece. Returns it if it is mapped.
    fn mapped(&mut self) -> Option<&mut RingBuf<MapData>> {
        if let Self::Unmapped(map) = self {
            let mut files = [PollFd::new(map.fd(), PollFlags::IN)];
            poll(&mut files, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))
                .ok()
                .filter(|ready| *ready > 0)?;
            if let Self::Unmapped(map) = std::mem::replace(self, Self::Unusable)
                && let Ok(ring) = RingBuf::try_from(Map::RingBuf(map))
            {
                *self = Self::Mapped(ring);
            }
        }
        match self {
            Self::Mapped(ring) => Some(ring),
            _ => None,
        }
    }
}

impl std::fmt::Debug for DeepStacks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeepStacks").finish_non_exhaustive()
    }
}

impl DeepStacks {
    /// Bytes that the copy in a sample has in any case. A sample has at most 64 KiB, and its other
    /// fields, such as the kernel's call chain, take some of them.
    pub const SURE_BYTES: u32 = 56 << 10;

    /// Most bytes of a stack that are copied, from the stack pointer on.
    pub const MOST_BYTES: u64 = 1 << 20;

    /// Loads the program into a slot, for events whose samples copy at least `copied` bytes.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn load(slot: &DeepStackSlot, copied: u32) -> Result<Self, BpfError> {
        let constants = [("copied", copied)];
        let mut loaded =
            PerfEventObject::load(object::DEEP, PROGRAM, &constants, &[("ring", RING_BYTES)])?;
        let ring = PieceRing::Unmapped(loaded.take_map("ring")?);
        let counts = PerCpuArray::try_from(Map::PerCpuArray(loaded.take_map("counts")?))?;
        slot.0.set(loaded.program())?;
        Ok(Self { ring, counts })
    }

    /// Returns the descriptor that becomes readable when a quarter of the ring buffer is full;
    /// `None` if that can't be read.
    #[must_use]
    pub fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.ring.file()
    }

    /// Appends the pieces that were copied since the last call, as records
    /// ([`tare_format::record::StackPiece`]): at most what the ring buffer holds at a time.
    pub fn drain(&mut self, into: &mut Vec<u8>) {
        let Some(ring) = self.ring.mapped() else { return };
        // The kernel may write as fast as this copies.
        let end = into.len() + RING_BYTES as usize;
        while into.len() < end
            && let Some(piece) = ring.next()
        {
            into.extend_from_slice(&piece);
        }
    }

    /// Returns the counts so far.
    ///
    /// # Errors
    /// Fails if the kernel's map can't be read.
    pub fn counts(&self) -> Result<DeepStackCounts, BpfError> {
        let count =
            |index: u32| -> Result<u64, BpfError> { Ok(self.counts.get(&index, 0)?.iter().sum()) };
        Ok(DeepStackCounts { missing: count(0)?, copies: count(1)?, copying_ns: count(2)? })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

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
        let slot = match DeepStackSlot::new() {
            Ok(slot) => slot,
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
        event.run_program(slot.program()).unwrap();
        event.enable().unwrap();
        // Samples are taken before the program is loaded.
        std::hint::black_box(run_deep());
        let mut deep = DeepStacks::load(&slot, 8192).unwrap();
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
        let times: HashSet<_> = pieces.iter().map(|piece| piece.time_ns).collect();
        let counts = deep.counts().unwrap();
        assert_eq!((counts.copies, counts.missing), (times.len() as u64, 0));
        assert!(counts.copying_ns > 0);
    }
}
