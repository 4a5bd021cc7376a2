//! System calls (names, selection, sums), scheduling (`sched`) and lock contention (`lock`).
//!
//! The BPF programs that record them are in `tare_kernel::bpf`. Nothing here prints.
#![forbid(unsafe_code)]

mod address;
mod arguments;
mod chosen;
mod copied_stacks;
mod descriptors;
mod flags;
mod functions;
mod invocation;
mod learned;
mod lines;
pub mod lock;
mod names;
mod perf;
mod record;
mod record_queue;
mod result;
pub mod sched;
mod short_time;
mod signature;
mod special;
mod stacks;
mod structs;
mod summary;
mod summary_text;
mod sums;
mod table;
mod text;
mod tracer;

pub use chosen::{CallSelection, UnknownCall};
pub use functions::{FunctionCall, FunctionOptions, FunctionRow, FunctionTracer, FunctionsSeen};
pub use invocation::DescriptorInfo;
pub use lines::{LineOptions, Lines};
pub use names::{Abi, CallNames, Errno};
pub use perf::{Faults, PerfError, PerfEvents, PerfOptions};
pub use record::{InterveningEvent, TraceRecord};
pub use short_time::parse_nanoseconds;
pub use summary::{CallRow, Subject, Summary};
pub use summary_text::subjects;
pub use tare_kernel::bpf::PerfFallback;
pub use tracer::{SumTracer, TraceError, Tracer};
