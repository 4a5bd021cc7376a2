use rustix::io::Errno;
use tare_kernel::ring::RingError;
use tare_kernel::tracefs::TracefsError;
use thiserror::Error;

/// Why system calls can't be seen by perf events.
#[derive(Debug, Error)]
pub enum PerfError {
    /// The numbers of tracepoints can't be read.
    #[error("{0}")]
    Tracefs(#[from] TracefsError),
    /// The list of CPUs, or of a process's threads, can't be read.
    #[error("{path}: {source}")]
    Host {
        /// What was asked for.
        path: String,
        /// What the file system said.
        source: std::io::Error,
    },
    /// `perf_event_open(2)` refuses an event to this user.
    #[error("the event {event} is not allowed to this user")]
    NotPermitted {
        /// The event, as `-e` of the other commands names it.
        event: String,
    },
    /// There are no more file descriptors.
    #[error("the limit of open files is too low for an event on each of {cpus} CPUs and each task")]
    TooManyFiles {
        /// How many CPUs there are.
        cpus: usize,
    },
    /// A process that was to be followed is gone.
    #[error("there is no process {0}")]
    NoProcess(i32),
    /// Another answer of `perf_event_open(2)`.
    #[error("the event {event} can't be opened: {errno}")]
    Open {
        /// The event.
        event: String,
        /// What the kernel said.
        errno: Errno,
    },
    /// A ring buffer can't be had.
    #[error("{0}")]
    Ring(#[from] RingError),
    /// The events can't be enabled.
    #[error("events can't be enabled: {0}")]
    Start(#[source] Errno),
}
