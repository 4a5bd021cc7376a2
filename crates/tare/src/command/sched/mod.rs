//! `tare sched`: how long tasks ran, and how long they waited for a CPU.
//!
//! `recorded` reads a recording and `live` traces running tasks. Both pass events to `output`,
//! which lists them or sums them up.

mod live;
mod output;
mod recorded;

use crate::Outcome;
use crate::cli::raw;
use crate::cli::resolved::sched::{Sched, SchedSource};

pub(crate) fn run(raw: raw::SchedArgs) -> Outcome {
    let sched = Sched::new(raw)?;
    match &sched.source {
        SchedSource::Recording(recorded) => recorded::run(&sched, recorded),
        SchedSource::Live { traced, ring_bytes } => {
            let has_command = !traced.command.is_empty();
            live::run(&sched, traced, *ring_bytes)
                .map_err(|error| super::remedy::with_status(error, has_command))
        }
    }
}
