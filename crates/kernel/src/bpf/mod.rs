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
mod lock;
mod off_cpu;
mod programs;
mod record_ring;
mod sched;
mod step_back;
mod summary;
mod syscall;
mod type_ids;

pub use allowed::try_load;
pub use calls::{
    CallPlan, CallRecord, Calls, Chunk, Copied, CopyTime, Part, RESULT, SECOND, TaskEvent, chunks,
};
pub use file::Description;
pub(crate) use follow::follow_own;
pub use follow::{Call, Follow};
pub use load::BpfError;
pub(crate) use load::{LoadedObject, Plan};
pub use lock::{FutexStack, LockKind, LockSums, Locks};
pub use off_cpu::{
    OffCpu, OffCpuCounts, OffCpuPlan, OffCpuRecord, REGISTERS, StackCopy, Wait, WaitStacks,
    WaitState, Waker,
};
pub use programs::{LoadedFunction, LoadedProgram, loaded_programs};
pub(crate) use record_ring::RecordRing;
pub use sched::{SchedEvent, SchedEvents, SchedRecord, SchedTask};
pub use step_back::StepBack;
pub use summary::{CallSums, SumKey, Summary, Sums, ThreadName};
pub(crate) use syscall::bpf_fd;
