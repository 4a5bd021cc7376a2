//! Continues a truncated stack with the recorded frame-pointer chain.
//!
//! When the kernel made the copy it also followed the frame pointers, beyond the end of the copy.
//! The two meet at the stack pointer of the last unwound frame:
//!
//! ```text
//! stack        copy                                |  beyond it
//!              f      g      h      i              |  j      main
//! unwound      f      g      h      i   its CFA ---->
//! frame                      ra(i)         ra(j) --->  ra(main)
//! pointers     (f and g keep none)                the first return address above i's stack pointer
//!
//! together     f      g      h      i                 j      main
//! ```
//! If the frame pointers lead out of the copy first, they meet at the last unwound return address,
//! if the chain has it. If the last frame's caller is on another stack (Go switches stacks to call
//! C), its stack pointer is unknown: they meet at the last frame's frame pointer.

use super::arch::Arch;
use super::frame::{Memory, RegisterFrame};
use super::{Stack, UnwoundFrame};

/// The registers at the end of an unwound stack.
#[derive(Clone, Copy, Debug)]
pub(super) enum LastFrame<'a> {
    /// Of the caller of the last unwound function.
    Caller(&'a RegisterFrame),
    /// Of the last unwound function, because its caller's are unknown.
    Callee { frame_pointer: Option<u64> },
}

/// Returns the part of the frame-pointer chain with the callers of the last unwound frame.
pub(super) fn beyond<'a>(
    memory: &Memory<'_>,
    arch: &Arch,
    stack: &Stack<'a>,
    last: LastFrame<'_>,
    last_frame: Option<&UnwoundFrame>,
) -> &'a [u64] {
    let chain = stack.frame_pointers;
    let first_frame = first_frame_pointer(arch, stack);
    let by_register = match last {
        LastFrame::Caller(caller) => caller
            .get(arch.stack_pointer)
            .and_then(|sp| first_above(memory, first_frame, sp, chain)),
        LastFrame::Callee { frame_pointer } => {
            frame_pointer.and_then(|frame| index_of_frame(memory, first_frame, frame, chain))
        }
    };
    let first = by_register.or_else(|| {
        let last = last_frame?.pc;
        Some(chain.iter().rposition(|address| *address == last)? + 1)
    });
    first.and_then(|first| chain.get(first..)).unwrap_or_default()
}

/// Returns the index of the return address in the frame at a frame pointer.
fn index_of_frame(
    memory: &Memory<'_>,
    mut frame: u64,
    wanted: u64,
    chain: &[u64],
) -> Option<usize> {
    for index in 1..chain.len() {
        if frame == wanted {
            return Some(index);
        }
        frame = memory.word(frame)?;
    }
    None
}

fn first_frame_pointer(arch: &Arch, stack: &Stack<'_>) -> u64 {
    let frame = match stack.registers {
        super::Registers::X86_64 { general, .. } => general.get(usize::from(arch.frame_pointer)),
        super::Registers::X86 { general, .. } => general.get(usize::from(arch.frame_pointer)),
        super::Registers::Aarch64 { general, .. } => general.get(usize::from(arch.frame_pointer)),
    };
    frame.copied().unwrap_or(0)
}

/// Returns the index of the first return address above a stack pointer. The chain starts with the
/// instruction pointer. `None` if it doesn't match the copy.
fn first_above(memory: &Memory<'_>, mut frame: u64, sp: u64, chain: &[u64]) -> Option<usize> {
    for (index, recorded) in chain.iter().enumerate().skip(1) {
        let at = frame.checked_add(memory.word_bytes.into())?;
        if at >= sp {
            return Some(index);
        }
        // The chain has return addresses without their pointer-authentication signatures.
        let found = memory.word(at)?;
        if found != *recorded && found & 0x0000_ffff_ffff_ffff != *recorded {
            return None;
        }
        frame = memory.word(frame)?;
    }
    None
}
