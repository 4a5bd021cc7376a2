//! Asks the kernel whether it counts an event, by opening it.

use crate::is_kernel_only;
use crate::{Event, PmuCpus, Sources, parse};
use rustix::io::Errno;
use tare_format::abi::bindings::{PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW};
use tare_format::abi::{Attr, Flags};
use tare_kernel::host::Host;
use tare_kernel::open::{EventTarget, Kernel};

/// Whether an event can be counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Why the event can't be counted; `None` if it can.
    pub(super) lacks: Option<String>,
    /// A restriction on counting it.
    pub(super) note: Option<&'static str>,
}

/// Tries to open events, and explains refusals.
pub(super) struct EventProbe<'a> {
    kernel: &'a dyn Kernel,
    host: &'a Host,
    pub(super) sources: &'a Sources,
}

impl<'a> EventProbe<'a> {
    pub(super) fn new(kernel: &'a dyn Kernel, host: &'a Host, sources: &'a Sources) -> Self {
        Self { kernel, host, sources }
    }

    /// Tries the event of this name. If it stands for events of several PMUs, one that can be
    /// counted is enough.
    pub(super) fn try_name(&self, name: &str) -> Answer {
        match parse(name, self.sources) {
            Ok(groups) => {
                let answers = groups
                    .iter()
                    .flat_map(|group| &group.events)
                    .map(|event| self.try_event(event));
                answers.reduce(|a, b| if a.lacks.is_none() { a } else { b }).unwrap_or_default()
            }
            Err(error) => Answer { lacks: Some(error.problem.to_string()), note: None },
        }
    }

    fn try_event(&self, event: &Event) -> Answer {
        let target = match &event.cpus {
            Some(PmuCpus::OnePerPackage(cpus)) => {
                EventTarget::Cpu(cpus.as_slice().first().copied().unwrap_or(0))
            }
            _ => EventTarget::Task(0),
        };
        let open = |attr: &Attr| self.kernel.open(attr, target, None).map(drop);
        let refused = match open(&event.attr) {
            Ok(()) => return Answer::default(),
            // Without permission for the kernel, the errno for user space alone tells more.
            Err(Errno::ACCESS | Errno::PERM) => match open(&user_space_only(&event.attr)) {
                Ok(()) if is_kernel_only(&event.attr) => {
                    return Answer {
                        lacks: Some(format!("it happens in the kernel, {}", self.closed())),
                        note: None,
                    };
                }
                Ok(()) => {
                    return Answer { lacks: None, note: Some("in user space only, for this user") };
                }
                Err(errno) => errno,
            },
            Err(errno) => errno,
        };
        if refused == Errno::INVAL {
            return Answer {
                lacks: None,
                note: Some("not alone: the kernel requires a group, or more terms"),
            };
        }
        Answer { lacks: Some(self.reason(refused, &event.attr)), note: None }
    }

    fn reason(&self, errno: Errno, attr: &Attr) -> String {
        let is_core_event =
            matches!(attr.kind, PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE | PERF_TYPE_RAW);
        match errno {
            Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV
                if is_core_event && self.sources.cores().is_empty() =>
            {
                self.no_cores()
            }
            Errno::NOENT => "this machine's PMU does not count it".to_owned(),
            Errno::OPNOTSUPP | Errno::NODEV | Errno::NXIO => {
                "the hardware or the kernel does not support it".to_owned()
            }
            Errno::ACCESS | Errno::PERM => self.closed(),
            Errno::NOSYS => {
                "this kernel has no perf events (CONFIG_PERF_EVENTS), or a sandbox hides them"
                    .to_owned()
            }
            Errno::MFILE | Errno::NFILE => "too many open files: raise `ulimit -n`".to_owned(),
            other => format!("the kernel refuses it: {other}"),
        }
    }

    /// States that the user lacks permission, and how to get it.
    fn closed(&self) -> String {
        let level = self
            .host
            .read("/proc/sys/kernel/perf_event_paranoid")
            .map_or(String::new(), |level| format!(" (perf_event_paranoid is {level})"));
        format!("not permitted to this user{level}: `tare doctor` shows how to permit it")
    }

    /// Why no event of the CPU's counters is available.
    pub(super) fn no_cores(&self) -> String {
        "the kernel sees no PMU of the CPU: most VMs have none".to_owned()
    }
}

fn user_space_only(attr: &Attr) -> Attr {
    Attr { flags: attr.flags | Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV, ..attr.clone() }
}
