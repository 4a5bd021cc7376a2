//! Opens events at their targets, and maps one ring per CPU that all events of the CPU write into.
//!
//! ```text
//!            CPU 0            CPU 1
//! event 0    owns ring 0      owns ring 1
//! event 1    -> ring 0        -> ring 1        PERF_EVENT_IOC_SET_OUTPUT
//! ```
//! Events with overwritten rings (`write_backward`) share another ring per CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::CString;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::io::Errno;
use tare_events::OpenError;
use tare_format::abi::{Attr, Count, Flags, Reading, Sampling};
use tare_kernel::open::{EventFile, EventTarget, Kernel};
use tare_kernel::ring::{OverwrittenRing, Ring, RingError};

use super::EventToOpen;
use super::unswapped::unswapped;

/// An event, open at a target.
#[derive(Debug)]
pub(super) struct OpenEvent {
    pub(super) event: usize,
    /// Index of its frequency: 0 for the requested one, then the slower ones.
    pub(super) step: usize,
    cpu: u32,
    pub(super) target: EventTarget,
    pub(super) file: Box<dyn EventFile>,
    /// Whether the kernel dropped the event because its CPU went offline.
    pub(super) is_dropped: bool,
}

/// The changes of the periods of clocks so far (see `varied_period`).
#[derive(Debug, Default)]
pub(super) struct PeriodChanges {
    pub(super) number: u32,
    /// When the last one was made; `None` before the first flush.
    pub(super) last: Option<Instant>,
}

/// All open events. Dropping it closes them.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub(super) wanted: Vec<EventToOpen>,
    pub(super) opened: Vec<OpenEvent>,
    /// Index of the frequency that is in use. An event with fewer frequencies uses its last.
    pub(super) step: usize,
    /// Indexes of the enabled events.
    pub(super) enabled: BTreeSet<usize>,
    /// Events that are never enabled: see [`unswapped`].
    unswapped: Vec<Box<dyn EventFile>>,
    pub(super) period_changes: PeriodChanges,
}

/// The rings of all CPUs. Each has its CPU and the index of the open event that owns it, or
/// `usize::MAX` if BPF programs write it.
#[derive(Debug, Default)]
pub(crate) struct Rings {
    /// Rings that are drained as they fill.
    pub(crate) consumed: Vec<(u32, usize, Ring)>,
    /// Rings that the kernel overwrites. They are read for a snapshot.
    pub(crate) overwritten: Vec<(u32, usize, OverwrittenRing)>,
}

impl Rings {
    /// Bytes of the smallest ring.
    pub(crate) fn smallest(&self) -> usize {
        let consumed = self.consumed.iter().map(|(.., ring)| ring.size());
        consumed.chain(self.overwritten.iter().map(|(.., ring)| ring.size())).min().unwrap_or(0)
    }
}

/// Number of descriptors that [`Events::open`] uses if all targets exist.
pub(crate) fn needed_files(wanted: &[EventToOpen]) -> usize {
    wanted.iter().map(|wanted| wanted.targets.len() * (1 + wanted.slower.len())).sum::<usize>()
        + unswapped(wanted).len()
}

impl Events {
    /// Opens every event at each of its targets. Leaves out threads that have exited.
    ///
    /// # Errors
    /// See [`OpenError`]. Fails with [`OpenError::NoSuchTask`] if all threads have exited.
    pub(crate) fn open(kernel: &dyn Kernel, wanted: Vec<EventToOpen>) -> Result<Self, OpenError> {
        let needed = needed_files(&wanted);
        let mut opened: Vec<OpenEvent> = Vec::with_capacity(needed);
        let mut gone = BTreeSet::new();
        // Only events that lead groups get an entry per target: there may be 100,000 threads.
        let leads: BTreeSet<usize> = wanted.iter().filter_map(|wanted| wanted.leader).collect();
        let mut leaders = BTreeMap::new();
        for (event, step, attr, EventToOpen { name, leader, targets, .. }) in attrs(&wanted) {
            for &(cpu, target) in targets {
                let leader = leader.and_then(|leader| leaders.get(&(leader, target)));
                let leader = leader.and_then(|at: &usize| opened.get(*at)).map(|one| &*one.file);
                match kernel.open(&attr, target, leader) {
                    Ok(file) => {
                        if leads.contains(&event) {
                            leaders.entry((event, target)).or_insert(opened.len());
                        }
                        opened.push(OpenEvent {
                            event,
                            step,
                            cpu,
                            target,
                            file,
                            is_dropped: false,
                        });
                    }
                    Err(errno) => {
                        match OpenError::from_errno(errno, name, target, opened.len(), needed) {
                            OpenError::NoSuchTask(tid) => drop(gone.insert(tid)),
                            error => return Err(error),
                        }
                    }
                }
            }
        }
        opened.retain(|one| !matches!(one.target, EventTarget::Task(tid) | EventTarget::TaskOnCpu(tid, _) if gone.contains(&tid)));
        match gone.first() {
            Some(&tid) if opened.is_empty() => Err(OpenError::NoSuchTask(tid)),
            _ => {
                let unswapped = open_unswapped(kernel, &wanted, needed, opened.len())?;
                let events = Self { wanted, opened, unswapped, ..Self::default() };
                events.set_varied_periods(|_| true);
                Ok(events)
            }
        }
    }

    /// Maps a ring of `bytes`, or less if not all of it may be locked, for each CPU, and redirects
    /// the CPU's other events into it. Events with `write_backward` share a second one.
    ///
    /// # Errors
    /// See [`RingError`].
    pub(crate) fn rings(&self, bytes: usize) -> Result<Rings, RingError> {
        let mut owners: BTreeMap<(u32, bool), usize> = BTreeMap::new();
        let mut rings = Rings::default();
        for (at, opened) in self.opened.iter().enumerate() {
            let key = (opened.cpu, self.is_backward(opened));
            match owners.get(&key) {
                Some(&owner) => {
                    opened.file.set_output(&*self.opened[owner].file).map_err(RingError::Kernel)?;
                }
                None => {
                    match key {
                        (cpu, false) => {
                            rings.consumed.push((cpu, at, Ring::map(&*opened.file, bytes)?));
                        }
                        (cpu, true) => rings.overwritten.push((
                            cpu,
                            at,
                            OverwrittenRing::map(&*opened.file, bytes)?,
                        )),
                    }
                    owners.insert(key, at);
                }
            }
        }
        Ok(rings)
    }

    fn is_backward(&self, opened: &OpenEvent) -> bool {
        self.wanted[opened.event].attr.flags.contains(Flags::WRITE_BACKWARD)
    }

    /// Number of rings that [`Events::rings`] maps.
    pub(crate) fn number_of_rings(&self) -> usize {
        self.opened
            .iter()
            .map(|opened| (opened.cpu, self.is_backward(opened)))
            .collect::<BTreeSet<_>>()
            .len()
    }

    pub(crate) fn file(&self, at: usize) -> Option<&dyn EventFile> {
        self.opened.get(at).map(|opened| &*opened.file)
    }

    /// Returns the ids of each event.
    ///
    /// # Errors
    /// Fails if the kernel doesn't return an id.
    pub(crate) fn ids(&self) -> Result<Vec<Vec<u64>>, Errno> {
        let mut ids = vec![Vec::new(); self.wanted.len()];
        for opened in &self.opened {
            ids[opened.event].push(opened.file.id()?);
        }
        Ok(ids)
    }

    /// Sets each event's filter. The kernel accepts one filter per event.
    ///
    /// # Errors
    /// Fails with [`OpenError::Filter`] if the kernel rejects a filter.
    pub(crate) fn set_filters(&self, filters: &[Option<CString>]) -> Result<(), OpenError> {
        for opened in &self.opened {
            let Some(filter) = filters.get(opened.event).and_then(Option::as_ref) else { continue };
            let event = &self.wanted[opened.event].name;
            let text = filter.to_string_lossy();
            let refused = |errno| OpenError::Filter {
                event: event.clone(),
                filter: text.into_owned(),
                errno,
            };
            opened.file.set_filter(filter).map_err(refused)?;
        }
        Ok(())
    }

    /// Runs a program before each sample of the events with these indexes. Tracepoints and probes
    /// run none.
    ///
    /// # Errors
    /// Returns the kernel's error if none of the other events runs it.
    pub(crate) fn run_program(
        &self,
        program: BorrowedFd<'_>,
        which: &[usize],
    ) -> Result<(), Errno> {
        let chosen = self.opened.iter().filter(|opened| which.contains(&opened.event));
        let mut result = Err(Errno::NOENT);
        for opened in chosen {
            match opened.file.run_program(program) {
                Ok(()) | Err(Errno::EXIST) => result = Ok(()),
                Err(errno) => result = result.or(Err(errno)),
            }
        }
        result
    }

    pub(crate) fn number_of_files(&self) -> usize {
        self.opened.len() + self.unswapped.len()
    }

    /// Enables or disables the events whose index passes the test `which`.
    ///
    /// # Errors
    /// Fails if the kernel refuses to change an event.
    pub(crate) fn set_enabled(
        &mut self,
        enabled: bool,
        which: impl Fn(usize) -> bool,
    ) -> Result<(), Errno> {
        for event in (0..self.wanted.len()).filter(|event| which(*event)) {
            let _ = if enabled { self.enabled.insert(event) } else { self.enabled.remove(&event) };
        }
        let leads = |opened: &&OpenEvent| {
            self.wanted[opened.event].leader.is_none()
                && which(opened.event)
                && !opened.is_dropped
                && (!enabled || self.has_step(opened, self.step))
        };
        let mut chosen = self.opened.iter().filter(leads);
        chosen.try_for_each(
            |opened| if enabled { opened.file.enable() } else { opened.file.disable() },
        )
    }

    fn has_step(&self, opened: &OpenEvent, step: usize) -> bool {
        !opened.is_dropped && opened.step == step.min(self.wanted[opened.event].slower.len())
    }

    /// Switches all events to another of their frequencies. The change takes effect at once for
    /// enabled events.
    ///
    /// # Errors
    /// Fails if the kernel refuses to change an event.
    pub(crate) fn set_step(&mut self, step: usize) -> Result<(), Errno> {
        let before = std::mem::replace(&mut self.step, step);
        let changes = |opened: &&OpenEvent| {
            self.enabled.contains(&opened.event)
                && self.has_step(opened, before) != self.has_step(opened, step)
        };
        for opened in
            self.opened.iter().filter(changes).filter(|opened| self.has_step(opened, before))
        {
            opened.file.disable()?;
        }
        self.opened
            .iter()
            .filter(changes)
            .filter(|opened| self.has_step(opened, step))
            .try_for_each(|opened| opened.file.enable())
    }

    /// Number of lost samples of each event, if the kernel counts them (`PERF_FORMAT_LOST`, Linux
    /// 6.0).
    pub(crate) fn lost(&self) -> Vec<Option<u64>> {
        let mut lost = vec![None; self.wanted.len()];
        for opened in &self.opened {
            if let Some(number) =
                self.reading_of(opened).and_then(|(reading, nth)| reading.lost.get(nth).copied())
            {
                *lost[opened.event].get_or_insert(0) += number;
            }
        }
        lost
    }

    /// Total count of each event, scaled if it shared a counter. A thread has one event per CPU:
    /// while the thread runs, all of them are enabled, but only the current CPU's is running.
    pub(crate) fn counts(&self) -> Vec<Option<u64>> {
        let mut sums: BTreeMap<(usize, EventTarget), (u64, u64, u64)> = BTreeMap::new();
        for opened in &self.opened {
            let Some(count) = self.count_of(opened) else { continue };
            let whose = if let EventTarget::TaskOnCpu(tid, _) = opened.target {
                EventTarget::Task(tid)
            } else {
                opened.target
            };
            let (value, enabled, running) = sums.entry((opened.event, whose)).or_default();
            (*value, *running) =
                (value.saturating_add(count.value()), running.saturating_add(count.running_ns()));
            *enabled = count.enabled_ns().max(*enabled).max(*running);
        }
        let mut counts = vec![None; self.wanted.len()];
        for ((event, _), (value, enabled, running)) in sums {
            if let Some(count) = scaled(Count::new(value, enabled, running)) {
                *counts[event].get_or_insert(0) += count;
            }
        }
        counts
    }

    pub(super) fn count_of(&self, opened: &OpenEvent) -> Option<Count> {
        let (reading, nth) = self.reading_of(opened)?;
        reading.counts.get(nth).copied()
    }

    /// Reads an event. In a group, one read returns the values of all members; the second result is
    /// this event's position among them.
    fn reading_of(&self, opened: &OpenEvent) -> Option<(Reading, usize)> {
        let mut bytes = vec![0; 8 * (3 + 3 * self.wanted.len())];
        let len = opened.file.read(&mut bytes).ok()?;
        let reading =
            Reading::decode(bytes.get(..len)?, self.wanted[opened.event].attr.read_format).ok()?;
        let leader = self.wanted[opened.event].leader.unwrap_or(opened.event);
        let nth = (leader..opened.event)
            .filter(|&event| event == leader || self.wanted[event].leader == Some(leader))
            .count();
        let nth = if reading.counts.len() > 1 { nth } else { 0 };
        Some((reading, nth))
    }
}

/// The attributes to open at each target, the requested rate first: index of the event, index of
/// its frequency, attribute.
fn attrs(wanted: &[EventToOpen]) -> impl Iterator<Item = (usize, usize, Attr, &EventToOpen)> {
    wanted.iter().enumerate().flat_map(|(event, of)| {
        let slower = of
            .slower
            .iter()
            .map(|&hz| Attr { sampling: Sampling::Frequency(hz), ..of.attr.clone() });
        std::iter::once(of.attr.clone())
            .chain(slower)
            .enumerate()
            .map(move |(step, attr)| (event, step, attr, of))
    })
}

/// Extrapolates a count to all of its enabled time; `None` if it never ran.
fn scaled(count: Count) -> Option<u64> {
    let whole = u128::from(count.value()) * u128::from(count.enabled_ns());
    whole
        .checked_div(count.running_ns().into())
        .map(|scaled| u64::try_from(scaled).unwrap_or(u64::MAX))
}

fn open_unswapped(
    kernel: &dyn Kernel,
    wanted: &[EventToOpen],
    needed: usize,
    opened: usize,
) -> Result<Vec<Box<dyn EventFile>>, OpenError> {
    let mut files = Vec::new();
    for (name, attr, target) in unswapped(wanted) {
        match kernel.open(&attr, target, None) {
            Ok(file) => files.push(file),
            Err(Errno::SRCH) => {}
            Err(errno) => {
                return Err(OpenError::from_errno(
                    errno,
                    &name,
                    target,
                    opened + files.len(),
                    needed,
                ));
            }
        }
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use tare_kernel::fake::{Scripted, ScriptedAnswer};

    use super::*;

    fn wanted(name: &str, config: u64, targets: &[(u32, EventTarget)]) -> EventToOpen {
        EventToOpen {
            name: name.to_owned(),
            attr: Attr { config, ..Attr::default() },
            slower: Vec::new(),
            leader: None,
            targets: targets.to_vec(),
        }
    }

    /// Two events of two tasks on two CPUs each.
    fn of_tasks() -> Vec<EventToOpen> {
        let targets: Vec<_> = [7, 8]
            .iter()
            .flat_map(|&tid| [0, 1].map(|cpu| (cpu, EventTarget::TaskOnCpu(tid, cpu))))
            .collect();
        vec![wanted("first", 1, &targets), wanted("second", 2, &targets)]
    }

    fn refuses(which: fn(&Attr, EventTarget) -> bool, error: Errno) -> Scripted {
        Scripted::new().rule(which, ScriptedAnswer::Refuse(error))
    }

    #[test]
    fn errors_name_the_refused_event_and_the_reason() {
        let second = |attr: &Attr, _: EventTarget| attr.config == 2;
        let error = |errno| Events::open(&refuses(second, errno), of_tasks()).unwrap_err();
        assert!(
            matches!(error(Errno::PERM), OpenError::NotPermitted { event, task: Some(_), errno: Errno::PERM, .. } if event == "second")
        );
        assert!(matches!(
            error(Errno::ACCESS),
            OpenError::NotPermitted { errno: Errno::ACCESS, .. }
        ));
        assert!(
            matches!(error(Errno::NODEV), OpenError::Other { event, errno: Errno::NODEV } if event == "second")
        );
        let of_cpus = vec![wanted("all", 2, &[(0, EventTarget::Cpu(0))])];
        let whole = Events::open(&refuses(second, Errno::ACCESS), of_cpus).unwrap_err();
        assert!(matches!(whole, OpenError::NotPermitted { per_cpu: true, .. }));
        let few = Events::open(&Scripted::new().files(5), of_tasks()).unwrap_err();
        assert!(matches!(few, OpenError::TooManyFiles { needed: 8, opened: 5 }));
    }

    #[test]
    fn a_task_that_ended_is_left_out_with_all_its_events() {
        let gone = |attr: &Attr, target: EventTarget| {
            attr.config == 2 && matches!(target, EventTarget::TaskOnCpu(8, _))
        };
        let events = Events::open(&refuses(gone, Errno::SRCH), of_tasks()).unwrap();
        assert_eq!(events.number_of_files(), 4);
        assert!(
            events
                .opened
                .iter()
                .all(|opened| matches!(opened.target, EventTarget::TaskOnCpu(7, _)))
        );
        let all = Events::open(&refuses(|_, _| true, Errno::SRCH), of_tasks()).unwrap_err();
        assert!(matches!(all, OpenError::NoSuchTask(7)));
    }

    #[test]
    fn a_cpu_has_one_ring_that_is_halved_until_it_may_be_locked() {
        let kernel = Scripted::new().lockable(64 << 10);
        let events = Events::open(&kernel, of_tasks()).unwrap();
        let rings = events.rings(1 << 20).unwrap();
        assert_eq!(
            (rings.consumed.len(), rings.overwritten.len(), rings.smallest()),
            (2, 0, 64 << 10)
        );
        let outputs = kernel.calls().iter().filter(|call| call.starts_with("output ")).count();
        assert_eq!(outputs, 6, "{:?}", kernel.calls());
        let none = Scripted::new().lockable(0);
        let events = Events::open(&none, of_tasks()).unwrap();
        assert_eq!(events.rings(1 << 20).unwrap_err(), RingError::LockedMemory);
    }

    #[test]
    fn one_frequency_of_an_event_is_enabled_at_a_time() {
        let kernel = Scripted::new();
        let slower =
            EventToOpen { slower: vec![50], ..wanted("e", 1, &[(0, EventTarget::Cpu(0))]) };
        let mut events = Events::open(&kernel, vec![slower]).unwrap();
        events.set_step(1).unwrap();
        events.set_step(0).unwrap();
        assert_eq!(kernel.calls(), [""; 0], "a disabled event stays disabled");
        events.set_enabled(true, |_| true).unwrap();
        events.set_step(1).unwrap();
        assert_eq!(kernel.calls(), ["enable 3", "disable 3", "enable 4"]);
    }
}
