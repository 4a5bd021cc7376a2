//! The event for off-CPU time.

use tare_events::CallGraph;
use tare_format::abi::{Attr, Flags};

use super::attr::{AttrDefaults, READ_FORMAT};
use crate::off_cpu;
use crate::options::RecorderOptions;
use crate::registers;

/// Limit on the copied bytes of a user stack: a sample holds at most 64 KiB.
const STACK_BYTES: u32 = 61_440;

/// Whether the options ask for copies in the recording.
fn keeps_copies(options: &RecorderOptions) -> bool {
    let kept = [CallGraph::Dwarf, CallGraph::DwarfAndFramePointer];
    kept.contains(&options.sampling.call_graph)
}

/// Whether the recorder unwinds the copied stacks of waits: unless copies in the recording are asked
/// for.
pub(super) fn is_unwound(options: &RecorderOptions, attr: Option<&Attr>) -> bool {
    attr.is_some_and(|attr| attr.sample_stack_user > 0) && !keeps_copies(options)
}

/// Returns its attribute, if off-CPU time is requested.
pub(super) fn attr(options: &RecorderOptions, defaults: &AttrDefaults<'_>) -> Option<Attr> {
    let asked = options.off_cpu?;
    let mut attr = off_cpu::event().attr;
    let chains = options.sampling.call_graph != CallGraph::No;
    let copies = chains && !asked.frame_pointers && registers::user_registers() != 0;
    attr.sample_type = off_cpu::fields(chains, copies, asked.wakers);
    attr.read_format = READ_FORMAT;
    attr.flags |= Flags::SAMPLE_ID_ALL | Flags::DISABLED;
    if copies {
        attr.sample_regs_user = registers::user_registers();
        let asked = options.sampling.stack_bytes.min(STACK_BYTES);
        attr.sample_stack_user = if keeps_copies(options) { asked } else { STACK_BYTES };
    }
    defaults.set_clock(&mut attr);
    Some(attr)
}
