//! Opens events on a scope, starts, stops and reads them.

use std::ffi::CString;

use rustix::io::Errno;
use tare_format::abi::{Attr, Flags, ReadFormat, Reading};
use tare_kernel::open::{EventFile, EventTarget, Kernel};

use super::{Cgroup, Location, Scope, Snapshot};
use tare_events::{
    Event, EventGroup, OpenError, Unavailable, is_cpu_pmu, is_kernel_only, restrict_to_user_mode,
};

/// Every count is read with its enabled and running times.
const READ_FORMAT: ReadFormat =
    ReadFormat::TOTAL_TIME_ENABLED.union(ReadFormat::TOTAL_TIME_RUNNING);

/// When events start counting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the task's next execve (`enable_on_exec`). On CPUs and in cgroups like `WhenEnabled`.
    OnExec,
    /// At [`Counters::enable`].
    WhenEnabled,
}

/// Whether a task's children are counted. [`Event::inherit`] overrides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inheritance {
    /// Children and new threads are counted.
    Children,
    /// Only the task is counted.
    None,
}

/// How events are opened.
#[derive(Clone, Copy, Debug)]
pub struct CounterOptions {
    /// When counting starts.
    pub start: Start,
    /// Whether children are counted.
    pub inheritance: Inheritance,
    /// Makes an event that this user may not count unavailable, instead of failing. For default
    /// events, which the user didn't request by name, and while planning `--exact`.
    pub leave_out_forbidden: bool,
    /// The machine is known to have no CPU PMU: generic, cache and raw events aren't tried, which
    /// saves their system calls.
    pub no_cpu_pmu: bool,
    /// Pins groups to their counters: they count all the time, or reading them fails.
    pub pinned: bool,
}

/// An event with the cgroup in which it is counted.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The event as it was opened: without permission for the kernel in user mode only, and without
    /// guest and host exclusion if the kernel refuses it.
    pub event: Event,
    /// The name of the cgroup in [`Scope::Cgroups`]; `None` for all tasks and in other scopes.
    pub cgroup: Option<String>,
}

/// An event of a measurement. For each location it has a descriptor, or the reason for lacking one.
#[derive(Debug)]
pub struct Counter {
    /// The event and its cgroup.
    pub subject: Subject,
    /// The attributes last built for the kernel. It may have refused them; without a CPU PMU they
    /// may not have been tried.
    pub attr: Attr,
    files: Vec<OpenedFile>,
}

#[derive(Debug)]
struct OpenedFile {
    at: Location,
    file: Result<Box<dyn EventFile>, Unavailable>,
    leads: bool,
}

impl Counter {
    /// Returns the locations of the event, in result order.
    pub fn locations(&self) -> impl Iterator<Item = Location> {
        self.files.iter().map(|opened| opened.at)
    }

    /// Returns the reason why it is open on no location, which is that of the first location;
    /// `None` if it is open on one.
    #[must_use]
    pub fn unavailable(&self) -> Option<Unavailable> {
        if self.files.is_empty() {
            return Some(Unavailable::OtherCpus);
        }
        self.files
            .iter()
            .map(|opened| opened.file.as_ref().err().copied())
            .collect::<Option<Vec<_>>>()
            .map(|reasons| reasons[0])
    }
}

/// All events of a measurement, opened where possible. Dropping them closes them.
#[derive(Debug, Default)]
pub struct Counters {
    counters: Vec<Counter>,
}

/// Returns the number of descriptors that [`Counters::open`] uses if every event opens: one per
/// event and location of its group's leader.
#[must_use]
pub fn needed_files(groups: &[EventGroup], scope: &Scope) -> usize {
    let locations = |copy, (number, group): (usize, &EventGroup)| {
        let at = group
            .events
            .first()
            .map_or(0, |leader| scope.locations(leader, scope.cgroup(copy, number)).len());
        at * group.events.len()
    };
    (0..scope.copies())
        .map(|copy| groups.iter().enumerate().map(|group| locations(copy, group)).sum::<usize>())
        .sum()
}

impl Counters {
    /// Opens every group on every location of its leader, disabled. If the kernel refuses a weak
    /// group, its events are opened one by one.
    ///
    /// # Errors
    /// See [`OpenError`]. An unavailable event isn't an error: [`Counter::unavailable`] returns the
    /// reason.
    pub fn open(
        kernel: &dyn Kernel,
        groups: &[EventGroup],
        scope: &Scope,
        options: CounterOptions,
    ) -> Result<Self, OpenError> {
        let needed = needed_files(groups, scope);
        let mut opener = GroupOpener { kernel, scope, options, needed, opened: 0 };
        let mut counters = Vec::new();
        for copy in 0..scope.copies() {
            for (number, group) in groups.iter().enumerate() {
                let cgroup = scope.cgroup(copy, number);
                let mut members = opener.open(group, cgroup)?;
                if group.weak
                    && members
                        .iter()
                        .any(|member| member.unavailable() == Some(Unavailable::Refused))
                {
                    members.clear();
                    for event in &group.events {
                        members.extend(opener.open(
                            &EventGroup { events: vec![event.clone()], ..EventGroup::default() },
                            cgroup,
                        )?);
                    }
                }
                counters.extend(members);
            }
        }
        Ok(Self { counters })
    }

    /// The events, in result order.
    #[must_use]
    pub fn as_slice(&self) -> &[Counter] {
        &self.counters
    }

    fn leaders(&self) -> impl Iterator<Item = &dyn EventFile> {
        let locations = self.counters.iter().flat_map(|counter| &counter.files);
        locations.filter(|place| place.leads).filter_map(|opened| opened.file.as_deref().ok())
    }

    /// Starts counting on all locations.
    ///
    /// # Errors
    /// Fails if the kernel refuses to enable an event.
    pub fn enable(&self) -> Result<(), Errno> {
        self.leaders().try_for_each(EventFile::enable)
    }

    /// Stops counting on all locations.
    ///
    /// # Errors
    /// Fails if the kernel refuses to disable an event.
    pub fn disable(&self) -> Result<(), Errno> {
        self.leaders().try_for_each(EventFile::disable)
    }

    /// Reads the counts. The count of an event that isn't open, or can't be read (a pinned one
    /// without a counter), is `None`.
    #[must_use]
    pub fn read(&self) -> Snapshot {
        let read = |file: &dyn EventFile| {
            let mut bytes = [0; 64];
            let len = file.read(&mut bytes).ok()?;
            Reading::decode(bytes.get(..len)?, READ_FORMAT).ok()?.counts.first().copied()
        };
        let locations = |counter: &Counter| {
            counter.files.iter().map(|place| read(place.file.as_deref().ok()?)).collect()
        };
        Snapshot(self.counters.iter().map(locations).collect())
    }
}

/// Opens groups, and counts their descriptors.
struct GroupOpener<'a> {
    kernel: &'a dyn Kernel,
    scope: &'a Scope,
    options: CounterOptions,
    /// Descriptors that all groups need.
    needed: usize,
    /// Descriptors opened so far, including those of refused weak groups, which are closed again.
    opened: usize,
}

impl GroupOpener<'_> {
    /// Opens a group on every location of its leader.
    fn open(
        &mut self,
        group: &EventGroup,
        cgroup: Option<&Cgroup>,
    ) -> Result<Vec<Counter>, OpenError> {
        let name = cgroup.map(|cgroup| cgroup.name.clone());
        let counter = |event: &Event| Counter {
            subject: Subject { event: event.clone(), cgroup: name.clone() },
            attr: event.attr.clone(),
            files: Vec::new(),
        };
        let mut members: Vec<Counter> = group.events.iter().map(counter).collect();
        let Some(leader) = group.events.first() else { return Ok(members) };
        let locations = self.scope.locations(leader, cgroup);
        let several = locations.len() > 1;
        for (at, target) in locations {
            match self.open_at(&mut members, at, target) {
                // The thread exited after the threads were listed.
                Err(OpenError::NoSuchTask(_)) if several => members
                    .iter_mut()
                    .for_each(|member| member.files.retain(|opened| opened.at != at)),
                result => result?,
            }
        }
        match self.scope {
            Scope::Tasks(tids) if members[0].files.is_empty() => {
                Err(OpenError::NoSuchTask(tids.first().copied().unwrap_or(0)))
            }
            _ => Ok(members),
        }
    }

    /// Opens every member of a group on a location. The first that opens is the leader.
    fn open_at(
        &mut self,
        members: &mut [Counter],
        at: Location,
        target: EventTarget,
    ) -> Result<(), OpenError> {
        let mut leader = None;
        for index in 0..members.len() {
            let file = self.open_event(members, index, leader, target)?;
            let leads = leader.is_none() && file.is_ok();
            members[index].files.push(OpenedFile { at, file, leads });
            leader = leader.or(leads.then_some(index));
        }
        Ok(())
    }

    /// Opens an event on a location. If the kernel refuses, retries without guest and host
    /// exclusion, or in user mode only, unless the user selected levels.
    fn open_event(
        &mut self,
        members: &mut [Counter],
        index: usize,
        leader: Option<usize>,
        target: EventTarget,
    ) -> Result<Result<Box<dyn EventFile>, Unavailable>, OpenError> {
        let per_cpu = self.scope.is_per_cpu();
        if self.options.no_cpu_pmu && is_cpu_pmu(&members[index].subject.event.attr) {
            members[index].attr = self.build_attr(&members[index].subject.event, leader.is_none());
            return Ok(Err(Unavailable::NoPmu));
        }
        loop {
            let (before, rest) = members.split_at_mut(index);
            let leader =
                leader.and_then(|leader| before[leader].files.last()?.file.as_deref().ok());
            let Counter { subject: Subject { event, .. }, attr, .. } = &mut rest[0];
            *attr = self.build_attr(event, leader.is_none());
            let errno = match self.kernel.open(attr, target, leader) {
                Ok(file) => {
                    self.opened += 1;
                    set_filter(file.as_ref(), event)?;
                    return Ok(Ok(file));
                }
                Err(errno) => errno,
            };
            let forbidden = matches!(errno, Errno::ACCESS | Errno::PERM);
            if errno == Errno::INVAL
                && !event.explicit_levels
                && event.attr.flags.intersects(Flags::EXCLUDE_GUEST | Flags::EXCLUDE_HOST)
            {
                event.attr.flags.remove(Flags::EXCLUDE_GUEST | Flags::EXCLUDE_HOST);
            } else if let Some(user) = forbidden.then(|| restrict_to_user_mode(event)).flatten() {
                if is_kernel_only(&event.attr) {
                    return Ok(Err(Unavailable::KernelOnly));
                }
                *event = user;
            } else {
                return self.classify_refusal(event, errno, target, per_cpu).map(Err);
            }
        }
    }

    /// Classifies a refusal: either this event is unavailable, or counting fails.
    fn classify_refusal(
        &self,
        event: &Event,
        errno: Errno,
        target: EventTarget,
        per_cpu: bool,
    ) -> Result<Unavailable, OpenError> {
        if let Some(reason) = Unavailable::from_errno(errno, event, per_cpu) {
            return Ok(reason);
        }
        if self.options.leave_out_forbidden && matches!(errno, Errno::ACCESS | Errno::PERM) {
            return Ok(Unavailable::NotPermitted);
        }
        Err(OpenError::from_errno(errno, &event.name, target, self.opened, self.needed))
    }

    /// Completes an event's attribute by the scope and the options.
    fn build_attr(&self, event: &Event, leads: bool) -> Attr {
        let mut attr = event.attr.clone();
        attr.read_format = READ_FORMAT;
        // x86 kernels refuse precision on counting events (`x86_pmu_hw_config`).
        attr.precise_ip = 0;
        // Members start and stop with their leader.
        attr.flags.set(Flags::DISABLED, leads);
        let task = !self.scope.is_per_cpu();
        attr.flags.set(Flags::ENABLE_ON_EXEC, leads && task && self.options.start == Start::OnExec);
        let inherits = event.inherit.unwrap_or(self.options.inheritance == Inheritance::Children);
        attr.flags.set(Flags::INHERIT, task && inherits);
        if leads && self.options.pinned {
            attr.flags |= Flags::PINNED;
        }
        attr
    }
}

fn set_filter(file: &dyn EventFile, event: &Event) -> Result<(), OpenError> {
    let Some(filter) = &event.filter else { return Ok(()) };
    let refused =
        |errno| OpenError::Filter { event: event.name.clone(), filter: filter.clone(), errno };
    let text = CString::new(filter.as_str()).map_err(|_| refused(Errno::INVAL))?;
    file.set_filter(&text).map_err(refused)
}
