//! Additional threads that read rings. They start before events are opened, since filters must name
//! them, and get their rings later.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tare_kernel::capabilities::keep_none;
use tare_kernel::schedule::run_first;

use super::poller::{Poller, WakeSource};
use super::reader::{Reader, SharedOutput};
use crate::error::RecordError;

/// The rings of a thread, with its poller and the output.
#[derive(Debug)]
struct Work {
    reader: Reader,
    poller: Poller,
    shared: Arc<SharedOutput>,
    /// Longest time between two passes.
    interval: Duration,
}

/// A thread that reads its rings, or waits to get some. [`ReaderThread::stop`] ends it; dropping it
/// only ends a thread without rings.
#[derive(Debug)]
pub(crate) struct ReaderThread {
    /// Thread id, for filters.
    pub(crate) tid: i32,
    work: Option<SyncSender<Work>>,
    stop: OwnedFd,
    thread: JoinHandle<Option<Reader>>,
}

impl ReaderThread {
    /// Starts a thread, with the SCHED_FIFO priority if given.
    ///
    /// # Errors
    /// Fails if no thread or file descriptor is left, or if the user may not set the priority.
    pub(crate) fn start(number: usize, priority: Option<u32>) -> Result<Self, RecordError> {
        let (work, for_thread) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        let thread =
            std::thread::Builder::new().name(format!("tare-reader-{number}")).spawn(move || {
                let first = priority.map_or(Ok(()), run_first);
                // Events and the output are opened on other threads. If a seccomp filter refuses
                // the call, this thread keeps its capabilities.
                let _ = keep_none();
                let tid = || rustix::thread::gettid().as_raw_nonzero().get();
                // The starting thread waits for this.
                let _ = tell.send(first.map(|()| tid()));
                read(&for_thread)
            });
        let thread = thread.map_err(RecordError::Thread)?;
        let tid = told.recv().map_err(|_| gone())?.map_err(RecordError::Priority)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| RecordError::Thread(errno.into()))?;
        Ok(Self { tid, work: Some(work), stop, thread })
    }

    /// Hands over the rings; the thread begins to read them.
    ///
    /// # Errors
    /// Fails if the thread has ended or already has rings, or if `poller` accepts no further
    /// descriptor.
    pub(crate) fn give_rings(
        &mut self,
        reader: Reader,
        poller: Poller,
        shared: &Arc<SharedOutput>,
        interval: Duration,
    ) -> Result<(), RecordError> {
        poller.add(&self.stop, WakeSource::Stop).map_err(RecordError::Poll)?;
        let work = self.work.take().ok_or_else(gone)?;
        work.send(Work { reader, poller, shared: Arc::clone(shared), interval }).map_err(|_| gone())
    }

    /// Ends the thread. Returns its reader, if it had rings, so that the caller can drain them.
    pub(crate) fn stop(self) -> Option<Reader> {
        drop(self.work);
        // A thread without rings ends because its channel closes.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        self.thread.join().ok().flatten()
    }
}

fn gone() -> RecordError {
    RecordError::Thread(io::ErrorKind::BrokenPipe.into())
}

/// Body of a thread. An output that takes nothing more ends it; the main thread gets the same
/// error.
fn read(work: &Receiver<Work>) -> Option<Reader> {
    let Work { mut reader, poller, shared, interval } = work.recv().ok()?;
    loop {
        let ready = poller.wait(Some(interval)).unwrap_or_default();
        shared.count_wake_up();
        // When the file is full, records stay in the rings until the main thread has begun the next
        // file.
        if ready.contains(WakeSource::Stop) || reader.pass(&shared).is_err() {
            return Some(reader);
        }
    }
}
