//! Why events can't be opened.

use rustix::io::Errno;
use tare_kernel::open::EventTarget;

/// Why events can't be opened, where that ends it all; [`Unavailable`](crate::Unavailable) is why
/// one event alone can't.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The kernel's rules forbid it to this user.
    #[error("not allowed to count '{event}'{}: {errno}", if *.per_cpu { " on whole CPUs" } else { "" })]
    NotPermitted {
        /// The event's name.
        event: String,
        /// Whether whole CPUs were asked for.
        per_cpu: bool,
        /// The thread or process that was to be counted; 0 is the calling thread. `None` for whole
        /// CPUs.
        task: Option<i32>,
        /// The kernel's answer.
        errno: Errno,
    },
    /// No file descriptor left.
    #[error(
        "{needed} file descriptors are needed, one for each event and place, and the limit was reached after {opened}"
    )]
    TooManyFiles {
        /// Events x places.
        needed: usize,
        /// Those that could be opened.
        opened: usize,
    },
    /// A thread or process that isn't there.
    #[error("there is no thread or process {0}")]
    NoSuchTask(i32),
    /// A tracepoint filter that the kernel refuses.
    #[error("the kernel refuses the filter '{filter}' for '{event}': {errno}")]
    Filter {
        /// The event's name.
        event: String,
        /// The filter.
        filter: String,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Anything else.
    #[error("cannot open '{event}': {errno}")]
    Other {
        /// The event's name.
        event: String,
        /// The kernel's answer.
        errno: Errno,
    },
}

impl OpenError {
    /// The error behind the kernel's answer for an event on a target, when `opened` of `needed`
    /// files were open.
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
