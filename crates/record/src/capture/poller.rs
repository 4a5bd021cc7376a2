//! What poller the recorder, in one file (`epoll(7)`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// Who woke the recorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A ring is half full.
    Ring,
    /// A process that is recorded ended.
    Target,
    /// A reader is to stop.
    Stop,
    /// A CPU went offline or came back, or another of the kernel's objects came or went.
    Cpus,
}

impl Source {
    fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Files that are told of at once: those that are left wake again.
const AT_ONCE: usize = 16;

/// The wakers that one thread waits for.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// Those that woke it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadySources(u64);

impl ReadySources {
    /// Whether this one did.
    pub(crate) fn by(self, waker: Source) -> bool {
        self.0 & waker.bit() != 0
    }
}

impl Poller {
    /// Nothing to wait for as yet.
    ///
    /// # Errors
    /// No file descriptor left.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Waits for a file, too. A ring poller once each time that it gets half full: all of an event's
    /// tasks having ended would else wake without end.
    ///
    /// # Errors
    /// `EPERM` for a regular file, which never makes anyone wait.
    pub(crate) fn add(&self, file: impl AsFd, waker: Source) -> Result<(), Errno> {
        let once =
            if waker == Source::Ring { epoll::EventFlags::ET } else { epoll::EventFlags::empty() };
        epoll::add(
            &self.epoll,
            file,
            epoll::EventData::new_u64(waker.bit()),
            epoll::EventFlags::IN | once,
        )
    }

    /// Waits until something happens, or for so long.
    ///
    /// # Errors
    /// The kernel's own.
    pub(crate) fn wait(&self, most: Option<Duration>) -> Result<ReadySources, Errno> {
        let most = most.map(|most| Timespec {
            tv_sec: i64::try_from(most.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: most.subsec_nanos().into(),
        });
        let mut events = Vec::with_capacity(AT_ONCE);
        match epoll::wait(&self.epoll, spare_capacity(&mut events), most.as_ref()) {
            Ok(_) => Ok(ReadySources(
                events.iter().fold(0, |ready, event: &epoll::Event| ready | event.data.u64()),
            )),
            Err(Errno::INTR) => Ok(ReadySources::default()),
            Err(error) => Err(error),
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}
