//! Signals as a file: signals that end or stop a measurement are blocked and read, so that they
//! can't interrupt a step.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::{io, ptr};

use crate::inherited;

/// A received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    /// Its number.
    pub number: i32,
    /// Whether the kernel sent it, as it does to a terminal's whole foreground group; else a
    /// process sent it, maybe to this process alone.
    pub from_kernel: bool,
}

/// The signals that tare handles: SIGCHLD, SIGINT, SIGTERM, SIGQUIT, SIGHUP unless it was ignored
/// (`nohup`), and one more on request. Shells start background jobs with SIGINT and SIGQUIT
/// ignored, and a user who sends one of them by hand still means to end the measurement. While this
/// value lives the signals are blocked. A child gets the earlier mask and dispositions back (see
/// `child`).
#[derive(Debug)]
pub struct Signals {
    file: OwnedFd,
    before: Dispositions,
    /// Those of [`ENDING`] that were ignored: a child ignores them too.
    ignored: Vec<i32>,
}

/// The signal mask and the disposition of SIGCHLD before [`Signals::block`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispositions {
    mask: libc::sigset_t,
    sigchld: libc::sigaction,
}

const ENDING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Stops this process until it is continued. The signal goes to the calling thread: one to the
/// process may stop another thread first, and this one only later.
pub fn stop() {
    // SAFETY: raise(3) takes a number and touches no memory.
    #[allow(unsafe_code)]
    unsafe {
        libc::raise(libc::SIGSTOP);
    }
}

impl Signals {
    /// Blocks the signals and opens their file.
    ///
    /// # Errors
    /// Fails if no file descriptor is left, or a seccomp filter refuses.
    pub fn block() -> io::Result<Self> {
        Self::block_with(None)
    }

    /// Blocks one more signal too, such as SIGUSR2 for a user's request.
    ///
    /// # Errors
    /// As [`Signals::block`].
    pub fn block_with(more: Option<i32>) -> io::Result<Self> {
        let ignored: Vec<i32> =
            ENDING.into_iter().filter(|&signal| inherited::is_ignored(signal)).collect();
        let mut set = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut before = MaybeUninit::<libc::sigset_t>::zeroed();
        let mut sigchld_before = MaybeUninit::<libc::sigaction>::zeroed();
        // SAFETY: every pointer is to a local of the type that the call takes; `sigemptyset`
        // initializes `set` before it is used, and zeros are a valid value of the others.
        #[allow(unsafe_code)]
        unsafe {
            libc::sigemptyset(set.as_mut_ptr());
            for signal in ENDING
                .into_iter()
                .filter(|signal| *signal != libc::SIGHUP || !ignored.contains(signal))
                .chain([libc::SIGCHLD])
                .chain(more)
            {
                libc::sigaddset(set.as_mut_ptr(), signal);
            }
            // With SIGCHLD ignored the kernel would reap children and discard their status.
            let mut default = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
            default.sa_sigaction = libc::SIG_DFL;
            default.sa_flags = libc::SA_NOCLDSTOP;
            libc::sigaction(libc::SIGCHLD, &raw const default, sigchld_before.as_mut_ptr());
            // A signal that isn't blocked is never read from the file.
            if libc::sigprocmask(libc::SIG_BLOCK, set.as_ptr(), before.as_mut_ptr()) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, set.as_ptr(), libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            let sigchld = sigchld_before.assume_init();
            let before = Dispositions { mask: before.assume_init(), sigchld };
            Ok(Self { file: OwnedFd::from_raw_fd(fd), before, ignored })
        }
    }

    /// Returns the next pending signal, if any.
    ///
    /// # Errors
    /// Fails if the file can't be read.
    pub fn next(&self) -> io::Result<Option<Signal>> {
        let mut info = [0u8; size_of::<libc::signalfd_siginfo>()];
        match rustix::io::retry_on_intr(|| rustix::io::read(&self.file, &mut info)) {
            Err(rustix::io::Errno::AGAIN) => Ok(None),
            Err(error) => Err(error.into()),
            Ok(_) => {
                let word = |at: usize| i32::from_ne_bytes(std::array::from_fn(|i| info[at + i]));
                let number = word(std::mem::offset_of!(libc::signalfd_siginfo, ssi_signo));
                let code = word(std::mem::offset_of!(libc::signalfd_siginfo, ssi_code));
                Ok(Some(Signal { number, from_kernel: code == libc::SI_KERNEL }))
            }
        }
    }

    /// Whether a signal was ignored before, so that children ignore it.
    #[must_use]
    pub fn was_ignored(&self, signal: i32) -> bool {
        self.ignored.contains(&signal)
    }

    /// Returns the earlier dispositions, for a child between fork and exec.
    pub(crate) fn before(&self) -> Dispositions {
        self.before
    }
}

impl Dispositions {
    pub(crate) fn restore(&self) {
        // SAFETY: the kernel returned all these values earlier, and the calls are
        // async-signal-safe.
        #[allow(unsafe_code)]
        unsafe {
            libc::sigaction(libc::SIGCHLD, &raw const self.sigchld, ptr::null_mut());
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.mask, ptr::null_mut());
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        while let Ok(Some(_)) = self.next() {}
        self.before.restore();
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}
