//! `perf_event_open`, and what one does with the file that it returns, behind a trait so that
//! failures can be scripted.

use std::cell::Cell;
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_FLAG_PID_CGROUP, PERF_IOC_FLAG_GROUP, perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};
use rustix::io::Errno;
use tare_format::abi::Attr;

use crate::bpf::{self, LoadedProgram};
use crate::mapping::{Access, Mapping};

/// Whose occurrences an event counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventTarget {
    /// A thread, on whichever CPU it runs, and with `inherit` its children.
    Task(i32),
    /// A thread, while it runs on this CPU.
    TaskOnCpu(i32, u32),
    /// Everything that runs on this CPU.
    Cpu(u32),
    /// What the tasks of a cgroup do on this CPU; the file is the cgroup's folder.
    CgroupOnCpu(RawFd, u32),
}

impl EventTarget {
    /// The CPU whose events these are, whatever runs there; `None` for events of tasks.
    #[must_use]
    pub fn cpu(self) -> Option<u32> {
        match self {
            Self::Cpu(cpu) | Self::CgroupOnCpu(_, cpu) => Some(cpu),
            Self::Task(_) | Self::TaskOnCpu(..) => None,
        }
    }
}

/// The kernel, as far as events go.
pub trait Kernel {
    /// Opens an event. `leader` is the first event of its group.
    ///
    /// # Errors
    /// The kernel's own: see `perf_event_open(2)`.
    fn open(
        &self,
        attr: &Attr,
        target: EventTarget,
        leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, Errno>;

    /// The BPF programs that are loaded, as far as this user may know.
    fn bpf_programs(&self) -> Vec<LoadedProgram> {
        Vec::new()
    }
}

/// An open event. Closing it is dropping it.
pub trait EventFile: std::fmt::Debug {
    /// The file descriptor, to name the leader of a group.
    fn raw_fd(&self) -> RawFd;

    /// What becomes readable when the event's ring is to be read (`poll(2)`); `None` where nothing
    /// ever does.
    fn wakes(&self) -> Option<BorrowedFd<'_>>;

    /// Reads the count, in the event's read format, and returns the number of bytes.
    ///
    /// # Errors
    /// The kernel's own.
    fn read(&self, into: &mut [u8]) -> Result<usize, Errno>;

    /// Starts counting, for the whole group if this is its leader.
    ///
    /// # Errors
    /// The kernel's own.
    fn enable(&self) -> Result<(), Errno>;

    /// Stops counting, for the whole group if this is its leader.
    ///
    /// # Errors
    /// The kernel's own.
    fn disable(&self) -> Result<(), Errno>;

    /// Attaches a tracepoint filter. The kernel takes one for the life of an event.
    ///
    /// # Errors
    /// `EINVAL` for a filter that doesn't fit the tracepoint's fields.
    fn set_filter(&self, filter: &CStr) -> Result<(), Errno>;

    /// The id that samples of this event carry.
    ///
    /// # Errors
    /// The kernel's own.
    fn id(&self) -> Result<u64, Errno>;

    /// Maps a ring with `size` bytes of data, a power of two of pages; once in the life of an
    /// event.
    ///
    /// # Errors
    /// `EPERM` where so much memory may not be locked, `EINVAL` where the event can have no ring,
    /// `EBUSY` where it was mapped before or the event writes into another's: see
    /// `perf_event_open(2)`.
    fn map_ring(&self, size: usize, access: Access) -> Result<Mapping, Errno>;

    /// Has the event's records written into the ring of another, which is on the same CPU.
    ///
    /// # Errors
    /// `EINVAL` where the two don't fit: other CPU, other clock, other direction.
    fn set_output(&self, ring_of: &dyn EventFile) -> Result<(), Errno>;

    /// Stops or resumes writing into the event's ring; what happens meanwhile is lost.
    ///
    /// # Errors
    /// `EINVAL` where it has none.
    fn pause_output(&self, pause: bool) -> Result<(), Errno>;
}

/// The running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct System;

#[derive(Debug)]
struct SystemFile {
    file: OwnedFd,
    /// Whether its ring has a reader: it was mapped, or the event writes into another's ring. Two
    /// readers would move one tail.
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
        // says how many there are; the kernel reads no further, and on E2BIG writes that field
        // alone. The bytes outlive the call, and so does the path that a probe's address is of: the
        // kernel copies it up to its NUL. An address that isn't one is EFAULT.
        #[allow(unsafe_code)]
        let fd =
            unsafe { perf_event_open(at, pid, cpu, group, (flags | PERF_FLAG_FD_CLOEXEC).into()) };
        if fd < 0 {
            return Err(last_errno());
        }
        // SAFETY: the kernel just returned this descriptor, and nobody else knows it.
        #[allow(unsafe_code)]
        let owned = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { file: owned, has_reader: Cell::new(false) })
    }
}

/// Where `config1` lies in an attribute, which is `uprobe_path` for probes.
const UPROBE_PATH: usize = std::mem::offset_of!(perf_event_attr, __bindgen_anon_3);

/// The bytes of an attribute where a `perf_event_attr` may lie.
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

    fn id(&self) -> Result<u64, Errno> {
        let mut id = 0;
        // SAFETY: the kernel writes eight bytes through the pointer, which is to a local of that
        // size.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::ID(self.raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    fn map_ring(&self, size: usize, access: Access) -> Result<Mapping, Errno> {
        if self.has_reader.get() {
            return Err(Errno::BUSY);
        }
        let mapping = Mapping::of(self.as_fd(), size, access)?;
        self.has_reader.set(true);
        Ok(mapping)
    }

    fn set_output(&self, ring_of: &dyn EventFile) -> Result<(), Errno> {
        // SAFETY: both descriptors are open files; this request takes no pointer.
        #[allow(unsafe_code)]
        check(unsafe { ioctls::SET_OUTPUT(self.raw_fd(), ring_of.raw_fd()) })?;
        // Kernels that don't answer EBUSY map the other event's ring through this one.
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

    /// Whatever the kernel answers, an event whose records go elsewhere has no ring to be mapped.
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
