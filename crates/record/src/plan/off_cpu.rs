//! The event for off-CPU time.

use tare_events::CallGraph;
use tare_format::abi::{Attr, Flags};

use super::attr::{AttrDefaults, READ_FORMAT};
use crate::off_cpu;
use crate::options::RecorderOptions;
use crate::registers;

/// Limit on the copied bytes of a user stack.
const STACK_BYTES: u32 = 8192;

/// Whether the recorder unwinds the copied stacks of waits: unless copies in the recording are asked
/// for.
pub(super) fn is_unwound(options: &RecorderOptions, attr: Option<&Attr>) -> bool {
    let keeps_copies = [CallGraph::Dwarf, CallGraph::DwarfAndFramePointer];
    attr.is_some_and(|attr| attr.sample_stack_user > 0)
        && !keeps_copies.contains(&options.sampling.call_graph)
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
        attr.sample_stack_user = STACK_BYTES;
    }
    defaults.set_clock(&mut attr);
    Some(attr)
}
