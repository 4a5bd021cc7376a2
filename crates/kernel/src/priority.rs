//! A short stretch in which no other program takes this thread's CPU.

use std::mem::MaybeUninit;

/// The scheduling policy of before, which comes back when this goes.
#[derive(Debug)]
pub struct First {
    policy: i32,
    param: libc::sched_param,
}

/// Puts this thread before all normal ones (`SCHED_FIFO`, the lowest priority of it) until the
/// guard goes; `None` where this user may not. For milliseconds only: what else is to run on this
/// CPU waits. Nice levels are no substitute: with autogroups (`sched(7)`) they order the processes
/// of one session alone.
#[must_use]
pub fn first() -> Option<First> {
    fifo(1)
}

/// The same, and before threads that are [`first`]: children that are made meanwhile stay there.
#[must_use]
pub fn before_first() -> Option<First> {
    fifo(2)
}

fn fifo(sched_priority: i32) -> Option<First> {
    let mut before = MaybeUninit::<libc::sched_param>::zeroed();
    let wanted = libc::sched_param { sched_priority };
    // SAFETY: thread 0 is this one; the pointers are to locals of the type that the calls take, and
    // zeros are a valid value of it.
    #[allow(unsafe_code)]
    unsafe {
        let policy = libc::sched_getscheduler(0);
        let known = policy >= 0 && libc::sched_getparam(0, before.as_mut_ptr()) == 0;
        let first = known && libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const wanted) == 0;
        first.then(|| First { policy, param: before.assume_init() })
    }
}

impl Drop for First {
    fn drop(&mut self) {
        // SAFETY: the pointer is to a field of this value. Going back to less is never refused.
        #[allow(unsafe_code)]
        unsafe {
            libc::sched_setscheduler(0, self.policy, &raw const self.param);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> i32 {
        // SAFETY: takes no pointer.
        #[allow(unsafe_code)]
        unsafe {
            libc::sched_getscheduler(0)
        }
    }

    #[test]
    fn the_policy_of_before_comes_back() {
        let before = policy();
        for ahead in [first, before_first] {
            let Some(guard) = ahead() else {
                println!("skipped: this user may not go first");
                return;
            };
            assert_eq!(policy(), libc::SCHED_FIFO);
            drop(guard);
            assert_eq!(policy(), before);
        }
    }
}
