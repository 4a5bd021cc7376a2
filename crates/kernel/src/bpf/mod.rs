//! Programs for bpf(2): whether this process may load them, those of the folder `bpf/`, and which
//! are loaded.
//!
//! The programs are compiled beforehand (`bpf/build.sh`) and adapted to the running kernel by its
//! BTF. They are attached by descriptors alone: nothing is pinned, so the kernel takes all of it
//! back when the process ends, however it ends.

mod allowed;
mod btf;
mod calls;
mod file;
mod follow;
mod load;
mod programs;
mod summary;
mod type_ids;

pub use allowed::try_load;
pub use calls::{
    CallPlan, CallRecord, Calls, Chunk, Copied, Part, RESULT, SECOND, TaskEvent, When, chunks,
};
pub use file::Description;
pub use follow::{Call, Follow};
pub use load::BpfError;
pub use programs::{LoadedFunction, LoadedProgram, loaded_programs};
pub use summary::{By, CallSums, Histogram, Summary, Sums, ThreadName};
