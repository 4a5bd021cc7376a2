//! Reopens events on a CPU that came back online: the kernel drops the events of a CPU that goes
//! offline.

use std::ffi::CString;

use tare_kernel::open::{EventTarget, Kernel};

use super::EventToOpen;
use super::opening::{Events, Rings};
use crate::error::RecordError;

/// The events opened on a CPU that came back.
#[derive(Debug)]
pub(crate) struct ReopenedCpu {
    /// The rings, with the indexes of their owners among all open events.
    pub(crate) rings: Rings,
    pub(crate) ids: Vec<Vec<u64>>,
}

impl Events {
    /// Whether events are open on this CPU itself, rather than on tasks there.
    pub(crate) fn has_events_of(&self, cpu: u32) -> bool {
        self.opened.iter().any(|opened| is_of_cpu(opened.target, cpu))
    }

    /// Whether events are open on CPUs themselves.
    pub(crate) fn has_cpus(&self) -> bool {
        let is_of_any =
            |target| matches!(target, EventTarget::Cpu(_) | EventTarget::CgroupOnCpu(..));
        self.opened.iter().any(|opened| is_of_any(opened.target))
    }

    /// Reopens the events of a CPU, with rings of `ring_bytes` and these filters, and enables the
    /// ones that were enabled. Events of tasks stay open: the kernel drops none of them.
    ///
    /// # Errors
    /// As for opening them at the start of a recording.
    pub(crate) fn reopen(
        &mut self,
        kernel: &dyn Kernel,
        cpu: u32,
        ring_bytes: usize,
        filters: &[Option<CString>],
    ) -> Result<ReopenedCpu, RecordError> {
        let of_cpu = |wanted: &EventToOpen| EventToOpen {
            targets: wanted.targets.iter().filter(|(_, at)| is_of_cpu(*at, cpu)).copied().collect(),
            ..wanted.clone()
        };
        let wanted: Vec<EventToOpen> = self.wanted.iter().map(of_cpu).collect();
        let mut more = Self::open(kernel, wanted)?;
        more.set_filters(filters)?;
        let mut rings = more.rings(ring_bytes)?;
        let errno = |errno| RecordError::Event { doing: "open the events of a CPU again", errno };
        let ids = more.ids().map_err(errno)?;
        more.step = self.step;
        more.set_enabled(true, |event| self.enabled.contains(&event)).map_err(errno)?;
        for opened in self.opened.iter_mut().filter(|opened| is_of_cpu(opened.target, cpu)) {
            opened.is_dropped = true;
        }
        let before = self.opened.len();
        rings.consumed.iter_mut().for_each(|(_, owner, _)| *owner += before);
        rings.overwritten.iter_mut().for_each(|(_, owner, _)| *owner += before);
        self.opened.append(&mut more.opened);
        Ok(ReopenedCpu { rings, ids })
    }
}

fn is_of_cpu(target: EventTarget, cpu: u32) -> bool {
    matches!(target, EventTarget::Cpu(on) | EventTarget::CgroupOnCpu(_, on) if on == cpu)
}
