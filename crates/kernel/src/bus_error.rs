//! SIGBUS in windows of files: a file that somebody truncates while it is mapped has no pages any
//! more where a window is, and writing there would kill the process.
//!
//! The handler puts a page of memory in the place of each that is gone, so that writing goes on into
//! nothing, and notes that in the window, which is looked at after each piece. A program that maps
//! windows installs it once ([`catch`]); without it SIGBUS kills, as ever.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

/// So many windows at most are known at a time. More than these are not caught.
const WINDOWS: usize = 1024;

/// Where a window lies. A handler takes no lock: each field is read and written as a whole.
struct WindowSlot {
    /// Its address; 0 where the entry is free, 1 while it is taken.
    base: AtomicUsize,
    len: AtomicUsize,
    is_torn: AtomicBool,
}

/// The windows of this process. A signal handler gets no argument of ours: this must be global.
static WINDOW_SLOTS: [WindowSlot; WINDOWS] = [const {
    WindowSlot {
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        is_torn: AtomicBool::new(false),
    }
}; WINDOWS];

/// The page size, for the handler; 0 until it is installed.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// A window that the handler knows, until it is released.
#[derive(Debug)]
pub(crate) struct Registered {
    /// Among the known; `None` where there was no room.
    number: Option<usize>,
}

impl Registered {
    /// Has the handler know a mapping.
    pub(crate) fn new(base: usize, len: usize) -> Self {
        let takes = |known: &&WindowSlot| {
            // ATOMICS: relaxed, as only the winner writes the other fields, and the address that the
            // handler looks for is published below.
            known.base.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let number = WINDOW_SLOTS.iter().position(|known| takes(&known));
        if let Some(known) = number.and_then(|number| WINDOW_SLOTS.get(number)) {
            known.len.store(len, Ordering::Relaxed);
            known.is_torn.store(false, Ordering::Relaxed);
            // ATOMICS: release, and acquire in the handler: who sees the address sees the length.
            known.base.store(base, Ordering::Release);
        }
        Self { number }
    }

    /// Whether a page was gone when it was written to.
    pub(crate) fn is_torn(&self) -> bool {
        // ATOMICS: the handler runs on the thread that writes, between two instructions: only the
        // compiler could read before it writes.
        compiler_fence(Ordering::SeqCst);
        self.number.is_some_and(|number| WINDOW_SLOTS[number].is_torn.load(Ordering::Relaxed))
    }

    /// Has the handler forget the mapping, before it is unmapped.
    pub(crate) fn release(&mut self) {
        if let Some(number) = self.number.take() {
            // ATOMICS: release: nothing is written to this window behind it.
            WINDOW_SLOTS[number].base.store(0, Ordering::Release);
        }
    }
}

/// Installs the handler of this process. A program that it executes gets the default, so that a
/// command that is to inherit what was there before must have been forked by then.
pub fn catch() {
    PAGE.store(rustix::param::page_size(), Ordering::Relaxed);
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are a valid value of the structure; the handler has the type that SA_SIGINFO
    // takes, lives as long as the program, and makes only async-signal-safe calls.
    #[allow(unsafe_code)]
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, action, ptr::null_mut());
    }
}

extern "C" fn handle(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel hands over a structure that is valid in the handler; of
    // SIGBUS it has the address.
    #[allow(unsafe_code)]
    let address = unsafe { (*info).si_addr() } as usize;
    if !mend(address) {
        // SAFETY: the default is a valid disposition. The instruction runs again, and SIGBUS kills.
        #[allow(unsafe_code)]
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        }
    }
}

/// Puts memory in the place of a window's page; `false` where the address is in no window.
fn mend(address: usize) -> bool {
    let holds = |known: &&WindowSlot| {
        let base = known.base.load(Ordering::Acquire);
        base > 1 && (base..base + known.len.load(Ordering::Relaxed)).contains(&address)
    };
    let page = PAGE.load(Ordering::Relaxed);
    let Some(known) = WINDOW_SLOTS.iter().find(holds).filter(|_| page > 0) else { return false };
    known.is_torn.store(true, Ordering::Relaxed);
    // SAFETY: the page lies in a window, whose owner only writes to it, is at it at this moment and
    // so unmaps nothing; one page is replaced, whose bytes are gone.
    #[allow(unsafe_code)]
    let mapped = unsafe {
        libc::mmap(
            (address & !(page - 1)) as *mut libc::c_void,
            page,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
            -1,
            0,
        )
    };
    mapped != libc::MAP_FAILED
}
