//! Asks the kernel whether it counts an event, by opening it once.

use crate::is_kernel_only;
use crate::{Event, PmuCpus, Sources, parse};
use rustix::io::Errno;
use tare_format::abi::bindings::{PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE, PERF_TYPE_RAW};
use tare_format::abi::{Attr, Flags};
use tare_kernel::host::Host;
use tare_kernel::open::{EventTarget, Kernel};

/// What the kernel said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    /// Why it doesn't count it.
    pub(super) lacks: Option<String>,
    /// What to know about counting it.
    pub(super) note: Option<&'static str>,
}

/// A kernel to ask, and what explains its answers.
pub(super) struct Probe<'a> {
    kernel: &'a dyn Kernel,
    host: &'a Host,
    pub(super) sources: &'a Sources,
}

impl<'a> Probe<'a> {
    pub(super) fn new(kernel: &'a dyn Kernel, host: &'a Host, sources: &'a Sources) -> Self {
        Self { kernel, host, sources }
    }

    /// Whether an event with this name is counted: on a hybrid machine, by any kind of core.
    pub(super) fn name(&self, name: &str) -> Answer {
        match parse(name, self.sources) {
            Ok(groups) => {
                let answers =
                    groups.iter().flat_map(|group| &group.events).map(|event| self.event(event));
                answers.reduce(|a, b| if a.lacks.is_none() { a } else { b }).unwrap_or_default()
            }
            Err(error) => Answer { lacks: Some(error.problem.to_string()), note: None },
        }
    }

    fn event(&self, event: &Event) -> Answer {
        let target = match &event.cpus {
            Some(PmuCpus::OnePerPackage(cpus)) => {
                EventTarget::Cpu(cpus.as_slice().first().copied().unwrap_or(0))
            }
            _ => EventTarget::Task(0),
        };
        let open = |attr: &Attr| self.kernel.open(attr, target, None).map(drop);
        let refused = match open(&event.attr) {
            Ok(()) => return Answer::default(),
            // What the kernel says of user space alone is the better reason where it closes itself.
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
                note: Some("not alone: the kernel wants it in a group, or with more terms"),
            };
        }
        Answer { lacks: Some(self.reason(refused, &event.attr)), note: None }
    }

    fn reason(&self, errno: Errno, attr: &Attr) -> String {
        let of_cores = matches!(attr.kind, PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE | PERF_TYPE_RAW);
        match errno {
            Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV
                if of_cores && self.sources.cores().is_empty() =>
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
            other => format!("the kernel says: {other}"),
        }
    }

    fn closed(&self) -> String {
        let level = self
            .host
            .read("/proc/sys/kernel/perf_event_paranoid")
            .map_or(String::new(), |level| format!(" (perf_event_paranoid is {level})"));
        format!("not permitted to this user{level}: `tare doctor` says what lifts it")
    }

    /// Why there is nothing that the CPU's own counters would count.
    pub(super) fn no_cores(&self) -> String {
        "the kernel sees no PMU of the CPU: most VMs have none".to_owned()
    }
}

fn user_space_only(attr: &Attr) -> Attr {
    Attr { flags: attr.flags | Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV, ..attr.clone() }
}
