//! The thread that prepares windows ahead of need, and unmaps old ones. Both take milliseconds, in
//! which a ring could overflow.

use std::sync::{Arc, PoisonError};

use rustix::io::Errno;
use tare_kernel::capabilities::keep_none;
use tare_kernel::file_window::{FileWindow, WindowError};

use super::disk::DiskFile;
use super::hand_over::thread::{self, JoinHandle};
use super::hand_over::{Condvar, Mutex, MutexGuard, mpsc};
use super::{OutputError, Result};

/// A part of a file to map as a window. Both numbers are multiples of the page size.
#[derive(Clone, Debug)]
pub(super) struct WindowRequest {
    pub(super) file: Arc<dyn DiskFile>,
    pub(super) offset: u64,
    pub(super) len: usize,
}

/// The window thread. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct WindowThread {
    shared: Arc<SharedWindows>,
    thread: Option<JoinHandle<()>>,
    tid: i32,
}

#[derive(Debug, Default)]
struct SharedWindows {
    state: Mutex<WindowState>,
    asked: Condvar,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct WindowState {
    wanted: Option<WindowRequest>,
    answer: Option<std::result::Result<FileWindow, WindowError>>,
    /// Windows to unmap.
    old: Vec<FileWindow>,
    ends: bool,
}

impl SharedWindows {
    fn lock(&self) -> MutexGuard<'_, WindowState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WindowThread {
    pub(super) fn start() -> Result<Self> {
        let shared = Arc::new(SharedWindows::default());
        let of_thread = Arc::clone(&shared);
        let (thread, tid) = spawn("tare-window", move || work(&of_thread))?;
        Ok(Self { shared, thread: Some(thread), tid })
    }

    pub(super) fn tid(&self) -> i32 {
        self.tid
    }

    /// Requests a window. The answer must be taken before the next request.
    pub(super) fn ask(&self, wanted: WindowRequest) {
        self.shared.lock().wanted = Some(wanted);
        self.shared.asked.notify_one();
    }

    /// Takes the requested window, and waits for it if necessary; returns whether it waited. The
    /// window may be shorter than requested if space is short.
    pub(super) fn take(&self) -> (std::result::Result<FileWindow, WindowError>, bool) {
        let mut state = self.shared.lock();
        let mut waited = false;
        loop {
            if let Some(answer) = state.answer.take() {
                return (answer, waited);
            }
            waited = true;
            state = self.shared.answered.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Unmaps a window, on the thread.
    pub(super) fn unmap(&self, window: FileWindow) {
        self.shared.lock().old.push(window);
        self.shared.asked.notify_one();
    }
}

impl Drop for WindowThread {
    fn drop(&mut self) {
        self.shared.lock().ends = true;
        self.shared.asked.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread can't have panicked.
            let _ = thread.join();
        }
    }
}

/// Starts a named thread, and waits for its id.
pub(super) fn spawn(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<(JoinHandle<()>, i32)> {
    spawn_with(name, keep_none, work)
}

/// Starts a thread like [`spawn`], which gives up capabilities by `give_up`.
pub(super) fn spawn_with(
    name: &str,
    give_up: fn() -> std::result::Result<(), Errno>,
    work: impl FnOnce() + Send + 'static,
) -> Result<(JoinHandle<()>, i32)> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let run = move || {
        // The thread opens no events. If a seccomp filter refuses the call, it keeps its
        // capabilities.
        let _ = give_up();
        let _ = sender.send(rustix::thread::gettid().as_raw_nonzero().get());
        work();
    };
    let failed = |error: &std::io::Error| {
        OutputError::Thread(Errno::from_io_error(error).unwrap_or(Errno::AGAIN))
    };
    let thread =
        thread::Builder::new().name(name.to_owned()).spawn(run).map_err(|error| failed(&error))?;
    let tid = receiver.recv().map_err(|_| OutputError::Thread(Errno::AGAIN))?;
    Ok((thread, tid))
}

/// Body of the thread.
fn work(shared: &SharedWindows) {
    let mut state = shared.lock();
    loop {
        if let Some(wanted) = state.wanted.take() {
            drop(state);
            let answer = open(&wanted);
            state = shared.lock();
            state.answer = Some(answer);
            shared.answered.notify_one();
        } else if !state.old.is_empty() {
            let old = std::mem::take(&mut state.old);
            drop(state);
            drop(old);
            state = shared.lock();
        } else if state.ends {
            return;
        } else {
            state = shared.asked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Opens a window. If space is short, halves the length, down to a page.
fn open(wanted: &WindowRequest) -> std::result::Result<FileWindow, WindowError> {
    let page = rustix::param::page_size();
    let mut len = wanted.len;
    loop {
        match wanted.file.window(wanted.offset, len) {
            Err(WindowError::NoSpace { .. } | WindowError::TooLong { .. }) if len >= 2 * page => {
                len = (len / 2).next_multiple_of(page);
            }
            answer => return answer,
        }
    }
}

#[cfg(all(test, shuttle))]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Number of interleavings that are tried.
    const ORDERS: usize = 3000;

    #[test]
    fn window_thread_answers_each_time_and_ends() {
        let file: Arc<dyn DiskFile> = Arc::new(tempfile::tempfile().unwrap());
        let page = rustix::param::page_size();
        let run = move || {
            let thread = WindowThread::start().unwrap();
            for place in 0..3 {
                let offset = place * page as u64;
                thread.ask(WindowRequest { file: Arc::clone(&file), offset, len: page });
                let (window, _) = thread.take();
                // The last window is unmapped here.
                window.into_iter().filter(|_| place < 2).for_each(|window| thread.unmap(window));
            }
        };
        shuttle::check_random(run, ORDERS);
    }
}
