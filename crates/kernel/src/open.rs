//! `perf_event_open` and the operations on an event's file, behind a trait so that tests can script
//! failures.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_FLAG_PID_CGROUP, PERF_IOC_FLAG_GROUP, perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::io::Errno;
use tare_format::abi::Attr;

use crate::bpf::{self, BpfError, DeepStackSlot, LoadedProgram};
use crate::mapping::{Access, Mapping};

/// The tasks or CPUs that an event observes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventTarget {
    /// A thread, on any CPU, with its children if the event has `inherit`.
    Task(i32),
    /// A thread, while it runs on this CPU.
    TaskOnCpu(i32, u32),
    /// Everything that runs on this CPU.
    Cpu(u32),
    /// The tasks of a cgroup on this CPU; the file is the cgroup's folder.
    CgroupOnCpu(RawFd, u32),
}

impl EventTarget {
    /// Returns the CPU of an event on a whole CPU or on a cgroup; `None` for events on tasks.
    #[must_use]
    pub fn cpu(self) -> Option<u32> {
        match self {
            Self::Cpu(cpu) | Self::CgroupOnCpu(_, cpu) => Some(cpu),
            Self::Task(_) | Self::TaskOnCpu(..) => None,
        }
    }
}

/// The kernel's interface to events.
pub trait Kernel {
    /// Opens an event. `leader` is the first event of its group.
    ///
    /// # Errors
    /// The kernel's errors: see `perf_event_open(2)`.
    fn open(
        &self,
        attr: &Attr,
        target: EventTarget,
        leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, Errno>;

    /// Returns the loaded BPF programs that this user may see.
    fn bpf_programs(&self) -> Vec<LoadedProgram> {
        Vec::new()
    }

    /// Creates a slot for the program that copies the part of user stacks for which samples have no
    /// room.
    ///
    /// # Errors
    /// See [`DeepStackSlot::new`].
    fn deep_stacks(&self) -> Result<DeepStackSlot, BpfError> {
        Err(BpfError::NotPermitted(Errno::NOSYS))
    }
}

/// An open event. Dropping it closes it.
pub trait EventFile: std::fmt::Debug {
    /// Returns the file descriptor, which names the leader of a group.
    fn raw_fd(&self) -> RawFd;

    /// Returns the descriptor that becomes readable when the event's ring is to be read
    /// (`poll(2)`); `None` if none ever does.
    fn wakes(&self) -> Option<BorrowedFd<'_>>;

    /// Reads the count in the event's read format. Returns the number of bytes.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn read(&self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Starts counting, for the whole group if this is its leader.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn enable(&self) -> Result<(), Errno>;

    /// Stops counting, for the whole group if this is its leader.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn disable(&self) -> Result<(), Errno>;

    /// Attaches a filter to the event of a tracepoint or probe. The kernel accepts one in an
    /// event's life.
    ///
    /// # Errors
    /// `EINVAL` for a filter that doesn't fit the event's fields, `EEXIST` for a second one.
    fn set_filter(&self, filter: &CStr) -> Result<(), Errno>;

    /// Runs a BPF program before each sample of the event, and of the events that inherit it.
    ///
    /// # Errors
    /// `EINVAL` for a tracepoint or probe, `EEXIST` for a second program.
    fn run_program(&self, program: BorrowedFd<'_>) -> Result<(), Errno> {
        let _ = program;
        Err(Errno::OPNOTSUPP)
    }

    /// Changes the period: occurrences, or nanoseconds for a clock, from the next sample on.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn set_period(&self, period: u64) -> Result<(), Errno>;

    /// Returns the id that samples of this event carry.
    ///
    /// # Errors
    /// Returns the kernel's error.
    fn id(&self) -> Result<u64, Errno>;

    /// Maps a ring with `size` bytes of data, a power of two of pages. Possible once in an event's
    /// life.
    ///
    /// # Errors
    /// `EPERM` if the memory may not be locked; `EINVAL` if the event can have no ring; `EBUSY` if
    /// it was mapped before, or the event writes into another's ring: see `perf_event_open(2)`.
    fn map_ring(&self, size: usize, access: Access) -> Result<Mapping, Errno>;

    /// Redirects the event's records into the ring of another event on the same CPU, or of the same
    /// task if both are bound to no CPU.
    ///
    /// # Errors
    /// `EINVAL` if the two differ in that, or in clock or direction.
    fn set_output(&self, ring_of: &dyn EventFile) -> Result<(), Errno>;

    /// Pauses or resumes writing into the event's ring. Records in between are lost.
    ///
    /// # Errors
    /// `EINVAL` if it has none.
    fn pause_output(&self, pause: bool) -> Result<(), Errno>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

#[derive(Debug)]
struct SystemFile {
    file: OwnedFd,
    /// Whether its ring has a reader: it was mapped, or the event writes into another's ring. Two
    /// readers would move the same tail.
    has_reader: Cell<bool>,
}

impl Kernel for System {
    fn open(
        &self,
        attr: &Attr,
        target: EventTarget,
        leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, Errno> {
        Ok(Box::new(SystemFile::open(attr, target, leader)?))
    }

    fn bpf_programs(&self) -> Vec<LoadedProgram> {
        bpf::loaded_programs()
    }

    fn deep_stacks(&self) -> Result<DeepStackSlot, BpfError> {
        DeepStackSlot::new()
    }
}

impl SystemFile {
    fn open(
        attr: &Attr,
        target: EventTarget,
        leader: Option<&dyn EventFile>,
    ) -> Result<Self, Errno> {
        let mut bytes = AlignedAttr(attr.to_bytes());
        if let Some(path) = &attr.uprobe_path {
            let address = path.as_ptr().expose_provenance() as u64;
            bytes.0[UPROBE_PATH..UPROBE_PATH + 8].copy_from_slice(&address.to_ne_bytes());
        }
        let cpu = |n: u32| i32::try_from(n).map_err(|_| Errno::INVAL);
        let (pid, cpu, flags) = match target {
            EventTarget::Task(tid) => (tid, -1, 0),
            EventTarget::TaskOnCpu(tid, on) => (tid, cpu(on)?, 0),
            EventTarget::Cpu(on) => (-1, cpu(on)?, 0),
            EventTarget::CgroupOnCpu(folder, on) => (folder, cpu(on)?, PERF_FLAG_PID_CGROUP),
        };
        let group = leader.map_or(-1, EventFile::raw_fd);
        let at = (&raw mut bytes).cast::<perf_event_attr>();
        // SAFETY: `at` points to the bytes of a perf_event_attr, aligned for it, whose `size` field
        // states their number. The kernel reads no further, and on E2BIG writes only that field.
        // The bytes outlive the call, and so does a probe's path, which the kernel copies up to its
        // NUL; an invalid address gives EFAULT.
        #[allow(unsafe_code)]
        let fd =
            unsafe { perf_event_open(at, pid, cpu, group, (flags | PERF_FLAG_FD_CLOEXEC).into()) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
        #[allow(unsafe_code)]
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { file: owned, has_reader: Cell::new(false) })
    }
}

/// Offset of `config1`, which is `uprobe_path` for probes.
const UPROBE_PATH: usize = std::mem::offset_of!(perf_event_attr, __bindgen_anon_3);

/// The bytes of an attribute, aligned for a `perf_event_attr`.
#[repr(C, align(8))]
struct AlignedAttr([u8; tare_format::abi::ATTR_SIZE]);

fn last_errno() -> Errno {
    std::io::Error::last_os_error().raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error)
}

fn check(result: i32) -> Result<(), Errno> {
    if result < 0 { Err(last_errno()) } else { Ok(()) }
}

impl AsFd for SystemFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl EventFile for SystemFile {
    fn raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn wakes(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| rustix::io::read(&self.file, &mut *into))
    }

    fn enable(&self) -> Result<(), Errno> {
        // SAFETY: the descriptor is an open event's, and this request takes no pointer.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::ENABLE(self.raw_fd(), PERF_IOC_FLAG_GROUP) })
    }

    fn disable(&self) -> Result<(), Errno> {
        // SAFETY: the descriptor is an open event's, and this request takes no pointer.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::DISABLE(self.raw_fd(), PERF_IOC_FLAG_GROUP) })
    }

    fn set_filter(&self, filter: &CStr) -> Result<(), Errno> {
        // SAFETY: the kernel copies the string up to its NUL and writes nothing.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::SET_FILTER(self.raw_fd(), filter.as_ptr().cast_mut()) })
    }

    fn run_program(&self, program: BorrowedFd<'_>) -> Result<(), Errno> {
        let program = u32::try_from(program.as_raw_fd()).map_err(|_| Errno::BADF)?;
        // SAFETY: both descriptors are open files; this request takes no pointer.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::SET_BPF(self.raw_fd(), program) })
    }

    fn set_period(&self, period: u64) -> Result<(), Errno> {
        // The binding takes a number where the kernel takes a pointer (perf_event_open(2)).
        let address = (&raw const period).expose_provenance() as u64;
        // SAFETY: the kernel reads eight bytes at the address, which is that of a local of that
        // size.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::PERIOD(self.raw_fd(), address) })
    }

    fn id(&self) -> Result<u64, Errno> {
        let mut id = 0;
        // SAFETY: the kernel writes eight bytes through the pointer, which points to a local of
        // that size.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::ID(self.raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    fn map_ring(&self, size: usize, access: Access) -> Result<Mapping, Errno> {
        if self.has_reader.get() {
            return Err(Errno::BUSY);
        }
        let mapping = Mapping::map_event(self.as_fd(), size, access)?;
        self.has_reader.set(true);
        Ok(mapping)
    }

    fn set_output(&self, ring_of: &dyn EventFile) -> Result<(), Errno> {
        // SAFETY: both descriptors are open files; this request takes no pointer.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::SET_OUTPUT(self.raw_fd(), ring_of.raw_fd()) })?;
        // Some kernels don't answer EBUSY but map the other event's ring through this one.
        self.has_reader.set(true);
        Ok(())
    }

    fn pause_output(&self, pause: bool) -> Result<(), Errno> {
        // SAFETY: the descriptor is an open event's, and this request takes no pointer.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::PAUSE_OUTPUT(self.raw_fd(), pause.into()) })
    }
}

#[cfg(test)]
mod tests {
    use tare_format::abi::bindings::{PERF_COUNT_SW_DUMMY, PERF_TYPE_SOFTWARE};

    use super::*;

    /// Whatever the kernel answers, a redirected event's ring can't be mapped.
    #[test]
    fn a_redirected_event_has_a_reader() {
        let config = PERF_COUNT_SW_DUMMY.into();
        let attr = Attr { kind: PERF_TYPE_SOFTWARE, config, ..Attr::default() };
        let open = || SystemFile::open(&attr, EventTarget::Task(0), None);
        let (event, ring) = match (open(), open()) {
            (Ok(event), Ok(ring)) => (event, ring),
            (opened, _) => return println!("skipped: perf_event_open: {opened:?}"),
        };
        let _mapping = ring.map_ring(rustix::param::page_size(), Access::Consume).unwrap();
        event.set_output(&ring).unwrap();
        assert!(event.has_reader.get());
        let again = event.map_ring(rustix::param::page_size(), Access::Consume);
        assert_eq!(again.unwrap_err(), Errno::BUSY);
    }
}
