//! The memory that the allocator holds.

/// Gives memory that was freed back to the kernel, also what lies between memory in use.
///
/// The GNU C library keeps up to 64 MiB at the end of its heap once a large piece was freed, and
/// everything below it (mallopt(3), `M_TRIM_THRESHOLD`). With another C library nothing is done.
pub fn return_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number, and may be called at any time from any thread (malloc_trim(3)).
    #[allow(unsafe_code)]
    unsafe {
        libc::malloc_trim(0);
    }
}
