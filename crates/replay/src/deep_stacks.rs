//! The parts of deep stacks that samples have no room for, until the unwinder reaches their sample.

use std::borrow::Cow;
use std::collections::HashMap;

use tare_format::record::StackPiece;
use tare_symbols::UNREAD_BYTE;

/// Bytes of stacks above which all are dropped.
const BYTES: usize = 16 << 20;

/// Limit of bytes from a stack's first piece, or from its copy in the sample, to its end: what
/// programs copy.
const LARGEST: usize = 1 << 20;

/// Time for which a stack waits for its sample, in nanoseconds.
const WAITING_NS: u64 = 2_000_000_000;

/// The longest time from the copy to the sample's own time, in nanoseconds: copying takes its time.
const BEFORE_NS: u64 = 1_000_000;

/// The longest time from the sample's own time to the copy, in nanoseconds. Newer kernels read the
/// time before the program runs (`bpf_overflow_handler` in `kernel/events/core.c`).
const AFTER_NS: u64 = 100_000;

/// The rest of a stack.
#[derive(Debug)]
struct DeepStack {
    time_ns: u64,
    ip: u64,
    sp: u64,
    /// The address of the first byte.
    address: u64,
    bytes: Vec<u8>,
}

/// Stacks whose sample wasn't unwound yet.
#[derive(Debug, Default)]
pub(crate) struct DeepStacks {
    /// By thread.
    by_thread: HashMap<u32, Vec<DeepStack>>,
    bytes: usize,
}

impl DeepStacks {
    /// Adds a piece of a stack, which follows the earlier pieces of the same stack. Pages that aren't
    /// in memory have no piece.
    pub(crate) fn add(&mut self, piece: &StackPiece<'_>) {
        if self.bytes > BYTES {
            *self = Self::default();
        }
        let stacks = self.by_thread.entry(piece.tid).or_default();
        if let Some(last) = stacks.last_mut()
            && last.time_ns == piece.time_ns
            && let Some(at) = distance(last.address, piece.address)
            && at >= last.bytes.len()
        {
            self.bytes += at - last.bytes.len() + piece.bytes.len();
            last.bytes.resize(at, UNREAD_BYTE);
            last.bytes.extend_from_slice(piece.bytes);
            return;
        }
        self.bytes += piece.bytes.len();
        let StackPiece { time_ns, ip, sp, address, .. } = *piece;
        stacks.push(DeepStack { time_ns, ip, sp, address, bytes: piece.bytes.to_vec() });
    }

    /// Returns the copy in a sample of a thread, continued by the thread's stack that was copied with
    /// it. `registers` are its instruction pointer and its stack pointer.
    pub(crate) fn continue_copy<'a>(
        &mut self,
        copy: &'a [u8],
        tid: u32,
        time_ns: u64,
        registers: [u64; 2],
    ) -> Cow<'a, [u8]> {
        let Some(stacks) = self.by_thread.get_mut(&tid) else { return Cow::Borrowed(copy) };
        let is_its = |stack: &DeepStack| {
            [stack.ip, stack.sp] == registers
                && stack.time_ns.saturating_add(BEFORE_NS) >= time_ns
                && stack.time_ns <= time_ns.saturating_add(AFTER_NS)
        };
        let all = (0..stacks.len()).filter(|at| is_its(&stacks[*at]));
        let nearest = all.min_by_key(|at| stacks[*at].time_ns.abs_diff(time_ns));
        let Some(at) = nearest else { return Cow::Borrowed(copy) };
        let stack = stacks.swap_remove(at);
        self.bytes -= stack.bytes.len();
        let Some(before) = distance(registers[1], stack.address) else {
            return Cow::Borrowed(copy);
        };
        let mut whole = Vec::with_capacity(before.max(copy.len()) + stack.bytes.len());
        whole.extend_from_slice(copy);
        // The copy ends at the first page that isn't in memory.
        whole.resize(before.max(copy.len()), UNREAD_BYTE);
        whole.extend_from_slice(stack.bytes.get(whole.len() - before..).unwrap_or_default());
        Cow::Owned(whole)
    }

    /// Drops the stacks whose sample was lost.
    pub(crate) fn forget_before(&mut self, newest_ns: u64) {
        let since_ns = newest_ns.saturating_sub(WAITING_NS);
        let bytes = &mut self.bytes;
        self.by_thread.retain(|_, stacks| {
            stacks.retain(|stack| {
                let stays = stack.time_ns >= since_ns;
                *bytes -= if stays { 0 } else { stack.bytes.len() };
                stays
            });
            !stacks.is_empty()
        });
    }
}

/// Returns the bytes from one address of a stack to another; `None` if it goes down or too far.
fn distance(from: u64, to: u64) -> Option<usize> {
    let bytes = usize::try_from(to.checked_sub(from)?).ok()?;
    (bytes <= LARGEST).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(tid: u32, time_ns: u64, address: u64, bytes: &[u8]) -> StackPiece<'_> {
        StackPiece { pid: 7, tid, time_ns, ip: 5, sp: 0x1000, address, bytes }
    }

    #[test]
    fn a_copy_is_continued_by_the_nearest_stack_of_its_thread() {
        let mut deep = DeepStacks::default();
        let late_ns = 31 + AFTER_NS;
        for (tid, time_ns, fill) in [(7, 10, 1), (8, 15, 2), (7, 31, 3), (7, late_ns, 4)] {
            for address in [0x1008, 0x1010] {
                deep.add(&piece(tid, time_ns, address, &[fill; 8]));
            }
        }
        // The copy reaches four bytes into the first piece.
        let mut continued = |tid, time_ns, registers| {
            deep.continue_copy(&[9; 12], tid, time_ns, registers).into_owned()
        };
        let whole = |fill| [vec![9; 12], vec![fill; 12]].concat();
        assert_eq!(continued(7, 30, [5, 0x1000]), whole(3));
        assert_eq!(continued(7, 30, [5, 0x1000]), whole(1));
        assert_eq!(continued(7, 30, [5, 0x1000]), [9; 12], "the third stack is another sample's");
        assert_eq!(continued(8, 30, [6, 0x1000]), [9; 12], "another instruction");
        assert_eq!(continued(8, 30, [5, 0x1008]), [9; 12], "another stack pointer");
        assert_eq!(continued(8, 16 + BEFORE_NS, [5, 0x1000]), [9; 12], "too old");
        assert_eq!(continued(8, 30, [5, 0x1000]), whole(2));
    }

    #[test]
    fn pages_that_are_not_in_memory_are_unread() {
        let mut deep = DeepStacks::default();
        let unread = |bytes| vec![UNREAD_BYTE; bytes];
        deep.add(&piece(7, 10, 0x1010, &[1; 8]));
        let whole = [vec![9; 12], unread(4), vec![1; 8]].concat();
        assert_eq!(deep.continue_copy(&[9; 12], 7, 11, [5, 0x1000]), whole);
        deep.add(&piece(7, 20, 0x1008, &[1; 8]));
        deep.add(&piece(7, 20, 0x1018, &[3; 8]));
        assert_eq!(deep.bytes, 24);
        let whole = [vec![9; 10], vec![1; 6], unread(8), vec![3; 8]].concat();
        assert_eq!(deep.continue_copy(&[9; 10], 7, 21, [5, 0x1000]), whole);
        assert_eq!(deep.bytes, 0);
        // The copy reaches further than the pieces.
        deep.add(&piece(7, 30, 0x1008, &[1; 8]));
        assert_eq!(deep.continue_copy(&[9; 24], 7, 31, [5, 0x1000]), vec![9; 24]);
        // Too far away for a stack.
        deep.add(&piece(7, 40, 0x1001 + LARGEST as u64, &[1; 8]));
        assert_eq!(deep.continue_copy(&[9; 12], 7, 41, [5, 0x1000]), vec![9; 12]);
        deep.add(&piece(7, 50, 0x1008, &[1; 8]));
        deep.add(&piece(7, 50, 0x1008, &[2; 8]));
        deep.add(&piece(7, 50, 0x1010 + LARGEST as u64, &[2; 8]));
        assert_eq!(deep.bytes, 24);
    }

    #[test]
    fn stacks_without_a_sample_are_dropped() {
        let mut deep = DeepStacks::default();
        deep.add(&piece(7, 10, 0x1008, &[1; 8]));
        deep.add(&piece(7, WAITING_NS, 0x1008, &[2; 8]));
        deep.forget_before(11 + WAITING_NS);
        assert_eq!(deep.bytes, 8);
        let large = vec![0; BYTES];
        deep.add(&piece(8, 20, 0, &large));
        deep.add(&piece(9, 30, 0, &[1; 8]));
        deep.add(&piece(9, 40, 0, &[1; 8]));
        assert_eq!(deep.bytes, 16, "all earlier ones were dropped");
        deep.forget_before(u64::MAX);
        assert!(deep.bytes == 0 && deep.by_thread.is_empty());
    }
}
