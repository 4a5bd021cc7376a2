//! The allocator's memory.

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
