//! Errors of opening events.

use rustix::io::Errno;
use tare_kernel::open::EventTarget;

/// A failure to open events that stops the command. [`Unavailable`](crate::Unavailable) is a
/// failure of one event that doesn't.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// This user may not open the event.
    #[error("not allowed to count '{event}'{}: {errno}", if *.per_cpu { " on whole CPUs" } else { "" })]
    NotPermitted {
        /// The event's name.
        event: String,
        /// Whether the target is a whole CPU, or a cgroup on a CPU.
        per_cpu: bool,
        /// The target thread or process; 0 is the calling thread. `None` if `per_cpu`.
        task: Option<i32>,
        /// The kernel's answer.
        errno: Errno,
    },
    /// No file descriptor is left.
    #[error(
        "{needed} file descriptors are needed, one for each event and CPU or thread, and the limit was reached after {opened}"
    )]
    TooManyFiles {
        /// Number of events times number of CPUs or threads.
        needed: usize,
        /// Number opened before the limit was reached.
        opened: usize,
    },
    /// There is no such thread or process.
    #[error("there is no thread or process {0}")]
    NoSuchTask(i32),
    /// The kernel refuses a tracepoint filter.
    #[error("the kernel refuses the filter '{filter}' for '{event}': {errno}")]
    Filter {
        /// The event's name.
        event: String,
        /// The filter.
        filter: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Any other failure.
    #[error("cannot open '{event}': {errno}")]
    Other {
        /// The event's name.
        event: String,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl OpenError {
    /// Converts the kernel's errno for an event on a target. `opened` of `needed` file descriptors
    /// were open.
    #[must_use]
    pub fn from_errno(
        errno: Errno,
        event: &str,
        target: EventTarget,
        opened: usize,
        needed: usize,
    ) -> Self {
        let event = event.to_owned();
        let per_cpu = !matches!(target, EventTarget::Task(_) | EventTarget::TaskOnCpu(..));
        match (errno, target) {
            (
                Errno::ACCESS | Errno::PERM,
                EventTarget::Task(tid) | EventTarget::TaskOnCpu(tid, _),
            ) => Self::NotPermitted { event, per_cpu, task: Some(tid), errno },
            (Errno::ACCESS | Errno::PERM, _) => {
                Self::NotPermitted { event, per_cpu, task: None, errno }
            }
            (Errno::MFILE | Errno::NFILE, _) => Self::TooManyFiles { needed, opened },
            (Errno::SRCH, EventTarget::Task(tid) | EventTarget::TaskOnCpu(tid, _)) => {
                Self::NoSuchTask(tid)
            }
            _ => Self::Other { event, errno },
        }
    }
}
