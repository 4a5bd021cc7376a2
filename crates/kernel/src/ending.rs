//! Work that is done before a signal ends this process.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{IntoRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::inherited;

type Work = Box<dyn FnOnce() + Send>;

static WORK: Mutex<Vec<Work>> = Mutex::new(Vec::new());
/// The pipe's end to which [`note`] writes a signal's number; -1 before there is a pipe.
static NOTED: AtomicI32 = AtomicI32::new(-1);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

const SIGNALS: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// Does this work, on a thread of its own, before SIGINT, SIGTERM, SIGHUP or SIGQUIT ends the
/// process. Signals that are ignored stay so, and signals that are blocked and read from a file
/// ([`crate::signals::Signals`]) don't count.
///
/// # Errors
/// Fails if there can be no pipe, thread or signal handler; then the signals end the process at
/// once.
pub fn do_before_signals_end(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let mut all = lock();
    if NOTED.load(Ordering::Relaxed) < 0 {
        let [read, write] = <[OwnedFd; 2]>::from(pipe_with(PipeFlags::CLOEXEC)?);
        std::thread::Builder::new().name("ending".to_owned()).spawn(move || wait(&read))?;
        NOTED.store(write.into_raw_fd(), Ordering::Relaxed);
        for signal in SIGNALS.into_iter().filter(|signal| !inherited::is_ignored(*signal)) {
            handle(signal, note as *const () as libc::sighandler_t)?;
        }
    }
    all.push(Box::new(work));
    Ok(())
}

/// Stops the calling thread for good if a signal is about to end the process, so that it doesn't
/// create again what the work removes.
pub fn wait_if_ending() {
    while IS_ENDING.load(Ordering::Relaxed) {
        std::thread::park();
    }
}

fn lock() -> MutexGuard<'static, Vec<Work>> {
    WORK.lock().unwrap_or_else(PoisonError::into_inner)
}

extern "C" fn note(signal: i32) {
    IS_ENDING.store(true, Ordering::Relaxed);
    let number = u8::try_from(signal).unwrap_or(0);
    // SAFETY: write(2) is async-signal-safe, and reads one byte of a local.
    #[allow(unsafe_code)]
    unsafe {
        libc::write(NOTED.load(Ordering::Relaxed), (&raw const number).cast(), 1);
    }
}

/// Waits for a signal on a thread of its own, which takes none itself.
fn wait(noted: &OwnedFd) {
    let mut all = MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: `all` is a local of the type that both calls take.
    #[allow(unsafe_code)]
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), ptr::null_mut());
    }
    let mut number = [0; 1];
    if !matches!(rustix::io::read(noted, &mut number), Ok(1)) {
        return;
    }
    let work = std::mem::take(&mut *lock());
    work.into_iter().for_each(|work| work());
    let signal = i32::from(number[0]);
    let _ = handle(signal, libc::SIG_DFL);
    // SAFETY: kill(2) takes numbers. Another thread takes the signal and ends the process.
    #[allow(unsafe_code)]
    unsafe {
        libc::kill(libc::getpid(), signal);
    }
}

fn handle(signal: i32, how: libc::sighandler_t) -> io::Result<()> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are a valid action; the handler makes only async-signal-safe calls.
    #[allow(unsafe_code)]
    let done = unsafe {
        (*action.as_mut_ptr()).sa_sigaction = how;
        (*action.as_mut_ptr()).sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, action.as_ptr(), ptr::null_mut())
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
