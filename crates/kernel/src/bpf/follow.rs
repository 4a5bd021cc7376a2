//! The followed tasks, and the slots of system calls: the Rust side of `bpf/follow.h`.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open};

use super::error::BpfError;
use super::syscall::bpf;

/// `BPF_MAP_UPDATE_ELEM` of `enum bpf_cmd`, `include/uapi/linux/bpf.h`.
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;

/// The tasks that programs follow, with their later children.
#[derive(Clone, Debug)]
pub enum FollowedTasks {
    /// The waiting child, from its execve on.
    Command(i32),
    /// Running processes.
    Processes(Vec<i32>),
    /// All tasks except this process; a waiting child counts from its execve on.
    All(Option<i32>),
}

/// A system call: its number in one of the two tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Call {
    /// The number, or [`Call::BEYOND`] if only its slot is known.
    pub number: u32,
    /// Whether it is a 32-bit call, with a number of the kernel's 32-bit table.
    pub compat: bool,
}

impl Call {
    /// Slots for the calls of one ABI; the last one stands for all numbers above.
    pub(super) const CALLS: u32 = 512;
    /// Stands for itself and all greater and negative numbers.
    pub const BEYOND: u32 = Self::CALLS - 1;
    /// Stands for numbers that the sums had no slot for. No table of the kernel has it.
    pub const OTHERS: u32 = 1 << 31;

    /// Returns the call's index in the programs' maps: 64-bit calls first, then 32-bit calls; the
    /// last slot of each stands for all other numbers.
    pub(super) fn slot(self) -> u32 {
        self.number.min(Self::BEYOND) + if self.compat { Self::CALLS } else { 0 }
    }

    /// Whether two numbers are equal, or both beyond the table.
    #[must_use]
    pub fn has_slot_of(self, other: Self) -> bool {
        self.slot() == other.slot()
    }

    /// Returns the call of a slot.
    pub(super) fn from_slot(slot: u32) -> Self {
        Self { number: slot % Self::CALLS, compat: slot >= Self::CALLS }
    }
}

/// `struct task` of `bpf/follow.h`. All fields but `state` start as zeros.
#[repr(C)]
struct TaskMark {
    start: u64,
    slot: u32,
    state: u32,
    missed: u64,
    retry: u32,
    phase: u32,
}

pub(super) const FOLLOWED: u32 = 1;
pub(super) const LEFT_OUT: u32 = 2;
pub(super) const WAITING: u32 = 3;

impl FollowedTasks {
    /// Returns the value of the programs' constant `all_tasks`.
    pub(crate) fn all_tasks(&self) -> u32 {
        u32::from(matches!(self, Self::All(_)))
    }

    /// Marks the followed tasks in task storage, and excludes this process.
    pub(super) fn mark(&self, tasks: BorrowedFd<'_>) -> Result<(), BpfError> {
        mark(tasks, getpid().as_raw_pid(), LEFT_OUT)?;
        match self {
            Self::Command(child) | Self::All(Some(child)) => mark(tasks, *child, WAITING),
            Self::Processes(pids) => pids.iter().try_for_each(|&pid| mark(tasks, pid, FOLLOWED)),
            Self::All(None) => Ok(()),
        }
    }
}

/// Marks this process as followed.
pub(crate) fn follow_own(tasks: BorrowedFd<'_>) -> Result<(), BpfError> {
    mark(tasks, getpid().as_raw_pid(), FOLLOWED)
}

/// The attribute of `BPF_MAP_UPDATE_ELEM`, in `union bpf_attr`.
#[repr(C)]
struct Update {
    map: u32,
    key: u64,
    value: u64,
    flags: u64,
}

fn mark(tasks: BorrowedFd<'_>, pid: i32, state: u32) -> Result<(), BpfError> {
    store(tasks, pid, &TaskMark { start: 0, slot: 0, state, missed: 0, retry: 0, phase: 0 })
}

/// Stores a value for a process's first thread in task storage.
pub(super) fn store<T>(storage: BorrowedFd<'_>, pid: i32, value: &T) -> Result<(), BpfError> {
    let known = Pid::from_raw(pid).ok_or(BpfError::NoProcess(pid))?;
    let process = pidfd_open(known, PidfdFlags::empty()).map_err(|_| BpfError::NoProcess(pid))?;
    let key = process.as_fd().as_raw_fd();
    let mut attr = Update {
        map: u32::try_from(storage.as_raw_fd()).map_err(|_| Errno::BADF)?,
        key: std::ptr::from_ref(&key).expose_provenance() as u64,
        value: std::ptr::from_ref(value).expose_provenance() as u64,
        flags: 0,
    };
    Ok(bpf(BPF_MAP_UPDATE_ELEM, &mut attr).map(drop)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_programs_and_of_the_kernel() {
        assert_eq!(size_of::<TaskMark>(), 32);
        assert_eq!(std::mem::offset_of!(TaskMark, state), 12);
        assert_eq!(std::mem::offset_of!(Update, key), 8);
        assert_eq!(Call::from_slot(515), Call { number: 3, compat: true });
    }
}
