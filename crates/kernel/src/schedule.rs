//! The scheduling policy of a thread: `sched(7)`.

use std::mem::MaybeUninit;

use rustix::io::Errno;

/// Sets a policy and its priority for the calling thread.
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

/// The policy of the calling thread and its priority; `None` where the kernel doesn't tell.
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

/// Has this thread run before all that have no such priority (`SCHED_FIFO`). Threads and processes
/// that it starts later don't inherit it.
///
/// # Errors
/// `EPERM` without `CAP_SYS_NICE`, where `RLIMIT_RTPRIO` is lower; `EINVAL` for a priority that
/// isn't in 1 to 99.
pub fn run_first(priority: u32) -> Result<(), Errno> {
    let priority = i32::try_from(priority).map_err(|_| Errno::INVAL)?;
    set(libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority)
}

/// A real-time policy of the calling thread. When it is dropped the earlier policy comes back.
#[derive(Debug)]
pub struct RealTime {
    policy: i32,
    priority: i32,
}

/// Puts this thread before all normal ones (`SCHED_FIFO`, the lowest priority of it) until the
/// guard is dropped; `None` where this user may not. For milliseconds only: everything else on this
/// CPU waits. Nice levels are no substitute: with autogroups (`sched(7)`) they order the processes
/// of one session alone.
#[must_use]
pub fn real_time() -> Option<RealTime> {
    fifo(1)
}

/// The same, and before threads that have [`real_time`]: children that are made meanwhile keep it.
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
        // Going back to less is never refused.
        _ = set(self.policy, self.priority);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_of_before_comes_back() {
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
    fn priorities_have_two_ends() {
        assert_eq!(run_first(0), Err(Errno::INVAL));
        assert_eq!(run_first(100), Err(Errno::INVAL));
        assert_eq!(run_first(u32::MAX), Err(Errno::INVAL));
    }
}
