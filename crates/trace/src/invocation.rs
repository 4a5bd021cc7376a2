//! One system call: its arguments, the memory they point to, and its result.

use tare_kernel::bpf::{Chunk, ChunkPart, chunks};

use crate::flags::Flags;
use crate::registers::ArgumentRegisters;
use crate::signature::ArgumentKind;

/// How descriptors are printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DescriptorInfo {
    /// As numbers.
    #[default]
    Number,
    /// With the path of the open file (`strace -y`).
    Path,
    /// Also with socket addresses and device numbers (`strace -yy`).
    Details,
}

/// One call as recorded.
#[derive(Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) name: &'a str,
    pub(crate) kinds: Option<&'a [ArgumentKind]>,
    /// The arguments, and their registers.
    pub(crate) values: [u64; 6],
    pub(crate) registers: ArgumentRegisters,
    /// Memory copied when the call began.
    pub(crate) entered: &'a [u8],
    /// The result, and memory copied at the return; `None` while the call is in progress.
    pub(crate) returned: Option<(i64, &'a [u8])>,
    /// Bytes of a string to print.
    pub(crate) string: usize,
    pub(crate) flags: &'a Flags,
    /// How descriptors are printed.
    pub(crate) descriptors: DescriptorInfo,
    /// Pointers are printed as addresses: no memory was copied.
    pub(crate) only_pointers: bool,
}

impl<'a> Invocation<'a> {
    /// Whether the call has failed; also true while it is in progress.
    pub(crate) fn has_failed(&self) -> bool {
        self.returned.is_none_or(|(result, _)| (-4095..0).contains(&result))
    }

    /// Returns the memory that an argument points to: as it was at the call or, if it couldn't be
    /// read then, at the return.
    pub(crate) fn chunks(&self, at: usize) -> impl Iterator<Item = Chunk<'a>> + use<'a> {
        let register = self.registers.first(at);
        let of = move |payload: &'a [u8]| {
            chunks(payload).filter(move |chunk| usize::from(chunk.argument) == register)
        };
        let readable = of(self.entered).any(|chunk| chunk.bytes.is_some());
        let payload = match self.returned {
            Some((_, exit)) if !readable => exit,
            _ => self.entered,
        };
        of(payload)
    }

    /// Returns the bytes that an argument points to.
    pub(crate) fn bytes(&self, at: usize) -> Option<&'a [u8]> {
        self.part(at, ChunkPart::Whole, 0)
    }

    /// Returns a part of the memory that an argument points to.
    pub(crate) fn part(&self, at: usize, part: ChunkPart, index: u16) -> Option<&'a [u8]> {
        let is_it = |chunk: &Chunk<'_>| {
            chunk.part == part && (part != ChunkPart::Element || chunk.index == index)
        };
        self.chunks(at).find(is_it)?.bytes
    }

    /// Returns the bytes that an argument points to after the return.
    pub(crate) fn bytes_after(&self, at: usize) -> Option<&'a [u8]> {
        self.part_after(at, ChunkPart::Whole)
    }

    /// Returns a part of the memory that an argument points to after the return.
    pub(crate) fn part_after(&self, at: usize, part: ChunkPart) -> Option<&'a [u8]> {
        let (_, payload) = self.returned?;
        let register = self.registers.first(at);
        let is_it =
            |chunk: &Chunk<'_>| usize::from(chunk.argument) == register && chunk.part == part;
        chunks(payload).find(is_it)?.bytes
    }
}
