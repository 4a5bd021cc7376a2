//! Attaches programs to functions through perf events of the PMUs `uprobe` and `kprobe`. The kernel
//! removes probe and link with their descriptors; nothing is written into tracefs.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use tare_format::abi::Attr;

use crate::bpf::bpf_fd;
use crate::host::Host;
use crate::open::{EventFile, EventTarget, Kernel, System};

/// `BPF_LINK_CREATE` of `enum bpf_cmd`, `include/uapi/linux/bpf.h`.
const BPF_LINK_CREATE: libc::c_int = 28;
/// `BPF_PERF_EVENT` of `enum bpf_attach_type`.
const PERF_EVENT: u32 = 41;

/// Where a program is attached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeLocation {
    /// In a file, in any process.
    File {
        /// Its path.
        path: CString,
        /// Bytes from its start.
        offset: u64,
        /// Offset in the file of the counter that enables this place (USDT's semaphore); 0 for
        /// none.
        semaphore: u32,
    },
    /// In the kernel.
    Kernel {
        /// A function.
        function: CString,
        /// Bytes from its start.
        offset: u64,
    },
}

impl ProbeLocation {
    /// Checks that this kernel has probes of this kind.
    ///
    /// # Errors
    /// Fails with `NotFound` if it has none, with `Unsupported` if the place has a semaphore that
    /// this kernel can't increment, and if sysfs can't be read.
    pub fn check(&self, host: &Host) -> io::Result<()> {
        self.attr(host, false).map(drop)
    }

    fn attr(&self, host: &Host, at_return: bool) -> io::Result<Attr> {
        let (pmu, name, offset, semaphore) = match self {
            Self::File { path, offset, semaphore } => ("uprobe", path, offset, *semaphore),
            Self::Kernel { function, offset } => ("kprobe", function, offset, 0),
        };
        let pmu = host.pmu(pmu).ok_or(io::ErrorKind::NotFound)?;
        let mut config = 0;
        let terms = [("retprobe", u64::from(at_return)), ("ref_ctr_offset", semaphore.into())];
        for (term, value) in terms.into_iter().filter(|(_, value)| *value != 0) {
            let format = pmu.format(term)?.ok_or(io::ErrorKind::Unsupported)?;
            config = format.put(value, config);
        }
        Ok(Attr {
            kind: pmu.kind()?,
            config,
            config2: *offset,
            uprobe_path: Some(name.clone()),
            ..Attr::default()
        })
    }
}

/// An attached program. Dropping it detaches it.
#[derive(Debug)]
pub(super) struct AttachedProgram {
    _link: OwnedFd,
    _event: Box<dyn EventFile>,
}

/// The attribute of `BPF_LINK_CREATE`, in `union bpf_attr`.
#[repr(C)]
struct LinkCreate {
    program: u32,
    target: u32,
    kind: u32,
    flags: u32,
    cookie: u64,
}

/// Attaches a program at a location, or at the return of the function there, in all processes.
pub(super) fn attach(
    program: BorrowedFd<'_>,
    location: &ProbeLocation,
    at_return: bool,
    cookie: u64,
    host: &Host,
) -> io::Result<AttachedProgram> {
    let attr = location.attr(host, at_return)?;
    let cpus = host.online_cpus()?;
    let cpu = cpus.iter().next().unwrap_or(0);
    let event = System.open(&attr, EventTarget::Cpu(cpu), None)?;
    let number = |fd: i32| u32::try_from(fd).map_err(|_| Errno::BADF);
    let mut create = LinkCreate {
        program: number(program.as_raw_fd())?,
        target: number(event.raw_fd())?,
        kind: PERF_EVENT,
        flags: 0,
        cookie,
    };
    let link = bpf_fd(BPF_LINK_CREATE, &mut create)?;
    Ok(AttachedProgram { _link: link, _event: event })
}
