//! Decodes the scheduler's tracepoints.

use tare_format::file::Description;
use tare_format::tracepoint::Format;
use thiserror::Error;

use super::event::{SchedAction, State, Task};
use crate::learned::{EventFields, FieldBytes};

/// The recording lacks the tracepoint of context switches or its fields.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "the recording lacks sched:sched_switch or its fields; record with `tare record -a -e sched:sched_switch,sched:sched_waking,sched:sched_wakeup_new,sched:sched_migrate_task`"
)]
pub struct NoSchedEvents;

/// The fields to read of a tracepoint; a task is its id and its name.
#[derive(Clone, Copy, Debug)]
enum SchedFields {
    Switch { prev: (FieldBytes, FieldBytes), state: FieldBytes, next: (FieldBytes, FieldBytes) },
    Wakeup { task: (FieldBytes, FieldBytes) },
    Migrate { task: (FieldBytes, FieldBytes), from: FieldBytes, to: FieldBytes },
}

impl SchedFields {
    /// Finds the fields; `None` for any other tracepoint, or if a field is missing.
    fn from_format(name: &str, format: &Format) -> Option<Self> {
        let place = |name: &str| FieldBytes::find(name, format);
        let task = || Some((place("pid")?, place("comm")?));
        Some(match name {
            "sched:sched_switch" => Self::Switch {
                prev: (place("prev_pid")?, place("prev_comm")?),
                state: place("prev_state")?,
                next: (place("next_pid")?, place("next_comm")?),
            },
            "sched:sched_wakeup" | "sched:sched_waking" | "sched:sched_wakeup_new" => {
                Self::Wakeup { task: task()? }
            }
            "sched:sched_migrate_task" => {
                Self::Migrate { task: task()?, from: place("orig_cpu")?, to: place("dest_cpu")? }
            }
            _ => return None,
        })
    }
}

/// The scheduler's tracepoints of a recording, or of opened events.
#[derive(Debug, Default)]
pub struct Tracepoints(EventFields<SchedFields>);

impl Tracepoints {
    /// Adds the tracepoints that are new in the recording's description.
    pub fn learn(&mut self, description: &Description) {
        self.0.learn(description, SchedFields::from_format);
    }

    /// Adds an opened event named `system:name`, with the next number.
    pub fn push(&mut self, name: &str, format: Option<&Format>) {
        self.0.push(format.and_then(|format| SchedFields::from_format(name, format)));
    }

    /// Whether there is a tracepoint of context switches.
    #[must_use]
    pub fn has_switches(&self) -> bool {
        self.0.has_any(|fields| matches!(fields, SchedFields::Switch { .. }))
    }

    /// Whether [`Self::decode`] understands this event.
    #[must_use]
    pub fn reads(&self, event: usize) -> bool {
        self.0.get(event).is_some()
    }

    /// Decodes a sample. `current` is the task that it was taken in, on `cpu`; tasks that its data
    /// names count as selected. `None` for events that can't be read.
    #[must_use]
    pub fn decode<'a>(
        &self,
        event: usize,
        raw: &'a [u8],
        current: Task<'a>,
        cpu: u32,
    ) -> Option<SchedAction<'a>> {
        let (fields, endian) = self.0.get(event)?;
        let task = |(tid, comm): (FieldBytes, FieldBytes)| {
            let tid = tid.number(raw, endian);
            Task { tid, pid: None, comm: comm.text(raw, endian), is_selected: true }
        };
        Some(match *fields {
            SchedFields::Switch { prev, state, next } => {
                let mut prev = task(prev);
                if prev.tid == current.tid {
                    prev.pid = current.pid;
                }
                let state = u64::from(state.number(raw, endian).cast_unsigned());
                SchedAction::Switch { cpu, prev, state: State(state), next: task(next) }
            }
            SchedFields::Wakeup { task: woken } => {
                SchedAction::Wakeup { cpu, waker: current, task: task(woken) }
            }
            SchedFields::Migrate { task: moved, from, to } => SchedAction::Migrate {
                cpu,
                mover: current,
                task: task(moved),
                from: from.number(raw, endian).cast_unsigned(),
                to: to.number(raw, endian).cast_unsigned(),
            },
        })
    }
}
