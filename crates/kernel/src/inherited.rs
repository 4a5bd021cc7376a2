//! What this process inherited and a command that it starts must get unchanged.
//!
//! Before `main`, Rust's runtime ignores SIGPIPE and opens `/dev/null` on closed standard descriptors. What was there before is
//! noted here by a function in `.init_array`, which the C library calls before the runtime starts.

use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

/// One bit a standard descriptor that was closed when the process started.
static CLOSED_DESCRIPTORS: AtomicU8 = AtomicU8::new(0);
/// 1 where SIGPIPE was ignored when the process started.
static SIGPIPE_IGNORED: AtomicU8 = AtomicU8::new(0);

// SAFETY: the C library calls every pointer of this section as a C function without arguments that matter, once, before `main`
// and before any other thread exists. The function only makes system calls and stores to atomics.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE_BEFORE_MAIN: extern "C" fn() = note;

extern "C" fn note() {
    for fd in 0..3u8 {
        // SAFETY: F_GETFD takes no pointer; a closed descriptor gives EBADF.
        #[allow(unsafe_code)]
        if unsafe { libc::fcntl(fd.into(), libc::F_GETFD) } < 0 {
            CLOSED_DESCRIPTORS.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
    SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE).into(), Ordering::Relaxed);
}

/// Whether the process ignores a signal at this moment.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: a null new action only asks; the kernel fills `action`, for which all zeros is a valid value too.
    #[allow(unsafe_code)]
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Whether SIGPIPE was ignored when the process started.
pub(crate) fn sigpipe_was_ignored() -> bool {
    SIGPIPE_IGNORED.load(Ordering::Relaxed) != 0
}

/// Which of stdin, stdout and stderr were closed when the process started.
pub(crate) fn closed_descriptors() -> impl Iterator<Item = i32> {
    let closed = CLOSED_DESCRIPTORS.load(Ordering::Relaxed);
    (0..3).filter(move |fd| closed & (1 << fd) != 0)
}

/// A copy of a descriptor that tare was started with, for `fd:N` options: tare may use it and close the copy, and the command
/// still has the original.
///
/// # Errors
/// It isn't open.
pub fn inherited_descriptor(fd: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes a number and returns a new descriptor that nobody else owns, or -1.
    #[allow(unsafe_code)]
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) {
            -1 => Err(std::io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}
