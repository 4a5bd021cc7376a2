//! The program that copies the part of user stacks for which samples have no room, for the recorder
//! that unwinds them.

use rustix::time::ClockId;
use tare_format::ledger::UnwoundChains;
use tare_kernel::bpf::{BpfError, DeepStacks};

use super::Recording;
use crate::capture::opening::Events;
use crate::capture::poller::WakeSource;
use crate::capture::reader::SharedOutput;
use crate::error::RecordError;
use crate::options::Keep;
use crate::output::Output;
use crate::plan::RecordPlan;
use crate::session::RecordSession;

/// Bytes that a copy has in any case. A sample has at most 64 KiB, and its other fields, such as the
/// kernel's call chain, take some of them.
const SURE_BYTES: u32 = 56 << 10;

/// Loads the program and runs it before the samples that the recorder unwinds, if records aren't
/// kept back and have the program's clock. `None` if it isn't wanted.
pub(super) fn start(
    session: &RecordSession,
    events: &Events,
    output: &Output,
) -> Option<Result<DeepStacks, BpfError>> {
    let RecordSession { plan, options, backend, .. } = session;
    let copies = plan.unwound.iter().filter_map(|event| plan.events.get(*event));
    let copied = copies.map(|planned| planned.attr.sample_stack_user).min()?.min(SURE_BYTES);
    let is_wanted = output.so_far().unwound.is_some()
        && options.rings.keep == Keep::All
        && options.sampling.clock == Some(ClockId::Monotonic as i32);
    is_wanted.then(|| {
        let deep = backend.kernel.deep_stacks(copied)?;
        events.run_program(deep.program()?, &plan.unwound)?;
        Ok(deep)
    })
}

/// Runs the program for events that were opened later.
pub(super) fn run(shared: &SharedOutput, events: &Events, plan: &RecordPlan) {
    shared.with_deep_stacks(|deep| {
        // Without it their chains are truncated, and counted.
        let _ = deep.program().map(|program| events.run_program(program, &plan.unwound));
    });
}

/// Notes in the ledger how much of a stack is copied.
pub(super) fn note(
    unwound: UnwoundChains,
    deep: &Option<Result<DeepStacks, BpfError>>,
) -> UnwoundChains {
    match deep {
        None => unwound,
        Some(Ok(_)) => UnwoundChains { copied_bytes: DeepStacks::MOST_BYTES, ..unwound },
        Some(Err(why)) => UnwoundChains { copies_lack: Some(why.first_line()), ..unwound },
    }
}

impl Recording {
    /// Reads the pieces that the program copies, if it was started.
    pub(super) fn read_deep_stacks(
        &self,
        deep: Option<Result<DeepStacks, BpfError>>,
    ) -> Result<(), RecordError> {
        let Some(Ok(deep)) = deep else { return Ok(()) };
        self.capture.poller.add(deep.wakes(), WakeSource::Ring).map_err(RecordError::Poll)?;
        self.capture.shared.read_deep_stacks(deep);
        Ok(())
    }
}
