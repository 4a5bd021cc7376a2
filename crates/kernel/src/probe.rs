//! What events this process may open, found by asking the kernel: the answer holds distributions'
//! patches, seccomp filters and security modules as well, which no setting tells.

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
    /// There is no such event: `ENOENT`, `EOPNOTSUPP`, `ENODEV`. For `cycles`: no PMU.
    NoSuchEvent,
    /// The paranoid level or a security module forbids it: `EACCES`, or `EPERM` without a seccomp
    /// filter.
    Forbidden,
    /// A seccomp filter forbids the call itself: `EPERM` with one on this process.
    Seccomp,
    /// The kernel has no events at all: `ENOSYS`.
    NoEvents,
    /// No file descriptor is left: `EMFILE`, `ENFILE`.
    NoFiles,
    /// Something else.
    Other(Errno),
}

/// Whether an event opens.
pub type ProbeAnswer = Result<(), Refusal>;

/// Asks with events that are opened, never enabled, and closed.
#[derive(Clone, Copy)]
pub struct AccessProbe<'a> {
    /// Whom to ask.
    pub kernel: &'a dyn Kernel,
    /// Whether a seccomp filter sits on this process.
    pub seccomp_filter: bool,
}

impl<'a> AccessProbe<'a> {
    /// A probe for a process with these rights.
    #[must_use]
    pub fn new(kernel: &'a dyn Kernel, rights: Option<&Rights>) -> Self {
        Self {
            kernel,
            seccomp_filter: rights.is_some_and(|rights| rights.seccomp_filter == Some(true)),
        }
    }

    /// Software events of an own thread, in user mode.
    pub fn own_user(&self) -> ProbeAnswer {
        self.ask(&software(PERF_COUNT_SW_PAGE_FAULTS.into(), USER_ONLY), MYSELF)
    }

    /// Software events of an own thread, in the kernel too.
    pub fn own_kernel(&self) -> ProbeAnswer {
        self.ask(&software(PERF_COUNT_SW_PAGE_FAULTS.into(), Flags::empty()), MYSELF)
    }

    /// `cycles` of an own thread, in user mode: whether the machine has a PMU.
    pub fn cycles(&self) -> ProbeAnswer {
        let config = PERF_COUNT_HW_CPU_CYCLES.into();
        self.ask(
            &Attr {
                kind: PERF_TYPE_HARDWARE,
                config,
                flags: USER_ONLY | Flags::DISABLED,
                ..Attr::default()
            },
            MYSELF,
        )
    }

    /// Everything that runs on this CPU.
    pub fn system_wide(&self, cpu: u32) -> ProbeAnswer {
        self.ask(&software(PERF_COUNT_SW_DUMMY.into(), Flags::empty()), EventTarget::Cpu(cpu))
    }

    /// A cgroup on this CPU, by its open folder.
    pub fn cgroup(&self, folder: std::os::fd::BorrowedFd<'_>, cpu: u32) -> ProbeAnswer {
        let folder = std::os::fd::AsRawFd::as_raw_fd(&folder);
        self.ask(
            &software(PERF_COUNT_SW_DUMMY.into(), Flags::empty()),
            EventTarget::CgroupOnCpu(folder, cpu),
        )
    }

    /// The fields of a tracepoint of an own thread, by its number in tracefs.
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
        // The kernel itself answers EPERM here; a seccomp filter can't see which event is asked
        // for, so it would refuse any.
        let filtered = |why| why == Refusal::Seccomp && self.own_user().is_ok();
        self.ask(&attr, MYSELF).map_err(|why| if filtered(why) { Refusal::Forbidden } else { why })
    }

    fn ask(&self, attr: &Attr, target: EventTarget) -> ProbeAnswer {
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

    fn asked(errno: Errno, seccomp_filter: bool) -> Refusal {
        AccessProbe { kernel: &Refusing(errno), seccomp_filter }.cycles().unwrap_err()
    }

    #[test]
    fn refusals_are_told_apart() {
        assert_eq!(asked(Errno::NOENT, true), Refusal::NoSuchEvent);
        assert_eq!(asked(Errno::OPNOTSUPP, false), Refusal::NoSuchEvent);
        assert_eq!(asked(Errno::ACCESS, true), Refusal::Forbidden);
        assert_eq!(asked(Errno::PERM, true), Refusal::Seccomp);
        assert_eq!(asked(Errno::PERM, false), Refusal::Forbidden);
        assert_eq!(asked(Errno::NOSYS, false), Refusal::NoEvents);
        assert_eq!(asked(Errno::MFILE, false), Refusal::NoFiles);
        assert_eq!(asked(Errno::BUSY, false), Refusal::Other(Errno::BUSY));
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
    fn a_filter_is_not_blamed_for_what_the_kernel_forbids() {
        let probe = AccessProbe { kernel: &WithoutFields, seccomp_filter: true };
        if probe.own_user().is_ok() {
            assert_eq!(probe.tracepoint_fields(1), Err(Refusal::Forbidden));
        } else {
            println!("skipped: this user can't open a software event");
        }
    }

    /// Software events need no hardware: the running kernel opens them, or says why not.
    #[test]
    fn of_the_running_kernel() {
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
