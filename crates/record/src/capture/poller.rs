//! Everything that wakes a reader thread, behind one epoll descriptor (`epoll(7)`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

/// What woke a reader thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeSource {
    /// A ring has reached its watermark.
    Ring,
    /// A recorded process exited.
    Target,
    /// The thread is asked to stop.
    Stop,
    /// A CPU went offline or came back, or another kernel object appeared or disappeared.
    Cpus,
}

impl WakeSource {
    fn bit(self) -> u64 {
        1 << self as u32
    }
}

/// Descriptors reported per wait; the rest wake the next wait.
const AT_ONCE: usize = 16;

/// The descriptors that one thread waits for.
#[derive(Debug)]
pub(crate) struct Poller {
    epoll: OwnedFd,
}

/// The set of sources that ended a wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReadySources(u64);

impl ReadySources {
    pub(crate) fn contains(self, waker: WakeSource) -> bool {
        self.0 & waker.bit() != 0
    }
}

impl Poller {
    /// Creates a poller without descriptors.
    ///
    /// # Errors
    /// Fails if no file descriptor is left.
    pub(crate) fn new() -> Result<Self, Errno> {
        Ok(Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Adds a descriptor. A ring is edge-triggered: it wakes the reader once each time it reaches
    /// its watermark. Level-triggered, an event whose tasks have all exited would wake it forever.
    ///
    /// # Errors
    /// Fails with `EPERM` for a regular file, which is always ready.
    pub(crate) fn add(&self, file: impl AsFd, waker: WakeSource) -> Result<(), Errno> {
        let once = if waker == WakeSource::Ring {
            epoll::EventFlags::ET
        } else {
            epoll::EventFlags::empty()
        };
        epoll::add(
            &self.epoll,
            file,
            epoll::EventData::new_u64(waker.bit()),
            epoll::EventFlags::IN | once,
        )
    }

    /// Waits until a descriptor is ready or a signal comes, or at most for `most`.
    ///
    /// # Errors
    /// Fails if the kernel can't wait.
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

#[cfg(test)]
mod tests {
    use rustix::event::{EventfdFlags, eventfd};

    use super::*;

    #[test]
    fn a_ring_wakes_once_and_other_sources_until_they_are_read() {
        let poller = Poller::new().unwrap();
        let [ring, stop] = [(); 2].map(|()| eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        poller.add(&ring, WakeSource::Ring).unwrap();
        poller.add(&stop, WakeSource::Stop).unwrap();
        let wait = || {
            let ready = poller.wait(Some(Duration::ZERO)).unwrap();
            [WakeSource::Ring, WakeSource::Stop].map(|source| ready.contains(source))
        };
        assert_eq!(wait(), [false, false]);
        for file in [&ring, &stop] {
            rustix::io::write(file, &1_u64.to_ne_bytes()).unwrap();
        }
        assert_eq!((wait(), wait()), ([true, true], [false, true]));
    }
}
