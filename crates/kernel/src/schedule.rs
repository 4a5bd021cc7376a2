//! The scheduling policy of a thread: `sched(7)`.

use std::mem::MaybeUninit;

use rustix::io::Errno;

/// Sets the policy and priority of the calling thread.
fn set(policy: i32, sched_priority: i32) -> Result<(), Errno> {
    let parameters = libc::sched_param { sched_priority };
    // SAFETY: thread 0 is the calling one, and the pointer is to a local that the call only reads.
    #[allow(unsafe_code)]
    let result = unsafe { libc::sched_setscheduler(0, policy, &raw const parameters) };
    if result == 0 {
        Ok(())
    } else {
        Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }
}

/// Returns the policy and priority of the calling thread; `None` if the kernel refuses.
fn current() -> Option<(i32, i32)> {
    let mut parameters = MaybeUninit::<libc::sched_param>::zeroed();
    // SAFETY: thread 0 is the calling one; the pointer is to a local of the type that the call
    // fills in, and zeros are a valid value of it.
    #[allow(unsafe_code)]
    let (policy, result, parameters) = unsafe {
        let policy = libc::sched_getscheduler(0);
        let result = libc::sched_getparam(0, parameters.as_mut_ptr());
        (policy, result, parameters.assume_init())
    };
    (policy >= 0 && result == 0).then_some((policy, parameters.sched_priority))
}

/// Runs the calling thread before all threads of lower priority (`SCHED_FIFO`). Threads and
/// processes that it starts later don't inherit this.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE` if `RLIMIT_RTPRIO` is lower; `EINVAL` for a priority outside of 1
/// to 99.
pub fn run_first(priority: u32) -> Result<(), Errno> {
    let priority = i32::try_from(priority).map_err(|_| Errno::INVAL)?;
    set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// A real-time policy of the calling thread. Dropping it restores the earlier policy.
#[derive(Debug)]
pub struct RealTime {
    policy: i32,
    priority: i32,
}

/// Runs this thread before all normal ones (`SCHED_FIFO` with its lowest priority) until the guard
/// is dropped; `None` if this user may not. For milliseconds only: all normal threads on this CPU
/// wait. Nice levels are no substitute: with autogroups (`sched(7)`) they only order the processes
/// of one session.
#[must_use]
pub fn real_time() -> Option<RealTime> {
    fifo(1)
}

/// Runs this thread even before threads under [`real_time`]. Children that are started meanwhile
/// keep the policy.
#[must_use]
pub fn above_real_time() -> Option<RealTime> {
    fifo(2)
}

fn fifo(fifo_priority: i32) -> Option<RealTime> {
    let (policy, priority) = current()?;
    set(libc::SCHED_FIFO, fifo_priority).ok()?;
    Some(RealTime { policy, priority })
}

impl Drop for RealTime {
    fn drop(&mut self) {
        // Lowering a policy is never refused.
        _ = set(self.policy, self.priority);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropping_the_guard_restores_the_policy() {
        let before = current();
        for (raise, priority) in [(real_time as fn() -> _, 1), (above_real_time, 2)] {
            let Some(guard) = raise() else {
                println!("skipped: this user may have no real-time policy");
                return;
            };
            assert_eq!(current(), Some((libc::SCHED_FIFO, priority)));
            drop(guard);
            assert_eq!(current(), before);
        }
    }

    #[test]
    fn priorities_out_of_range_are_rejected() {
        assert_eq!(run_first(0), Err(Errno::INVAL));
        assert_eq!(run_first(100), Err(Errno::INVAL));
        assert_eq!(run_first(u32::MAX), Err(Errno::INVAL));
    }
}
