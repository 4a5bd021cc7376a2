//! Ring buffers, ids, start and losses of the BPF programs that write the samples of system calls.

use tare_kernel::bpf::BpfError;
use tare_kernel::call_samples::CallSamples;
use tare_kernel::ring::{Ring, RingError};

use super::{Recording, event_error};
use crate::capture::opening::Events;
use crate::capture::poller::{Poller, WakeSource};
use crate::error::RecordError;
use crate::plan::{PlannedEvent, RecordPlan};

/// Index in place of the owner, for ring buffers of programs.
const NO_OWNER: usize = usize::MAX;

/// Returns the programs' ring buffers, each with its CPU.
pub(super) fn rings(calls: &CallSamples) -> Result<Vec<(u32, usize, Ring)>, RecordError> {
    let rings = calls.rings().map_err(RingError::Kernel)?.into_iter();
    Ok(rings.map(|(cpu, ring)| (cpu, NO_OWNER, ring)).collect())
}

/// Returns the ids of each event, including events whose samples programs write.
pub(super) fn event_ids(plan: &RecordPlan, events: &Events) -> Result<Vec<Vec<u64>>, RecordError> {
    let mut ids = events.ids().map_err(event_error("read the ids of events"))?;
    let written = ids.iter_mut().zip(&plan.events).filter(|(_, planned)| planned.by_programs);
    written.zip(CallSamples::IDS).for_each(|((ids, _), id)| ids.push(id));
    Ok(ids)
}

/// Makes programs wake each reader when they have filled a quarter of a ring buffer since the last
/// pass of the caller's thread.
pub(super) fn add_to_pollers<'a>(
    calls: Option<&CallSamples>,
    mut readers: impl Iterator<Item = &'a Poller>,
) -> Result<(), RecordError> {
    let Some(calls) = calls else { return Ok(()) };
    readers
        .try_for_each(|poller| poller.add(calls.wakes(), WakeSource::Ring))
        .map_err(RecordError::Poll)
}

impl Recording {
    /// Starts the programs for the recorded tasks.
    pub(super) fn start_calls(&mut self, command: Option<i32>) -> Result<(), RecordError> {
        let Self { session, sources, targets, .. } = self;
        let Some(calls) = &mut sources.calls else { return Ok(()) };
        let tasks = &targets.tasks;
        let follow = tasks.off_cpu_target(command).followed_tasks(&session.options.target);
        calls.start(&follow).map_err(|error| match error {
            BpfError::NoProcess(pid) => RecordError::NoProcess(pid),
            error => RecordError::Calls(error),
        })
    }

    /// Returns the lost samples of each event, if known.
    pub(super) fn lost(&self) -> Vec<Option<u64>> {
        let mut lost = self.sources.events.lost();
        let Some(Ok(counts)) = self.sources.calls.as_ref().map(CallSamples::lost) else {
            return lost;
        };
        let written = |(_, planned): &(&mut Option<u64>, &PlannedEvent)| planned.by_programs;
        let of_events = lost.iter_mut().zip(&self.session.plan.events).filter(written);
        of_events.zip(counts).for_each(|((lost, _), count)| *lost = Some(count));
        lost
    }
}
