//! Finds out by trying which events this process may open. That includes the effects of
//! distributions' patches, seccomp filters and security modules, which no setting reveals.

use rustix::io::Errno;
use tare_format::abi::bindings::{
    PERF_COUNT_HW_CPU_CYCLES, PERF_COUNT_SW_DUMMY, PERF_COUNT_SW_PAGE_FAULTS, PERF_SAMPLE_RAW,
    PERF_TYPE_HARDWARE, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};
use tare_format::abi::{Attr, Flags, Sampling};

use crate::host::Rights;
use crate::open::{EventTarget, Kernel};

/// Why the kernel refuses an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The event doesn't exist: `ENOENT`, `EOPNOTSUPP`, `ENODEV`. For `cycles`: no PMU.
    NoSuchEvent,
    /// The paranoid level or a security module forbids it: `EACCES`, or `EPERM` that isn't a
    /// seccomp filter's.
    Forbidden,
    /// A seccomp filter forbids the call itself: `EPERM` with one on this process.
    Seccomp,
    /// The kernel has no events at all: `ENOSYS`.
    NoEvents,
    /// No file descriptor is left: `EMFILE`, `ENFILE`.
    NoFiles,
    /// Another error.
    Other(Errno),
}

/// Whether an event can be opened.
pub type ProbeAnswer = Result<(), Refusal>;

/// Tries to open events, which are never enabled, and closes them.
#[derive(Clone, Copy)]
pub struct AccessProbe<'a> {
    /// The kernel.
    pub kernel: &'a dyn Kernel,
    /// Whether a seccomp filter applies to this process.
    pub seccomp_filter: bool,
}

impl<'a> AccessProbe<'a> {
    /// Creates a probe for a process with these rights.
    #[must_use]
    pub fn new(kernel: &'a dyn Kernel, rights: Option<&Rights>) -> Self {
        Self {
            kernel,
            seccomp_filter: rights.is_some_and(|rights| rights.seccomp_filter == Some(true)),
        }
    }

    /// Tries a software event on this thread, in user mode.
    pub fn own_user(&self) -> ProbeAnswer {
        self.try_open(&software(PERF_COUNT_SW_PAGE_FAULTS.into(), USER_ONLY), MYSELF)
    }

    /// Tries a software event on this thread, including the kernel.
    pub fn own_kernel(&self) -> ProbeAnswer {
        self.try_open(&software(PERF_COUNT_SW_PAGE_FAULTS.into(), Flags::empty()), MYSELF)
    }

    /// Tries `cycles` on this thread in user mode: whether the machine has a PMU.
    pub fn cycles(&self) -> ProbeAnswer {
        let config = PERF_COUNT_HW_CPU_CYCLES.into();
        self.try_open(
            &Attr {
                kind: PERF_TYPE_HARDWARE,
                config,
                flags: USER_ONLY | Flags::DISABLED,
                ..Attr::default()
            },
            MYSELF,
        )
    }

    /// Tries an event on a whole CPU.
    pub fn system_wide(&self, cpu: u32) -> ProbeAnswer {
        self.try_open(&software(PERF_COUNT_SW_DUMMY.into(), Flags::empty()), EventTarget::Cpu(cpu))
    }

    /// Tries an event on a cgroup, by its open folder.
    pub fn cgroup(&self, folder: std::os::fd::BorrowedFd<'_>, cpu: u32) -> ProbeAnswer {
        let folder = std::os::fd::AsRawFd::as_raw_fd(&folder);
        self.try_open(
            &software(PERF_COUNT_SW_DUMMY.into(), Flags::empty()),
            EventTarget::CgroupOnCpu(folder, cpu),
        )
    }

    /// Tries to sample the fields of a tracepoint on this thread, by its id in tracefs.
    pub fn tracepoint_fields(&self, id: u64) -> ProbeAnswer {
        let flags = Flags::DISABLED;
        let sample_type = PERF_SAMPLE_RAW.into();
        let attr = Attr {
            kind: PERF_TYPE_TRACEPOINT,
            config: id,
            sampling: Sampling::Period(1),
            sample_type,
            flags,
            ..Attr::default()
        };
        // The kernel itself answers EPERM here. A seccomp filter can't see the event's type, so it
        // would refuse all events.
        let is_kernels = |refusal| refusal == Refusal::Seccomp && self.own_user().is_ok();
        self.try_open(&attr, MYSELF)
            .map_err(|refusal| if is_kernels(refusal) { Refusal::Forbidden } else { refusal })
    }

    fn try_open(&self, attr: &Attr, target: EventTarget) -> ProbeAnswer {
        self.kernel.open(attr, target, None).map(drop).map_err(|errno| match errno {
            Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV => Refusal::NoSuchEvent,
            Errno::PERM if self.seccomp_filter => Refusal::Seccomp,
            Errno::ACCESS | Errno::PERM => Refusal::Forbidden,
            Errno::NOSYS => Refusal::NoEvents,
            Errno::MFILE | Errno::NFILE => Refusal::NoFiles,
            other => Refusal::Other(other),
        })
    }
}

const MYSELF: EventTarget = EventTarget::Task(0);
const USER_ONLY: Flags = Flags::EXCLUDE_KERNEL.union(Flags::EXCLUDE_HV);

fn software(config: u64, flags: Flags) -> Attr {
    Attr { kind: PERF_TYPE_SOFTWARE, config, flags: flags | Flags::DISABLED, ..Attr::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::EventFile;

    /// A kernel that opens nothing.
    struct Refusing(Errno);

    impl Kernel for Refusing {
        fn open(
            &self,
            _: &Attr,
            _: EventTarget,
            _: Option<&dyn EventFile>,
        ) -> Result<Box<dyn EventFile>, Errno> {
            Err(self.0)
        }
    }

    fn refusal_for(errno: Errno, seccomp_filter: bool) -> Refusal {
        AccessProbe { kernel: &Refusing(errno), seccomp_filter }.cycles().unwrap_err()
    }

    #[test]
    fn refusals_are_distinguished() {
        assert_eq!(refusal_for(Errno::NOENT, true), Refusal::NoSuchEvent);
        assert_eq!(refusal_for(Errno::OPNOTSUPP, false), Refusal::NoSuchEvent);
        assert_eq!(refusal_for(Errno::ACCESS, true), Refusal::Forbidden);
        assert_eq!(refusal_for(Errno::PERM, true), Refusal::Seccomp);
        assert_eq!(refusal_for(Errno::PERM, false), Refusal::Forbidden);
        assert_eq!(refusal_for(Errno::NOSYS, false), Refusal::NoEvents);
        assert_eq!(refusal_for(Errno::MFILE, false), Refusal::NoFiles);
        assert_eq!(refusal_for(Errno::BUSY, false), Refusal::Other(Errno::BUSY));
    }

    /// A kernel that opens everything but the fields of tracepoints.
    struct WithoutFields;

    impl Kernel for WithoutFields {
        fn open(
            &self,
            attr: &Attr,
            target: EventTarget,
            leader: Option<&dyn EventFile>,
        ) -> Result<Box<dyn EventFile>, Errno> {
            if attr.kind == PERF_TYPE_TRACEPOINT {
                Err(Errno::PERM)
            } else {
                crate::open::System.open(attr, target, leader)
            }
        }
    }

    #[test]
    fn a_filter_is_not_blamed_for_the_kernels_refusal() {
        let probe = AccessProbe { kernel: &WithoutFields, seccomp_filter: true };
        if probe.own_user().is_ok() {
            assert_eq!(probe.tracepoint_fields(1), Err(Refusal::Forbidden));
        } else {
            println!("skipped: this user can't open a software event");
        }
    }

    /// Software events need no hardware, so the running kernel doesn't lack them.
    #[test]
    fn the_running_kernel_opens_software_events() {
        let rights = crate::host::Host::default().rights().unwrap();
        let probe = AccessProbe::new(&crate::open::System, Some(&rights));
        if rights.has(crate::host::CapabilitySet::PERFMON) {
            assert_eq!(
                (probe.own_user(), probe.own_kernel(), probe.system_wide(0)),
                (Ok(()), Ok(()), Ok(()))
            );
        } else {
            assert_ne!(probe.own_user(), Err(Refusal::NoSuchEvent));
        }
    }
}
