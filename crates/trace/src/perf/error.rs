use rustix::io::Errno;
use tare_kernel::ring::RingError;
use tare_kernel::tracefs::TracefsError;
use thiserror::Error;

/// Why perf events can't trace.
#[derive(Debug, Error)]
pub enum PerfError {
    /// tracefs can't be read, or lacks a tracepoint.
    #[error("{0}")]
    Tracefs(#[from] TracefsError),
    /// The list of CPUs can't be read.
    #[error("{path}: {source}")]
    Host {
        /// The path.
        path: String,
        /// The file system's error.
        source: std::io::Error,
    },
    /// `perf_event_open(2)` refuses an event to this user.
    #[error("this user may not open the event {event}")]
    NotPermitted {
        /// The event, as other commands' `-e` names it.
        event: String,
    },
    /// The limit on open files is reached.
    #[error(
        "the limit on open files (`ulimit -n`) is too low for an event on each of {cpus} CPUs and each task"
    )]
    TooManyFiles {
        /// Number of CPUs.
        cpus: usize,
    },
    /// A process to follow doesn't exist.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// `perf_event_open(2)` failed for another reason.
    #[error("the event {event} can't be opened: {errno}")]
    Open {
        /// The event.
        event: String,
        /// The kernel's error.
        errno: Errno,
    },
    /// A ring buffer can't be mapped.
    #[error("{0}")]
    Ring(#[from] RingError),
    /// The events can't be enabled.
    #[error("events can't be enabled: {0}")]
    Start(#[source] Errno),
}
