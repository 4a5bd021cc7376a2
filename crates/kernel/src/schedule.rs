//! When threads run.

use std::mem::MaybeUninit;

use rustix::io::Errno;

/// Has this thread run before all that have no such priority (`SCHED_FIFO`, sched(7)). Threads and
/// processes that it starts later don't inherit it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE`, where `RLIMIT_RTPRIO` is lower; `EINVAL` for a priority that
/// isn't in 1 to 99.
pub fn run_first(priority: u32) -> Result<(), Errno> {
    let priority = i32::try_from(priority).map_err(|_| Errno::INVAL)?;
    // SAFETY: zeros are a valid value of it, and the call only reads it. 0 is the calling thread.
    #[allow(unsafe_code)]
    let result = unsafe {
        let mut parameters = MaybeUninit::<libc::sched_param>::zeroed().assume_init();
        parameters.sched_priority = priority;
        libc::sched_setscheduler(
            0,
            libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK,
            &raw const parameters,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}
