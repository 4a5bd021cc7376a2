//! Places in a ring: where bytes lie that may wrap around its end.

use std::ops::Range;

/// Where the bytes between two positions lie in a ring of `size` bytes, a power of two. Positions
/// only grow, wrapping around at 64 bits. More than the ring holds can't lie between them: then the
/// oldest bytes that are there count.
///
/// ```text
/// from < to, no wrap:   [....|======|....]     first = the run, second is empty
/// wrap:                 [==|........|====]     first = the run up to the end, second = the run from the beginning
/// ```
pub(super) fn places(size: usize, from: u64, to: u64) -> [Range<usize>; 2] {
    debug_assert!(size.is_power_of_two());
    let mask = size as u64 - 1;
    // Both are at most `size`, which is a usize.
    let len = usize::try_from(to.wrapping_sub(from)).unwrap_or(size).min(size);
    let start = usize::try_from(from & mask).unwrap_or(0);
    let first = len.min(size - start);
    [start..start + first, 0..len - first]
}

/// A run of bytes in a ring, in two pieces where it wraps around.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RingSpan<'a> {
    first: &'a [u8],
    second: &'a [u8],
}

impl<'a> RingSpan<'a> {
    pub(crate) fn new(first: &'a [u8], second: &'a [u8]) -> Self {
        Self { first, second }
    }

    pub(crate) fn slices(self) -> [&'a [u8]; 2] {
        [self.first, self.second]
    }

    pub(crate) fn len(self) -> usize {
        self.first.len() + self.second.len()
    }

    /// What comes before `at`, and the rest. `at` beyond the end is the end.
    pub(crate) fn split_at(self, at: usize) -> (Self, Self) {
        let in_first = at.min(self.first.len());
        let in_second = (at - in_first).min(self.second.len());
        let (a, b) = self.first.split_at(in_first);
        let (c, d) = self.second.split_at(in_second);
        (Self::new(a, c), if b.is_empty() { Self::new(d, &[]) } else { Self::new(b, d) })
    }

    /// The first `N` bytes, wherever they lie.
    pub(crate) fn array<const N: usize>(self) -> Option<[u8; N]> {
        let mut bytes = self.first.iter().chain(self.second).copied();
        let mut out = [0; N];
        for byte in &mut out {
            *byte = bytes.next()?;
        }
        Some(out)
    }
}
