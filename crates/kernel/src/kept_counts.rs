//! Finds out whether this kernel keeps the count of an inherited event when its task exits, so that
//! the next child continues from there. The patch series in linux/ adds this. No version number
//! shows it, so this module tries it out (linux/inherited-events.md, 'How a recorder detects the
//! series').

use std::os::fd::OwnedFd;
use std::ptr;
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use tare_format::abi::bindings::{PERF_COUNT_SW_PAGE_FAULTS, PERF_SAMPLE_TID, PERF_TYPE_SOFTWARE};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::record::kind::PERF_RECORD_SAMPLE;

use crate::exit;
use crate::open::{EventTarget, Kernel};
use crate::ring::Ring;

/// Page faults per sample.
const PERIOD: u64 = 512;
/// Processes, one after the other; none causes a whole period of page faults.
const CHILDREN: usize = 24;
/// Pages that each process touches.
const PAGES: usize = 64;
/// Samples that [`CHILDREN`] × [`PAGES`] page faults cause at least if no count is lost: less than
/// one period can be outstanding in the children, and one in the helper.
const SAMPLES: usize = 2;

/// Runs short processes one after the other and checks whether their page faults add up to samples.
/// `None` if that fails, for example because this process may not sample its own children.
#[must_use]
pub fn kernel_keeps_counts(kernel: &dyn Kernel) -> Option<bool> {
    let cpu = sched_getcpu();
    let helper = Helper::fork(cpu)?;
    let attr = Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_PAGE_FAULTS.into(),
        sampling: Sampling::Period(PERIOD),
        sample_type: PERF_SAMPLE_TID.into(),
        flags: Flags::INHERIT | Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV,
        ..Attr::default()
    };
    let event = kernel
        .open(&attr, EventTarget::TaskOnCpu(helper.pid, u32::try_from(cpu).ok()?), None)
        .ok()?;
    let mut ring = Ring::map(&*event, rustix::param::page_size()).ok()?;
    helper.run()?;
    let mut samples = 0;
    while let Some(record) = ring.next() {
        samples += usize::from(record.kind() == PERF_RECORD_SAMPLE);
    }
    Some(samples >= SAMPLES)
}

/// A forked process that waits and then forks children. Dropped before it is started, it exits
/// without any.
struct Helper {
    pid: i32,
    /// A byte starts the helper; closing it makes the helper exit.
    channel: Option<OwnedFd>,
}

impl Helper {
    fn fork(cpu: usize) -> Option<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).ok()?;
        // SAFETY: the child makes only async-signal-safe calls until it exits, see `fork_children`.
        #[allow(unsafe_code)]
        let pid = unsafe { libc::fork() };
        match pid {
            -1 => None,
            0 => {
                drop(write);
                fork_children(&read, cpu)
            }
            pid => Some(Self { pid, channel: Some(write) }),
        }
    }

    /// Starts it and waits for its exit.
    fn run(mut self) -> Option<()> {
        let channel = self.channel.take()?;
        rustix::io::retry_on_intr(|| rustix::io::write(&channel, b"g")).ok()?;
        let ended = exit::wait(self.pid, Instant::now(), 0).ok()??;
        self.pid = 0;
        (ended.status == 0).then_some(())
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.channel = None;
        if self.pid > 0 {
            let _ = exit::wait(self.pid, Instant::now(), 0);
        }
    }
}

/// The helper's side of the fork. It allocates nothing.
fn fork_children(channel: &OwnedFd, cpu: usize) -> ! {
    let mut only = CpuSet::new();
    only.set(cpu);
    let bound = sched_setaffinity(None, &only).is_ok();
    let mut byte = [0];
    let go = bound
        && matches!(rustix::io::retry_on_intr(|| rustix::io::read(channel, &mut byte)), Ok(1));
    let done = go && (0..CHILDREN).all(|_| fork_child());
    // SAFETY: `_exit` runs no destructors, as a forked copy must not.
    #[allow(unsafe_code)]
    unsafe {
        libc::_exit(i32::from(!done))
    }
}

/// Forks a process that touches fresh pages and exits, and waits for it.
fn fork_child() -> bool {
    // SAFETY: plain system calls. The memory is the child's own new mapping; each write is within
    // its bounds.
    #[allow(unsafe_code)]
    unsafe {
        match libc::fork() {
            -1 => false,
            0 => {
                let page = rustix::param::page_size();
                let access = libc::PROT_READ | libc::PROT_WRITE;
                let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let memory = libc::mmap(ptr::null_mut(), PAGES * page, access, kind, -1, 0);
                if memory == libc::MAP_FAILED {
                    libc::_exit(1);
                }
                // With a huge page all faults would be one.
                libc::madvise(memory, PAGES * page, libc::MADV_NOHUGEPAGE);
                (0..PAGES)
                    .for_each(|number| memory.cast::<u8>().add(number * page).write_volatile(1));
                libc::_exit(0)
            }
            pid => {
                let mut status = 0;
                libc::waitpid(pid, &raw mut status, 0) == pid && status == 0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::System;

    /// Released kernels lose the counts.
    #[test]
    fn a_released_kernel_loses_counts() {
        match kernel_keeps_counts(&System) {
            None => println!("skipped: this user may not sample page faults"),
            kept => assert_eq!(kept, Some(false)),
        }
    }
}
