//! SIGBUS in windows of files: if another process truncates a mapped file, the window's pages
//! vanish, and accessing them would kill the process.
//!
//! The handler replaces each missing page by anonymous memory, so that writing continues without
//! effect and reading gives zeros, and marks the window as torn, which its owner checks. A program
//! that maps windows installs the handler once ([`catch`]); without it SIGBUS kills the process.

use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, compiler_fence};

/// Most windows that are known at a time. Errors in further ones are not caught.
const WINDOWS: usize = 1024;

/// A window's place. A handler takes no lock: each field is read and written as a whole.
struct WindowSlot {
    /// Its address; 0 if the slot is free, 1 while it is being filled.
    base: AtomicUsize,
    len: AtomicUsize,
    is_torn: AtomicBool,
}

/// The windows of this process. A signal handler gets no argument of ours, so this must be global.
static WINDOW_SLOTS: [WindowSlot; WINDOWS] = [const {
    WindowSlot {
        base: AtomicUsize::new(0),
        len: AtomicUsize::new(0),
        is_torn: AtomicBool::new(false),
    }
}; WINDOWS];

/// The page size, for the handler; 0 until it is installed.
static PAGE: AtomicUsize = AtomicUsize::new(0);

/// A window that the handler knows until it is released.
#[derive(Debug)]
pub(crate) struct RegisteredWindow {
    /// Its slot; `None` if all were taken, or after its release.
    number: Option<usize>,
}

impl RegisteredWindow {
    /// Registers a mapping with the handler.
    pub(crate) fn new(base: usize, len: usize) -> Self {
        let takes = |known: &&WindowSlot| {
            // ATOMICS: relaxed, because only the winner writes the other fields, and the address
            // that the handler looks for is published below.
            known.base.compare_exchange(0, 1, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let number = WINDOW_SLOTS.iter().position(|known| takes(&known));
        if let Some(known) = number.and_then(|number| WINDOW_SLOTS.get(number)) {
            known.len.store(len, Ordering::Relaxed);
            known.is_torn.store(false, Ordering::Relaxed);
            // ATOMICS: release, and acquire in the handler: a handler that sees the address sees
            // the length.
            known.base.store(base, Ordering::Release);
        }
        Self { number }
    }

    /// Whether a page was missing when it was accessed.
    pub(crate) fn is_torn(&self) -> bool {
        // ATOMICS: the handler runs on the thread that accesses the window, between two
        // instructions: only the compiler could move this read before the access.
        compiler_fence(Ordering::SeqCst);
        self.number.is_some_and(|number| WINDOW_SLOTS[number].is_torn.load(Ordering::Relaxed))
    }

    /// Unregisters the mapping, before it is unmapped.
    pub(crate) fn release(&mut self) {
        if let Some(number) = self.number.take() {
            // ATOMICS: release: accesses to this window stay before it.
            WINDOW_SLOTS[number].base.store(0, Ordering::Release);
        }
    }
}

/// Installs the handler in this process. An executed program gets the default action, so a command
/// that is to inherit the earlier disposition must have been forked before.
pub fn catch() {
    PAGE.store(rustix::param::page_size(), Ordering::Relaxed);
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: zeros are a valid value of the structure. The handler has the type that SA_SIGINFO
    // needs, lives as long as the program, and makes only async-signal-safe calls.
    #[allow(unsafe_code)]
    unsafe {
        let action = action.assume_init_mut();
        action.sa_sigaction = handle as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO;
        libc::sigaction(libc::SIGBUS, action, ptr::null_mut());
    }
}

extern "C" fn handle(_signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a structure that is valid in the handler; for
    // SIGBUS it holds the address.
    #[allow(unsafe_code)]
    let address = unsafe { (*info).si_addr() } as usize;
    if !replace_page(address) {
        // SAFETY: the default is a valid disposition. The instruction runs again, and SIGBUS kills
        // the process.
        #[allow(unsafe_code)]
        unsafe {
            libc::signal(libc::SIGBUS, libc::SIG_DFL);
        }
    }
}

/// Replaces the window's page at an address by memory; false if the address is in no window, or
/// there is no memory.
fn replace_page(address: usize) -> bool {
    let holds = |known: &&WindowSlot| {
        let base = known.base.load(Ordering::Acquire);
        base > 1 && (base..base + known.len.load(Ordering::Relaxed)).contains(&address)
    };
    let page = PAGE.load(Ordering::Relaxed);
    let Some(known) = WINDOW_SLOTS.iter().find(holds).filter(|_| page > 0) else { return false };
    known.is_torn.store(true, Ordering::Relaxed);
    // SAFETY: the page lies in a window that its owner accesses at this moment, so the owner isn't
    // unmapping it. One page is replaced, whose bytes are lost anyway.
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
