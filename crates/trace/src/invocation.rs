//! One system call: its arguments, what they led to, and what it returned.

use tare_kernel::bpf::{Chunk, ChunkPart, chunks};

use crate::flags::Flags;
use crate::signature::Kind;

/// What is shown of descriptors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DescriptorInfo {
    /// Their numbers.
    #[default]
    Number,
    /// Also the path of what they stand for (`strace -y`).
    Path,
    /// Also the addresses of sockets and the numbers of devices (`strace -yy`).
    Details,
}

/// What is known of a call.
#[derive(Clone, Copy)]
pub(crate) struct Invocation<'a> {
    pub(crate) name: &'a str,
    pub(crate) kinds: Option<&'a [Kind]>,
    pub(crate) values: [u64; 6],
    /// What was copied when the call began.
    pub(crate) entered: &'a [u8],
    /// What it returned, and what was copied then; `None` as long as it goes on.
    pub(crate) returned: Option<(i64, &'a [u8])>,
    /// How much of a string is shown.
    pub(crate) string: usize,
    pub(crate) flags: &'a Flags,
    /// What is shown of descriptors.
    pub(crate) descriptors: DescriptorInfo,
    /// Nothing was copied of what pointers lead to.
    pub(crate) only_pointers: bool,
}

impl<'a> Invocation<'a> {
    /// Whether the call has failed; also as long as it goes on.
    pub(crate) fn failed(&self) -> bool {
        self.returned.is_none_or(|(result, _)| (-4095..0).contains(&result))
    }

    /// What an argument leads to: as it was at the begin or, where that was not in memory, at the
    /// end.
    pub(crate) fn chunks(&self, at: usize) -> impl Iterator<Item = Chunk<'a>> + use<'a> {
        let of = move |payload: &'a [u8]| {
            chunks(payload).filter(move |chunk| usize::from(chunk.argument) == at)
        };
        let readable = of(self.entered).any(|chunk| chunk.bytes.is_some());
        let payload = match self.returned {
            Some((_, exit)) if !readable => exit,
            _ => self.entered,
        };
        of(payload)
    }

    /// What an argument points to.
    pub(crate) fn bytes(&self, at: usize) -> Option<&'a [u8]> {
        self.part(at, ChunkPart::Whole, 0)
    }

    /// A part of what an argument leads to.
    pub(crate) fn part(&self, at: usize, part: ChunkPart, index: u16) -> Option<&'a [u8]> {
        let is_it = |chunk: &Chunk<'_>| {
            chunk.part == part && (part != ChunkPart::Element || chunk.index == index)
        };
        self.chunks(at).find(is_it)?.bytes
    }

    /// What an argument leads to when the call has returned.
    pub(crate) fn bytes_after(&self, at: usize) -> Option<&'a [u8]> {
        self.part_after(at, ChunkPart::Whole)
    }

    /// The same when the call has returned.
    pub(crate) fn part_after(&self, at: usize, part: ChunkPart) -> Option<&'a [u8]> {
        let (_, payload) = self.returned?;
        chunks(payload).find(|chunk| usize::from(chunk.argument) == at && chunk.part == part)?.bytes
    }
}
