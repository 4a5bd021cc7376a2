//! Asks the kernel whether it accepts an attribute, and falls back if it rejects an optional
//! feature.

use rustix::io::Errno;
use tare_events::{OpenError, Unavailable, is_kernel_only, restrict_to_user_mode};
use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, ReadFormat, Sampling as Sampled};
use tare_kernel::host::Host;
use tare_kernel::open::{EventFile, EventTarget, Kernel};

use super::attr::LBR_TERSE;
use super::{PlannedEvent, is_traced};
use crate::error::{NotTaken, PlanError};
use crate::warning::{Feature, Warning};

/// A feature that a kernel may lack, and the setting to remove without it.
struct FeatureFallback {
    lacks: Feature,
    applies: fn(&Attr) -> bool,
    without: fn(&mut Attr),
}

const WEIGHTS: u64 = abi::PERF_SAMPLE_WEIGHT_STRUCT as u64;
const OTHER_SIDE: Flags = Flags::EXCLUDE_GUEST.union(Flags::EXCLUDE_HOST);

/// The newest feature first: a kernel that lacks one usually lacks all newer ones, unless a
/// distribution or a PMU differs.
const STEPS: [FeatureFallback; 9] = [
    FeatureFallback {
        // Linux 6.19
        lacks: Feature::DeferredCallchains,
        applies: |attr| attr.flags.contains(Flags::DEFER_CALLCHAIN),
        without: |attr| attr.flags.remove(Flags::DEFER_CALLCHAIN),
    },
    FeatureFallback {
        // Linux 6.12
        lacks: Feature::GroupReadsInChildren,
        applies: |attr| {
            attr.flags.contains(Flags::INHERIT)
                && attr.sample_type & u64::from(abi::PERF_SAMPLE_READ) != 0
        },
        without: |attr| attr.flags.remove(Flags::INHERIT | Flags::INHERIT_STAT),
    },
    FeatureFallback {
        // Linux 6.0
        lacks: Feature::LostByEvent,
        applies: |attr| attr.read_format.contains(ReadFormat::LOST),
        without: |attr| attr.read_format.remove(ReadFormat::LOST),
    },
    FeatureFallback {
        // Linux 5.12
        lacks: Feature::BuildIdsInMappings,
        applies: |attr| attr.flags.contains(Flags::BUILD_ID),
        without: |attr| attr.flags.remove(Flags::BUILD_ID),
    },
    FeatureFallback {
        // Linux 5.12
        lacks: Feature::WeightStruct,
        applies: |attr| attr.sample_type & WEIGHTS != 0,
        without: |attr| {
            attr.sample_type = attr.sample_type & !WEIGHTS | u64::from(abi::PERF_SAMPLE_WEIGHT);
        },
    },
    FeatureFallback {
        // Linux 5.7 and 4.4
        lacks: Feature::TerseBranches,
        applies: |attr| attr.branch_sample_type & LBR_TERSE == LBR_TERSE,
        without: |attr| attr.branch_sample_type &= !LBR_TERSE,
    },
    FeatureFallback {
        // Linux 5.7
        lacks: Feature::Cgroups,
        applies: |attr| {
            attr.flags.contains(Flags::CGROUP)
                || attr.sample_type & u64::from(abi::PERF_SAMPLE_CGROUP) != 0
        },
        without: |attr| {
            attr.flags.remove(Flags::CGROUP);
            attr.sample_type &= !u64::from(abi::PERF_SAMPLE_CGROUP);
        },
    },
    FeatureFallback {
        // Linux 5.1
        lacks: Feature::KernelSymbols,
        applies: |attr| attr.flags.intersects(Flags::KSYMBOL | Flags::BPF_EVENT),
        without: |attr| attr.flags.remove(Flags::KSYMBOL | Flags::BPF_EVENT),
    },
    FeatureFallback {
        lacks: Feature::GuestsFromHost,
        applies: |attr| attr.flags.intersects(OTHER_SIDE) && !attr.flags.contains(OTHER_SIDE),
        without: |attr| attr.flags.remove(OTHER_SIDE),
    },
];

/// The requested feature to report if an attribute opens without it, and the function that removes
/// it.
type Blame = (NotTaken, fn(&mut Attr));

const ASKED: [Blame; 9] = [
    (NotTaken::Branches, |attr| {
        attr.sample_type &= !u64::from(abi::PERF_SAMPLE_BRANCH_STACK);
        attr.branch_sample_type = 0;
    }),
    (NotTaken::Clock, |attr| {
        attr.flags.remove(Flags::USE_CLOCKID);
        attr.clockid = 0;
    }),
    (NotTaken::Precision, |attr| attr.precise_ip = 0),
    (NotTaken::InterruptRegisters, |attr| {
        attr.sample_type &= !u64::from(abi::PERF_SAMPLE_REGS_INTR);
        attr.sample_regs_intr = 0;
    }),
    (NotTaken::PageSizes, |attr| {
        attr.sample_type &=
            !u64::from(abi::PERF_SAMPLE_DATA_PAGE_SIZE | abi::PERF_SAMPLE_CODE_PAGE_SIZE);
    }),
    (NotTaken::PhysicalAddresses, |attr| {
        attr.sample_type &= !u64::from(abi::PERF_SAMPLE_PHYS_ADDR);
    }),
    (NotTaken::Namespaces, |attr| attr.flags.remove(Flags::NAMESPACES)),
    (NotTaken::Depth, |attr| attr.sample_max_stack = 0),
    (NotTaken::OnlyCounted, |attr| attr.sampling = Sampled::None),
];

/// Settles attributes with the kernel, event by event. A feature that the kernel lacks for one
/// event is removed from all later ones.
pub(super) struct Settler<'a> {
    kernel: &'a dyn Kernel,
    host: &'a Host,
    per_cpu: bool,
    /// Features that the kernel lacks: indexes into [`STEPS`].
    taken: Vec<usize>,
    pub(super) warnings: Vec<Warning>,
}

impl<'a> Settler<'a> {
    pub(super) fn new(kernel: &'a dyn Kernel, host: &'a Host, per_cpu: bool) -> Self {
        Self { kernel, host, per_cpu, taken: Vec::new(), warnings: Vec::new() }
    }

    /// Settles all members of a group, and splits a weak group that the kernel rejects.
    pub(super) fn group(
        &mut self,
        members: &mut [PlannedEvent],
        weak: bool,
    ) -> Result<(), PlanError> {
        let mut open: Vec<Box<dyn EventFile>> = Vec::new();
        for index in 0..members.len() {
            let leader = open.first().map(Box::as_ref);
            match self.event(&mut members[index], leader) {
                Ok(file) => open.push(file),
                Err(_) if weak && index > 0 => {
                    let leader = members[0].event.name.clone();
                    self.warnings.push(Warning::WeakGroupSplit { leader });
                    drop(open);
                    for member in members {
                        member.leader = None;
                        self.event(member, None)?;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn event(
        &mut self,
        planned: &mut PlannedEvent,
        leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, PlanError> {
        for step in self.taken.iter().map(|&number| &STEPS[number]) {
            if (step.applies)(&planned.attr) {
                (step.without)(&mut planned.attr);
            }
        }
        loop {
            let errno = match self.open(planned, &planned.attr, leader) {
                Ok(file) => return Ok(file),
                Err(errno) => errno,
            };
            let refused = matches!(errno, Errno::INVAL | Errno::TOOBIG | Errno::OPNOTSUPP);
            if matches!(errno, Errno::ACCESS | Errno::PERM) && self.restrict_to_user(planned) {
                continue;
            }
            if let Some(number) = refused.then(|| self.sufficient_step(planned, leader)).flatten() {
                self.take(number, planned);
            } else if planned.event.precise_max
                && planned.attr.precise_ip > 0
                && (refused || errno == Errno::NOENT)
            {
                planned.attr.precise_ip -= 1;
            } else if let Some(number) = refused
                .then(|| STEPS.iter().position(|step| (step.applies)(&planned.attr)))
                .flatten()
            {
                self.take(number, planned);
            } else {
                return Err(self.refusal(planned, errno, leader));
            }
        }
    }

    /// Opens an event for a test. A tracepoint or probe is replaced by an event that never occurs,
    /// because closing the last event of a tracepoint waits for all CPUs.
    fn open(
        &self,
        planned: &PlannedEvent,
        attr: &Attr,
        leader: Option<&dyn EventFile>,
    ) -> Result<Box<dyn EventFile>, Errno> {
        let cpu = planned.cpus.as_slice().first().copied().unwrap_or(0);
        let target =
            if self.per_cpu { EventTarget::Cpu(cpu) } else { EventTarget::TaskOnCpu(0, cpu) };
        if is_traced(&planned.event) {
            let kind = abi::PERF_TYPE_SOFTWARE;
            let config = abi::PERF_COUNT_SW_DUMMY.into();
            let stand_in =
                Attr { kind, config, config1: 0, config2: 0, uprobe_path: None, ..attr.clone() };
            return self.kernel.open(&stand_in, target, leader);
        }
        self.kernel.open(attr, target, leader)
    }

    /// Returns the first fallback with which alone the event opens.
    fn sufficient_step(
        &self,
        planned: &PlannedEvent,
        leader: Option<&dyn EventFile>,
    ) -> Option<usize> {
        let opens = |step: &FeatureFallback| {
            let mut attr = planned.attr.clone();
            (step.without)(&mut attr);
            self.open(planned, &attr, leader).is_ok()
        };
        STEPS.iter().position(|step| (step.applies)(&planned.attr) && opens(step))
    }

    fn take(&mut self, number: usize, planned: &mut PlannedEvent) {
        let step = &STEPS[number];
        (step.without)(&mut planned.attr);
        if !self.taken.contains(&number) {
            self.taken.push(number);
            self.warnings.push(Warning::KernelLacks(step.lacks));
        }
    }

    /// Restricts an event to user space, unless the user requested the kernel. Returns whether that
    /// can help.
    fn restrict_to_user(&mut self, planned: &mut PlannedEvent) -> bool {
        let Some(user) =
            restrict_to_user_mode(&planned.event).filter(|_| !is_kernel_only(&planned.event.attr))
        else {
            return false;
        };
        planned.attr.flags |= user.attr.flags & (Flags::EXCLUDE_KERNEL | Flags::EXCLUDE_HV);
        planned.event = user;
        let paranoid = self.host.sysctl("kernel.perf_event_paranoid").ok();
        let warning = Warning::UserSpaceOnly { paranoid };
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
        true
    }

    /// Finds out why an event can't be recorded, by removing requested features.
    fn refusal(
        &self,
        planned: &PlannedEvent,
        errno: Errno,
        leader: Option<&dyn EventFile>,
    ) -> PlanError {
        let event = || planned.event.name.clone();
        let failed = |reason| PlanError::NotTaken { event: event(), reason };
        for (why, without) in ASKED {
            let mut attr = planned.attr.clone();
            without(&mut attr);
            if attr != planned.attr && self.open(planned, &attr, leader).is_ok() {
                return failed(why);
            }
        }
        if leader.is_some() && self.open(planned, &planned.attr, None).is_ok() {
            return failed(NotTaken::Group);
        }
        match Unavailable::from_errno(errno, &planned.event, self.per_cpu) {
            Some(reason) => failed(NotTaken::Unavailable(reason)),
            None if matches!(errno, Errno::ACCESS | Errno::PERM) => {
                let per_cpu = self.per_cpu;
                // Events are tried on the recorder's own thread.
                let task = (!per_cpu).then_some(0);
                OpenError::NotPermitted { event: event(), per_cpu, task, errno }.into()
            }
            None => failed(NotTaken::Kernel(errno)),
        }
    }
}
