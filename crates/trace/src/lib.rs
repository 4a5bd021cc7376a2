//! System calls: what their numbers are called, which of them are meant, and their sums.
//!
//! The programs that see them are in `tare_kernel::bpf`. Nothing here prints.
#![forbid(unsafe_code)]

mod address;
mod arguments;
mod chosen;
mod descriptors;
mod flags;
mod invocation;
mod lines;
mod names;
mod perf;
mod result;
mod signature;
mod special;
mod stacks;
mod structs;
mod summary;
mod sums;
mod table;
mod text;
mod tracer;

pub use chosen::{Chosen, UnknownCall};
pub use invocation::DescriptorInfo;
pub use lines::{LineOptions, Lines};
pub use names::{Abi, CallNames, Errno};
pub use perf::{Between, Faults, PerfError, PerfEvents, PerfOptions, Seen};
pub use summary::{Row, Subject, Summary};
pub use tracer::{StepBack, SumTracer, TraceError, Tracer};
