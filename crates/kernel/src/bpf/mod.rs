//! BPF programs: whether this process may load them, the programs of the folder `bpf/`, and a list
//! of all loaded ones. [`crate::functions`] and [`crate::call_samples`] run two more programs of
//! that folder.
//!
//! `bpf/build.sh` compiles the programs beforehand; the loader adapts them to the running kernel by
//! its BTF. They are attached by descriptors alone and nothing is pinned, so the kernel removes
//! everything when the process ends, however it ends.

mod btf;
mod btf_subset;
mod calls;
mod deep;
mod error;
mod follow;
mod lock;
pub(crate) mod object;
mod off_cpu;
mod perf_event_object;
mod plan;
mod programs;
mod progress;
mod record_ring;
mod sched;
mod summary;
mod syscall;
mod user_memory;

pub use calls::{
    CallBeginning, CallRecord, Calls, Chunk, ChunkPart, FileDescription, RESULT, SECOND,
    SignalFate, TaskEvent, chunks,
};
pub use deep::{DeepStackCounts, DeepStackSlot, DeepStacks};
pub use error::{BpfError, PerfFallback};
pub(crate) use follow::follow_own;
pub use follow::{Call, FollowedTasks};
pub use lock::{FutexStack, FutexWait, KernelWait, LockFunction, LockKind, LockSums, Locks};
pub use off_cpu::{
    OffCpuCounts, OffCpuPlan, OffCpuPrograms, OffCpuRecord, REGISTERS, StackCopy, StackPieces,
    Wait, WaitStacks, WaitState, Waker,
};
pub use plan::{CallPlan, CopyRule, CopyTime};
pub use programs::{LoadedFunction, LoadedProgram, loaded_programs};
pub use progress::CallInProgress;
pub(crate) use record_ring::RecordRing;
pub use sched::{SchedEvent, SchedEvents, SchedRecord, SchedTask};
pub use summary::{CallSummary, CallSums, SumKey, Sums, ThreadName};
pub(crate) use syscall::bpf_fd;
pub use syscall::try_load;
pub use user_memory::{CopyMoment, UserMemory};

/// Stands for each byte of a copied stack that wasn't in memory. A word of them is no address of
/// code.
pub const UNREAD_BYTE: u8 = 0xff;
