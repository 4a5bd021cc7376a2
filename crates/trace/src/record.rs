//! The decoded records of a trace. BPF programs produce `Task` records, perf events those of all
//! kinds.

use tare_kernel::bpf::CallRecord;

/// A decoded record.
#[derive(Clone, Copy, Debug)]
pub enum TraceRecord<'a> {
    /// A system call, fork, exit or signal of a task.
    Task {
        /// The record.
        record: CallRecord<'a>,
        /// The id of the task's cgroup if [`PerfOptions::cgroups`] requests it, otherwise 0.
        ///
        /// [`PerfOptions::cgroups`]: crate::PerfOptions::cgroups
        cgroup: u64,
    },
    /// A thread was renamed.
    Name {
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// The name.
        comm: &'a [u8],
    },
    /// Something other than a system call happened to a task.
    Between {
        /// Time in nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// The event.
        event: InterveningEvent<'a>,
    },
    /// The call chain of the call that this thread begins, innermost first, one line per frame.
    Stack {
        /// The thread.
        tid: u32,
        /// The lines.
        frames: &'a [String],
    },
    /// A sample of a tracepoint in [`PerfOptions::raw`](crate::PerfOptions::raw).
    Raw {
        /// Time in nanoseconds of `CLOCK_MONOTONIC`.
        time_ns: u64,
        /// The CPU.
        cpu: u32,
        /// The thread.
        tid: u32,
        /// Its process.
        process: u32,
        /// Whether the task is this process, or the child before its execve.
        is_left_out: bool,
        /// Index of the tracepoint in those options.
        event: usize,
        /// The raw data.
        raw: &'a [u8],
        /// The kernel's call chain if requested, innermost first.
        chain: &'a [u64],
    },
    /// Number of records lost because the ring buffer was full.
    Missing(u64),
}

/// An event of a task other than a system call. It may occur during one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InterveningEvent<'a> {
    /// A page fault.
    Fault {
        /// Whether the page was read from a disk.
        is_major: bool,
        /// The accessed address.
        address: u64,
        /// The accessing instruction.
        ip: u64,
    },
    /// The task left its CPU.
    SwitchedOut {
        /// Whether it could have continued.
        is_preempted: bool,
    },
    /// The task came back to a CPU.
    SwitchedIn {
        /// The CPU.
        cpu: u32,
        /// Time off the CPU in nanoseconds, if known.
        off_ns: Option<u64>,
    },
    /// A tracepoint.
    Tracepoint {
        /// `system:name`.
        name: &'a str,
        /// Its fields as the kernel formats them, escaped.
        text: &'a str,
    },
}
