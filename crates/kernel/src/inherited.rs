//! The program's entry point, and the inherited state that tare's command must get unchanged.
//!
//! Before `main`, Rust's runtime would ignore SIGPIPE, open `/dev/null` on closed standard
//! descriptors and set up a stack guard. The `main` of [`crate::main!`] replaces the runtime's and
//! calls [`enter`], which records the inherited state and does the first two itself.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::atomic::{AtomicU8, Ordering};

/// One bit for each standard descriptor that was closed at the start.
static CLOSED_DESCRIPTORS: AtomicU8 = AtomicU8::new(0);
/// One bit for each signal of [`WRITE_SIGNALS`] that was ignored at the start.
static IGNORED_SIGNALS: AtomicU8 = AtomicU8::new(0);

/// The signals that would kill tare in the middle of a write: to a closed pipe, and beyond a file
/// size limit.
const WRITE_SIGNALS: [c_int; 2] = [libc::SIGPIPE, libc::SIGXFSZ];

/// Defines the program's `main`: it calls a function with the arguments (the program's name first)
/// and exits with the status that the function returns.
#[macro_export]
macro_rules! main {
    ($run:path) => {
        // SAFETY: this is the program's only `main`, with the type that C gives it.
        #[allow(unsafe_code)]
        #[unsafe(no_mangle)]
        extern "C" fn main(
            argc: ::std::ffi::c_int,
            argv: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: the C library hands over the arguments of the process.
            unsafe { $crate::enter(argc, argv, $run) }
        }
    };
}

/// Records the inherited state, then runs the program; for [`main!`].
///
/// # Safety
/// `argv` must hold `argc` pointers to C strings.
#[allow(unsafe_code)]
pub unsafe fn enter(
    argc: c_int,
    argv: *const *const c_char,
    run: fn(Vec<OsString>) -> u8,
) -> c_int {
    record_inherited_state();
    let count = usize::try_from(argc).unwrap_or(0);
    // SAFETY: the caller vouches for the array and the strings.
    let word = |n| OsStr::from_bytes(unsafe { CStr::from_ptr(*argv.add(n)) }.to_bytes()).to_owned();
    run((0..count).map(word).collect()).into()
}

fn record_inherited_state() {
    for fd in 0..3u8 {
        // SAFETY: F_GETFD takes no pointer; a closed descriptor gives EBADF.
        #[allow(unsafe_code)]
        if unsafe { libc::fcntl(fd.into(), libc::F_GETFD) } < 0 {
            CLOSED_DESCRIPTORS.fetch_or(1 << fd, Ordering::Relaxed);
            // Otherwise tare's next event or file would become its stdin, stdout or stderr: the
            // kernel picks the lowest free number, this one.
            let _ = std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/null")
                .map(IntoRawFd::into_raw_fd);
        }
    }
    for (bit, signal) in WRITE_SIGNALS.into_iter().enumerate() {
        IGNORED_SIGNALS.fetch_or(u8::from(is_ignored(signal)) << bit, Ordering::Relaxed);
        // SAFETY: SIG_IGN is a valid disposition. The write then returns an error.
        #[allow(unsafe_code)]
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

pub(crate) fn is_ignored(signal: c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: with a null new action the call only reads; the kernel fills `action`, for which
    // zeros are a valid value too.
    #[allow(unsafe_code)]
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Returns the signals that tare ignores and that had their default disposition at the process's
/// start.
pub(crate) fn signals_to_restore() -> impl Iterator<Item = c_int> {
    let ignored = IGNORED_SIGNALS.load(Ordering::Relaxed);
    let is_default = move |(bit, _): &(usize, c_int)| ignored & (1 << bit) == 0;
    WRITE_SIGNALS.into_iter().enumerate().filter(is_default).map(|(_, signal)| signal)
}

/// Returns which of stdin, stdout and stderr were closed at the process's start.
pub(crate) fn closed_descriptors() -> impl Iterator<Item = i32> {
    let closed = CLOSED_DESCRIPTORS.load(Ordering::Relaxed);
    (0..3).filter(move |fd| closed & (1 << fd) != 0)
}

/// Duplicates a descriptor that tare was started with, for `fd:N` options. tare may close the copy;
/// the command keeps the original.
///
/// # Errors
/// Fails if it isn't open.
pub fn inherited_descriptor(fd: i32) -> std::io::Result<OwnedFd> {
    // SAFETY: F_DUPFD_CLOEXEC takes a number and returns a new descriptor that nothing else owns,
    // or -1.
    #[allow(unsafe_code)]
    unsafe {
        match libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) {
            -1 => Err(std::io::Error::last_os_error()),
            copy => Ok(OwnedFd::from_raw_fd(copy)),
        }
    }
}
