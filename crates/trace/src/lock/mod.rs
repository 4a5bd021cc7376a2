//! Contention: which function waited for which kind of lock, how often and for how long.
//!
//! ```text
//! lock:contention_begin/end, futex(2)  --BPF programs-->  sums by call chain
//!     kernel's chains -- /proc/kallsyms --> first function outside lock code   \
//!     copied stacks   -- mappings, unwinding, symbols --> the same              --> rows
//! ```
//! Without BPF programs, `perf` sums the events of kernel locks in this process. `recorded` does so
//! for recordings.

mod callers;
mod contention;
mod flags;
mod kernel_names;
mod perf;
mod recorded;
mod rows;
mod tracer;

pub use kernel_names::KernelName;
pub use recorded::{NoLockEvents, RecordedLocks};
pub use rows::{LockKey, LockRow, UnfinishedWaits, WaitInProgress, lock_document, lock_table};
pub use tracer::{LockOptions, LockTracer};
