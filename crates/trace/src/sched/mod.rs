//! Scheduling: which task ran where and for how long, and how long tasks waited for a CPU.
//!
//! ```text
//! sched_switch, sched_waking, …  --decode--> SchedAction --Sched--> Slice: a task left its CPU
//!     recorded or live                             \--------------> sums by task and by CPU
//! ```

mod decode;
mod event;
mod json;
mod map;
mod perf;
mod slices;
mod sums;
mod table;
mod timehist;
mod tracer;

pub use decode::{NoSchedEvents, Tracepoints};
pub use event::{SchedAction, Slice, State, Task};
pub use json::{JSON_VERSION, sums_document, switch_object};
pub use map::CpuMap;
pub use slices::{Sched, SchedOptions};
pub use sums::{CpuSums, TaskSums, Waits};
pub use table::{
    SortKey, TaskRow, cpu_table, histogram_lines, rows_by_command, rows_by_thread, sorted_tasks,
    task_table,
};
pub use timehist::{Timehist, TimehistOptions};
pub use tracer::SchedTracer;
