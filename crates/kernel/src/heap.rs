//! The allocator's memory.

/// Bytes from which on a block has a mapping of its own.
#[cfg(target_env = "gnu")]
const LARGE_BLOCK: i32 = 1 << 20;

/// Keeps large blocks out of the heap, so that growing one leaves no gap and freeing one returns
/// its memory.
///
/// The GNU C library raises its limit for that to the size of the largest block freed so far, up to
/// 32 MiB, unless a program sets one (mallopt(3), `M_MMAP_THRESHOLD`). With another C library this
/// does nothing.
pub fn keep_large_blocks_apart() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes two numbers, and may be called at any time from any thread (mallopt(3)).
    #[allow(unsafe_code)]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BLOCK);
        // Setting either limit ends the adjustment of both.
        libc::mallopt(libc::M_TRIM_THRESHOLD, 2 * LARGE_BLOCK);
    }
}

/// Returns freed memory to the kernel, including gaps between used memory.
///
/// The GNU C library keeps up to 64 MiB at the end of its heap once a large block was freed, and
/// all gaps below (mallopt(3), `M_TRIM_THRESHOLD`). With another C library this does nothing.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and may be called at any time from any thread (malloc_trim(3)).
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
