//! Traces system calls, calls of functions, scheduling (`sched`) and lock contention (`lock`).
//!
//! ```text
//! BPF programs (tare_kernel::bpf)                        \
//! perf events (perf): page faults, switches, tracepoints, -> TraceRecord -> Lines: text or JSON
//!     everything if BPF programs can't be loaded         /              \-> sums -> Summary
//! ```
//! BPF programs also make sums in the kernel: of calls, of functions and of waits for locks.
//! Nothing here prints.
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
mod prctl;
mod ptrace;
mod record;
mod record_queue;
mod registers;
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

pub use chosen::{CallSelection, SignalSelection, UnknownCall};
pub use functions::{FunctionCall, FunctionOptions, FunctionRow, FunctionTracer, FunctionsSeen};
pub use invocation::DescriptorInfo;
pub use lines::{LineOptions, LineStamps, LineTime, Lines};
pub use names::{Abi, CallNames, Errno};
pub use perf::{Faults, PerfError, PerfEvents, PerfOptions, UnwoundStacks};
pub use record::{InterveningEvent, TraceRecord};
pub use short_time::parse_nanoseconds;
pub use summary::{CallRow, Subject, Summary, UnfinishedCall};
pub use summary_text::subjects;
pub use sums::CallAdder;
pub use tare_kernel::bpf::PerfFallback;
pub use text::HexStrings;
pub use tracer::{SumTracer, TraceError, TraceFallback, Tracer};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
