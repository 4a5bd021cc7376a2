//! Selects stored samples, and sums them into rows.

use std::collections::{HashMap, HashSet};

use super::{SampleLocation, SampleStore, SampledTask};
use crate::ids::{EventId, FrameId, Id, LocationId, TaskId};
use crate::key::FunctionKey;
use crate::profile::Profile;
use crate::rows::Row;
use crate::tables::{Space, Weight};

/// A condition on samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// The thread's name.
    Comm(Vec<u8>),
    /// The process id.
    Pid(i32),
    /// The thread id.
    Tid(i32),
    /// The CPU.
    Cpu(u32),
    /// The path of the cgroup.
    Cgroup(Vec<u8>),
    /// The file of any frame of the sample: its short name or its path.
    Dso(Vec<u8>),
    /// A part of the name of the function of any frame.
    Symbol(Vec<u8>),
    /// The name of the function of any frame.
    Function(Vec<u8>),
    /// The sampled function is known.
    Named,
    /// The outermost functions of the call chain, the outermost first.
    Stack(Vec<FunctionKey>),
    /// The sample was not taken in this address space.
    NotIn(Space),
    /// From one time to another, both included, in nanoseconds of the recording's clock.
    Time(u64, u64),
    /// At least one of these conditions holds. All are on the same property: of the task, the CPU,
    /// or any frame.
    AnyOf(Vec<Term>),
}

/// Selects samples for which all terms hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only samples of this event.
    pub event: Option<EventId>,
    /// The conditions.
    pub terms: Vec<Term>,
    /// Ids of excluded threads: the recorder's own.
    pub without_tids: Vec<i32>,
}

/// The properties by which rows differ, in addition to event and location.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowKeys {
    /// The thread.
    pub thread: bool,
    /// The thread's name.
    pub comm: bool,
    /// The CPU.
    pub cpu: bool,
}

/// A selection, evaluated for each task and each location.
#[derive(Clone, Debug)]
pub struct SelectedSamples {
    event: Option<EventId>,
    tasks: Vec<bool>,
    locations: Vec<bool>,
    /// The CPUs of each condition on CPUs.
    cpus: Vec<Vec<u32>>,
    from_ns: u64,
    to_ns: u64,
}

impl Selection {
    /// Evaluates the selection for all tasks and locations of the store.
    #[must_use]
    pub fn resolve(&self, profile: &Profile, samples: &SampleStore) -> SelectedSamples {
        let mut selected = SelectedSamples {
            event: self.event,
            tasks: samples.tasks().map(|task| self.takes_task(profile, task)).collect(),
            locations: Vec::new(),
            cpus: Vec::new(),
            from_ns: 0,
            to_ns: u64::MAX,
        };
        for term in &self.terms {
            if let Term::Time(from_ns, to_ns) = term {
                selected.from_ns = selected.from_ns.max(*from_ns);
                selected.to_ns = selected.to_ns.min(*to_ns);
            }
            let cpu = |term: &Term| match term {
                Term::Cpu(cpu) => Some(*cpu),
                _ => None,
            };
            let cpus: Vec<_> = term.alternatives().iter().filter_map(cpu).collect();
            selected.cpus.extend((!cpus.is_empty()).then_some(cpus));
        }
        let frames: Vec<HashSet<FrameId, foldhash::fast::RandomState>> =
            self.terms.iter().filter_map(|term| find_frames(profile, term)).collect();
        let takes = |location: &SampleLocation| {
            let chain = profile.frames_of(location.stack);
            let has = |wanted: &HashSet<FrameId, _>| {
                location.leaf.is_some_and(|leaf| wanted.contains(&leaf))
                    || chain.iter().any(|frame| wanted.contains(frame))
            };
            frames.iter().all(has)
                && self.terms.iter().all(|term| match term {
                    Term::Stack(stack) => has_outermost(profile, location, stack),
                    Term::NotIn(space) => {
                        let leaf = location.leaf.and_then(|leaf| profile.frame(leaf));
                        leaf.is_none_or(|leaf| leaf.space != *space)
                    }
                    Term::Named => is_named(profile, location.leaf),
                    _ => true,
                })
        };
        selected.locations = samples.locations().map(takes).collect();
        selected
    }

    fn takes_task(&self, profile: &Profile, task: &SampledTask) -> bool {
        let Some(thread) = profile.thread(task.thread) else { return false };
        let holds = |term: &Term| match term {
            Term::Comm(comm) => profile.string(task.comm) == comm,
            Term::Pid(pid) => thread.pid == *pid,
            Term::Tid(tid) => thread.tid == *tid,
            Term::Cgroup(path) => task.cgroup.is_some_and(|cgroup| profile.string(cgroup) == path),
            _ => true,
        };
        !self.without_tids.contains(&thread.tid)
            && self.terms.iter().all(|term| term.alternatives().iter().any(holds))
    }
}

/// Finds the frames for which a condition on frames holds; `None` for other conditions.
fn find_frames(
    profile: &Profile,
    term: &Term,
) -> Option<HashSet<FrameId, foldhash::fast::RandomState>> {
    let alternatives = term.alternatives();
    let is_on_frames =
        |term: &Term| matches!(term, Term::Dso(_) | Term::Symbol(_) | Term::Function(_));
    if !alternatives.iter().any(is_on_frames) {
        return None;
    }
    let is_taken =
        |frame: &FrameId| alternatives.iter().any(|term| term.takes_frame(profile, Some(*frame)));
    Some(profile.frame_ids().filter(is_taken).collect())
}

fn is_named(profile: &Profile, leaf: Option<FrameId>) -> bool {
    leaf.and_then(|leaf| profile.frame(leaf)).is_some_and(|frame| frame.function.is_ok())
}

impl Term {
    /// Returns the conditions of which one must hold: those of [`Term::AnyOf`], or this one alone.
    #[must_use]
    pub fn alternatives(&self) -> &[Self] {
        match self {
            Self::AnyOf(terms) => terms,
            one => std::slice::from_ref(one),
        }
    }

    /// Whether a condition on frames holds for a frame. Other conditions hold for every frame.
    fn takes_frame(&self, profile: &Profile, frame: Option<FrameId>) -> bool {
        let found = frame.and_then(|frame| profile.frame(frame));
        match self {
            Self::Dso(name) => {
                let dso = found.and_then(|found| profile.dso(found.dso?));
                dso.is_some_and(|dso| {
                    [dso.short, dso.path].iter().any(|text| profile.string(*text) == name)
                })
            }
            Self::Symbol(wanted) | Self::Function(wanted) => {
                let symbol = found.and_then(|found| profile.symbol(found.function.ok()?));
                let is_part = matches!(self, Self::Symbol(_));
                symbol.map(|symbol| profile.string(symbol.name)).is_some_and(|name| match is_part {
                    true => {
                        wanted.is_empty() || name.windows(wanted.len()).any(|part| part == wanted)
                    }
                    false => name == wanted,
                })
            }
            _ => true,
        }
    }
}

/// Whether these are the outermost functions of the call chain, the outermost first.
fn has_outermost(profile: &Profile, location: &SampleLocation, wanted: &[FunctionKey]) -> bool {
    let chain = profile.frames_of(location.stack);
    let alone = location.leaf.as_slice();
    let frames = if chain.is_empty() { alone } else { chain };
    frames.len() >= wanted.len()
        && frames
            .iter()
            .rev()
            .zip(wanted)
            .all(|(frame, wanted)| FunctionKey::at_frame(profile, Some(*frame)) == *wanted)
}

impl SelectedSamples {
    /// Whether a sample is selected.
    #[must_use]
    pub fn takes(&self, sample: &super::StoredSample) -> bool {
        let is = |takes: &[bool], at: usize| takes.get(at).copied().unwrap_or(false);
        self.event.is_none_or(|event| sample.event == event)
            && is(&self.tasks, sample.task.index())
            && is(&self.locations, sample.location.index())
            && sample.time_ns.is_none_or(|at| (self.from_ns..=self.to_ns).contains(&at))
            && self.cpus.iter().all(|cpus| sample.cpu.is_some_and(|cpu| cpus.contains(&cpu)))
    }
}

/// Samples that become one row.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SampleGroup {
    event: EventId,
    task: u32,
    cpu: Option<u32>,
    location: LocationId,
}

impl SampleStore {
    /// Replaces the rows of a profile with the sums of the selected samples. `profile` must be the
    /// one whose ids the samples contain.
    pub fn fill_rows(&self, profile: &mut Profile, selected: &SelectedSamples, keys: RowKeys) {
        let tasks = self.group_tasks(keys);
        let mut groups: HashMap<SampleGroup, u32, foldhash::fast::RandomState> = HashMap::default();
        let mut sums: Vec<(SampleGroup, Weight)> = Vec::new();
        for sample in self.iter().filter(|sample| selected.takes(sample)) {
            let group = SampleGroup {
                event: sample.event,
                task: tasks.get(sample.task.index()).copied().unwrap_or(0),
                cpu: sample.cpu.filter(|_| keys.cpu),
                location: sample.location,
            };
            let next = u32::try_from(sums.len()).unwrap_or(u32::MAX);
            let at = *groups.entry(group).or_insert(next) as usize;
            let weight = Weight { period: sample.period, samples: 1 };
            match sums.get_mut(at) {
                Some((_, sum)) => sum.add(weight),
                None => sums.push((group, weight)),
            }
        }
        profile.clear_rows();
        for (group, weight) in sums {
            let task = self.task(TaskId::from_index(group.task as usize));
            let location = self.location(group.location).copied();
            let SampleLocation { leaf, stack, trace, details } = location.unwrap_or_default();
            let row = Row {
                event: group.event,
                thread: task.map(|task| task.thread),
                comm: task.map(|task| task.comm),
                cpu: group.cpu,
                leaf,
                stack,
                trace,
                details,
            };
            profile.add_samples(row, weight);
        }
    }

    /// Maps each task to the first task with the same keys.
    fn group_tasks(&self, keys: RowKeys) -> Vec<u32> {
        let mut first = HashMap::new();
        let number = |(at, task): (u32, &SampledTask)| {
            let key = (keys.thread.then_some(task.thread), keys.comm.then_some(task.comm));
            *first.entry(key).or_insert(at)
        };
        (0..).zip(self.tasks()).map(number).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::StoredSample;
    use crate::tables::{Dso, ProfileFrame, Symbol, Thread};

    /// Creates samples of two threads, `sh` on CPU 0 and `date` on CPU 1, each once in
    /// `main -> work` and once in `main`, at the times 1 to 4.
    fn made() -> (Profile, SampleStore) {
        let mut profile = Profile::default();
        let mut samples = SampleStore::default();
        let text = |profile: &mut Profile, text: &str| profile.add_string(text.as_bytes());
        let event = text(&mut profile, "cycles");
        let event = profile.name_event(0, event);
        let path = text(&mut profile, "/bin/x");
        let short = text(&mut profile, "x");
        let dso = profile.add_dso(Dso { path, short });
        let frames: Vec<_> = [("main", 16), ("work", 32)]
            .into_iter()
            .map(|(name, start)| {
                let name = text(&mut profile, name);
                let symbol = profile.add_symbol(Symbol { dso, name, start });
                profile.add_frame(ProfileFrame {
                    space: Space::User,
                    dso: Some(dso),
                    function: Ok(symbol),
                    address: start,
                    is_inlined: false,
                    line: None,
                })
            })
            .collect();
        let stacks = [vec![frames[1], frames[0]], vec![frames[0]]];
        for (tid, name) in [(1, "sh"), (2, "date")] {
            let comm = text(&mut profile, name);
            let cgroup = Some(text(&mut profile, &format!("/{name}")));
            let thread = profile.add_thread(Thread { pid: tid, tid });
            let task = samples.add_task(SampledTask { thread, comm, cgroup });
            for (at, stack) in stacks.iter().enumerate() {
                let leaf = stack.first().copied();
                let stack = profile.add_stack(stack);
                let location = SampleLocation { leaf, stack, ..SampleLocation::default() };
                let location = samples.add_location(location);
                samples.push(&StoredSample {
                    event,
                    task,
                    cpu: u32::try_from(tid - 1).ok(),
                    location,
                    offset: Some(0),
                    time_ns: u64::try_from(tid * 2).ok().map(|time| time - 1 + at as u64),
                    period: 10,
                });
            }
        }
        (profile, samples)
    }

    /// Returns the times of the selected samples.
    fn select(terms: &[Term]) -> Vec<u64> {
        let (profile, samples) = made();
        let selection = Selection { terms: terms.to_vec(), ..Selection::default() };
        let selected = selection.resolve(&profile, &samples);
        samples.iter().filter(|sample| selected.takes(sample)).filter_map(|s| s.time_ns).collect()
    }

    #[test]
    fn each_condition_selects_its_samples() {
        let (profile, samples) = made();
        let main = samples.location(LocationId::from_index(1)).unwrap().leaf;
        let main = FunctionKey::at_frame(&profile, main);
        let work = FunctionKey::at_frame(
            &profile,
            samples.location(LocationId::from_index(0)).unwrap().leaf,
        );
        let cases = [
            (Term::Comm(b"sh".to_vec()), vec![1, 2]),
            (Term::Pid(2), vec![3, 4]),
            (Term::Tid(1), vec![1, 2]),
            (Term::Cpu(1), vec![3, 4]),
            (Term::Cgroup(b"/date".to_vec()), vec![3, 4]),
            (Term::Dso(b"x".to_vec()), vec![1, 2, 3, 4]),
            (Term::Dso(b"y".to_vec()), vec![]),
            (Term::Symbol(b"or".to_vec()), vec![1, 3]),
            (Term::Stack(vec![main]), vec![1, 2, 3, 4]),
            (Term::Stack(vec![main, work]), vec![1, 3]),
            (Term::Stack(vec![work]), vec![]),
            (Term::NotIn(Space::User), vec![]),
            (Term::NotIn(Space::Kernel), vec![1, 2, 3, 4]),
            (Term::Time(2, 3), vec![2, 3]),
            (Term::Function(b"work".to_vec()), vec![1, 3]),
            (Term::Function(b"wor".to_vec()), vec![]),
            (Term::Named, vec![1, 2, 3, 4]),
            (Term::AnyOf(vec![Term::Cpu(1), Term::Cpu(7)]), vec![3, 4]),
            (Term::AnyOf(vec![Term::Tid(1), Term::Tid(2)]), vec![1, 2, 3, 4]),
            (
                Term::AnyOf(vec![Term::Function(b"x".to_vec()), Term::Function(b"work".to_vec())]),
                vec![1, 3],
            ),
        ];
        for (term, times) in cases {
            assert_eq!(select(std::slice::from_ref(&term)), times, "{term:?}");
        }
        assert_eq!(select(&[Term::Tid(1), Term::Symbol(b"work".to_vec())]), [1]);
    }

    #[test]
    fn rows_differ_by_their_keys() {
        let (mut profile, samples) = made();
        let selected = Selection { without_tids: vec![9], ..Selection::default() };
        let selected = selected.resolve(&profile, &samples);
        samples.fill_rows(&mut profile, &selected, RowKeys::default());
        let weights: Vec<_> = profile.rows().map(|(_, weight)| weight.period).collect();
        assert_eq!(weights, [20, 20]);
        for keys in [
            RowKeys { thread: true, ..RowKeys::default() },
            RowKeys { comm: true, ..RowKeys::default() },
            RowKeys { cpu: true, ..RowKeys::default() },
        ] {
            samples.fill_rows(&mut profile, &selected, keys);
            assert_eq!(profile.rows().count(), 4, "{keys:?}");
        }
    }

    #[test]
    fn excludes_threads_of_the_recorder() {
        let (profile, samples) = made();
        let selection = Selection { without_tids: vec![1], ..Selection::default() };
        let selected = selection.resolve(&profile, &samples);
        assert_eq!(samples.iter().filter(|sample| selected.takes(sample)).count(), 2);
    }
}
