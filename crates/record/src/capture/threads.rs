//! Threads that read rings beside the main one. They are started before anything is opened, as
//! filters must name them, and get their rings later.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use tare_kernel::capabilities::keep_none;
use tare_kernel::schedule::run_first;

use super::poller::{Poller, Source};
use super::reader::{Reader, SharedOutput};
use crate::error::RecordError;

/// What a helper gets to do.
#[derive(Debug)]
struct Work {
    reader: Reader,
    poller: Poller,
    shared: Arc<SharedOutput>,
    /// How often it reads at least.
    interval: Duration,
}

/// A thread that waits for its rings, or reads them. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct ReaderThread {
    /// For filters.
    pub(crate) tid: i32,
    work: Option<SyncSender<Work>>,
    stop: OwnedFd,
    thread: JoinHandle<Option<Reader>>,
}

impl ReaderThread {
    /// Starts a thread, with this SCHED_FIFO priority if there is one.
    ///
    /// # Errors
    /// No thread or file descriptor left; no right to the priority.
    pub(crate) fn start(number: usize, priority: Option<u32>) -> Result<Self, RecordError> {
        let (work, for_thread) = sync_channel(1);
        let (tell, told) = sync_channel(1);
        let thread =
            std::thread::Builder::new().name(format!("tare-reader-{number}")).spawn(move || {
                let first = priority.map_or(Ok(()), run_first);
                // It reads what others have opened. Where a filter refuses it, they stay.
                let _ = keep_none();
                let tid = || rustix::thread::gettid().as_raw_nonzero().get();
                // Whoever started the thread waits for this.
                let _ = tell.send(first.map(|()| tid()));
                read(&for_thread)
            });
        let thread = thread.map_err(RecordError::Thread)?;
        let tid = told.recv().map_err(|_| gone())?.map_err(RecordError::Priority)?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| RecordError::Thread(errno.into()))?;
        Ok(Self { tid, work: Some(work), stop, thread })
    }

    /// Hands over the rings, which the thread reads from now on.
    ///
    /// # Errors
    /// The thread is gone, or had its rings before.
    pub(crate) fn hand(
        &mut self,
        reader: Reader,
        poller: Poller,
        shared: &Arc<SharedOutput>,
        interval: Duration,
    ) -> Result<(), RecordError> {
        poller.add(&self.stop, Source::Stop).map_err(RecordError::Poll)?;
        let work = self.work.take().ok_or_else(gone)?;
        work.send(Work { reader, poller, shared: Arc::clone(shared), interval }).map_err(|_| gone())
    }

    /// Has the thread end, and returns its rings, for what is left in them, if it had any.
    pub(crate) fn stop(self) -> Option<Reader> {
        drop(self.work);
        // A thread that got no rings ends as the channel is gone.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
        self.thread.join().ok().flatten()
    }
}

fn gone() -> RecordError {
    RecordError::Thread(io::ErrorKind::BrokenPipe.into())
}

/// What the thread does. An output that takes nothing more ends it; the main thread meets the same
/// error.
fn read(work: &Receiver<Work>) -> Option<Reader> {
    let Work { mut reader, poller, shared, interval } = work.recv().ok()?;
    loop {
        let ready = poller.wait(Some(interval)).unwrap_or_default();
        shared.woken();
        // What a full file has no room for stays in the rings until the main thread began the next.
        if ready.by(Source::Stop) || reader.pass(&shared).is_err() {
            return Some(reader);
        }
    }
}
