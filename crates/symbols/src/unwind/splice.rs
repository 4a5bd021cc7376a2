//! Continues a truncated stack with the recorded frame-pointer chain.
//!
//! When the kernel made the copy it also followed the frame pointers, beyond the end of the copy. The
//! two meet at the stack pointer of the last unwound frame:
//!
//! ```text
//! stack        copy                                |  beyond it
//!              f      g      h      i              |  j      main
//! unwound      f      g      h      i   its CFA ---->
//! frame                      ra(i)         ra(j) --->  ra(main)
//! pointers     (f and g keep none)                 the first return address above i's stack pointer
//!
//! together     f      g      h      i                 j      main
//! ```
//! If the frame pointers aren't in the copy, they meet at the last return address that both have.

use super::Stack;
use super::arch::Arch;
use super::frame::{Memory, RegisterFrame};

/// Returns the part of the frame-pointer chain with the callers of the last unwound frame.
pub(super) fn beyond<'a>(
    memory: &Memory<'_>,
    arch: &Arch,
    stack: &Stack<'a>,
    last: &RegisterFrame,
    addresses: &[u64],
) -> &'a [u64] {
    let chain = stack.frame_pointers;
    let by_stack_pointer = last
        .get(arch.stack_pointer)
        .and_then(|sp| first_above(memory, first_frame_pointer(arch, stack), sp, chain));
    let first = by_stack_pointer.or_else(|| {
        let last = addresses.last()?.wrapping_add(1);
        Some(chain.iter().rposition(|address| *address == last)? + 1)
    });
    first.and_then(|first| chain.get(first..)).unwrap_or_default()
}

fn first_frame_pointer(arch: &Arch, stack: &Stack<'_>) -> u64 {
    let frame = match stack.registers {
        super::Registers::X86_64 { general, .. } => general.get(usize::from(arch.frame_pointer)),
        super::Registers::Aarch64 { general, .. } => general.get(usize::from(arch.frame_pointer)),
    };
    frame.copied().unwrap_or(0)
}

/// Returns the index of the first return address above a stack pointer. The chain starts with the
/// instruction pointer.
fn first_above(memory: &Memory<'_>, mut frame: u64, sp: u64, chain: &[u64]) -> Option<usize> {
    for (index, recorded) in chain.iter().enumerate().skip(1) {
        let at = frame.checked_add(8)?;
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
