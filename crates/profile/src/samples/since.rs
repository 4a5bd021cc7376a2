//! Copies the samples from a time on, with only the values that they need.

use std::collections::HashMap;

use super::{SampleLocation, SampleStore, SampledTask, StoredSample};
use crate::detail::Value;
use crate::ids::{DetailsId, DsoId, FrameId, StackId, StringId, SymbolId, ThreadId};
use crate::key::FunctionKey;
use crate::profile::Profile;
use crate::tables::{Dso, ProfileFrame, SourceLine, Symbol};

type Map<T> = HashMap<T, T, foldhash::fast::RandomState>;

/// Maps ids of a profile to ids of its partial copy.
#[derive(Clone, Debug, Default)]
pub struct NewIds {
    dsos: Map<DsoId>,
    symbols: Map<SymbolId>,
    frames: Map<FrameId>,
}

impl NewIds {
    /// The function in the copy; `None` if no copied sample has it.
    #[must_use]
    pub fn symbol(&self, before: SymbolId) -> Option<SymbolId> {
        self.symbols.get(&before).copied()
    }

    /// The frame in the copy; `None` if no copied sample has it.
    #[must_use]
    pub fn frame(&self, before: FrameId) -> Option<FrameId> {
        self.frames.get(&before).copied()
    }

    /// The function key in the copy; `None` if no copied sample has it.
    #[must_use]
    pub fn function(&self, before: FunctionKey) -> Option<FunctionKey> {
        Some(match before {
            FunctionKey::Named(symbol) => FunctionKey::Named(self.symbol(symbol)?),
            FunctionKey::Address(Some(dso), address) => {
                FunctionKey::Address(Some(*self.dsos.get(&dso)?), address)
            }
            FunctionKey::Address(None, _) | FunctionKey::Unknown => before,
        })
    }
}

impl SampleStore {
    /// Copies the samples from a time on, in nanoseconds of the recording's clock, and the parts of
    /// the profile that they need. All events are copied and keep their ids. Samples without a time
    /// are copied. `profile` must be the one whose ids the samples contain.
    #[must_use]
    pub fn copy_since(&self, profile: &Profile, from_ns: u64) -> (Profile, Self, NewIds) {
        let mut copy = Copier::new(profile);
        let mut samples = Self::default();
        let mut tasks = HashMap::new();
        let mut locations = HashMap::new();
        for sample in self.iter().filter(|sample| sample.time_ns.is_none_or(|at| at >= from_ns)) {
            let task = match tasks.get(&sample.task) {
                Some(task) => *task,
                None => {
                    let Some(task) = self.task(sample.task) else { continue };
                    let now = samples.add_task(copy.task(task));
                    tasks.insert(sample.task, now);
                    now
                }
            };
            let location = match locations.get(&sample.location) {
                Some(location) => *location,
                None => {
                    let Some(location) = self.location(sample.location) else { continue };
                    let now = samples.add_location(copy.location(location));
                    locations.insert(sample.location, now);
                    now
                }
            };
            samples.push(&StoredSample { task, location, ..sample });
        }
        (copy.to, samples, copy.ids)
    }
}

/// Copies values of a profile's tables, each when it is first needed.
struct Copier<'a> {
    from: &'a Profile,
    to: Profile,
    ids: NewIds,
    strings: Map<StringId>,
    threads: Map<ThreadId>,
    stacks: HashMap<StackId, Option<StackId>, foldhash::fast::RandomState>,
}

impl<'a> Copier<'a> {
    fn new(from: &'a Profile) -> Self {
        let mut copy = Self {
            from,
            to: Profile::default(),
            ids: NewIds::default(),
            strings: Map::default(),
            threads: Map::default(),
            stacks: HashMap::default(),
        };
        copy.to.set_details(from.details.keys());
        for (at, (_, event)) in from.events().enumerate() {
            let name = copy.string(event.name);
            copy.to.name_event(at, name);
        }
        copy
    }

    fn string(&mut self, id: StringId) -> StringId {
        let Self { from, to, strings, .. } = self;
        *strings.entry(id).or_insert_with(|| to.add_string(from.string(id)))
    }

    fn task(&mut self, task: &SampledTask) -> SampledTask {
        SampledTask {
            thread: self.thread(task.thread),
            comm: self.string(task.comm),
            cgroup: task.cgroup.map(|cgroup| self.string(cgroup)),
        }
    }

    fn thread(&mut self, id: ThreadId) -> ThreadId {
        if let Some(now) = self.threads.get(&id).copied() {
            return now;
        }
        let Some(thread) = self.from.thread(id) else { return id };
        let now = self.to.add_thread(*thread);
        if let Some(name) = self.from.last_name(id) {
            let name = self.string(name);
            self.to.name_thread(now, name);
        }
        self.threads.insert(id, now);
        now
    }

    fn location(&mut self, location: &SampleLocation) -> SampleLocation {
        SampleLocation {
            leaf: location.leaf.map(|leaf| self.frame(leaf)),
            stack: location.stack.and_then(|stack| self.stack(stack)),
            trace: location.trace.map(|trace| self.string(trace)),
            details: location.details.map(|details| self.details(details)),
        }
    }

    fn stack(&mut self, id: StackId) -> Option<StackId> {
        if let Some(now) = self.stacks.get(&id).copied() {
            return now;
        }
        let from = self.from;
        let frames: Vec<_> =
            from.frames_of(Some(id)).iter().map(|frame| self.frame(*frame)).collect();
        let now = self.to.add_stack(&frames);
        self.stacks.insert(id, now);
        now
    }

    fn details(&mut self, id: DetailsId) -> DetailsId {
        let values = self.from.details.values(id);
        let now = values.iter().map(|value| match value {
            Value::Text(text) => Value::Text(self.string(*text)),
            Value::None | Value::Number(_) => *value,
        });
        let now: Vec<_> = now.collect();
        self.to.add_details(&now)
    }

    fn frame(&mut self, id: FrameId) -> FrameId {
        if let Some(now) = self.ids.frames.get(&id).copied() {
            return now;
        }
        let Some(frame) = self.from.frame(id) else { return id };
        let now = ProfileFrame {
            dso: frame.dso.map(|dso| self.dso(dso)),
            function: match frame.function {
                Ok(symbol) => Ok(self.symbol(symbol)),
                Err(why) => Err(self.string(why)),
            },
            line: frame.line.map(|line| SourceLine { file: self.string(line.file), ..line }),
            ..frame
        };
        let now = self.to.add_frame(now);
        self.ids.frames.insert(id, now);
        now
    }

    fn symbol(&mut self, id: SymbolId) -> SymbolId {
        if let Some(now) = self.ids.symbols.get(&id).copied() {
            return now;
        }
        let Some(symbol) = self.from.symbol(id).copied() else { return id };
        let dso = self.dso(symbol.dso);
        let name = self.string(symbol.name);
        let now = self.to.add_symbol(Symbol { dso, name, ..symbol });
        self.ids.symbols.insert(id, now);
        now
    }

    fn dso(&mut self, id: DsoId) -> DsoId {
        if let Some(now) = self.ids.dsos.get(&id).copied() {
            return now;
        }
        let Some(dso) = self.from.dso(id).copied() else { return id };
        let now = Dso { path: self.string(dso.path), short: self.string(dso.short) };
        let now = self.to.add_dso(now);
        self.ids.dsos.insert(id, now);
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::{Space, Thread};

    /// Creates a sample for each nanosecond, each with its own function, thread and name.
    fn made(samples: u32) -> (Profile, SampleStore) {
        let mut profile = Profile::default();
        let mut all = SampleStore::default();
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        for at in 0..samples {
            let path = profile.add_string(format!("/bin/{at}").as_bytes());
            let name = profile.add_string(format!("f{at}").as_bytes());
            let dso = profile.add_dso(Dso { path, short: path });
            let symbol = profile.add_symbol(Symbol { dso, name, start: u64::from(at) });
            let leaf = profile.add_frame(ProfileFrame {
                space: Space::User,
                dso: Some(dso),
                function: Ok(symbol),
                address: u64::from(at),
                is_inlined: false,
                line: None,
            });
            let tid = i32::try_from(at).unwrap();
            let thread = profile.add_thread(Thread { pid: tid, tid });
            profile.name_thread(thread, name);
            let task = all.add_task(SampledTask { thread, comm: name, cgroup: None });
            let stack = profile.add_stack(&[leaf]);
            let location = SampleLocation { leaf: Some(leaf), stack, ..Default::default() };
            let location = all.add_location(location);
            all.push(&StoredSample {
                event,
                task,
                cpu: Some(at % 4),
                location,
                offset: None,
                time_ns: Some(u64::from(at) + 1),
                period: 1,
            });
        }
        (profile, all)
    }

    #[test]
    fn copies_only_later_samples_and_their_values() {
        let (profile, samples) = made(100);
        let (copied, rest, ids) = samples.copy_since(&profile, 91);
        assert_eq!((rest.len(), rest.times()), (10, Some((91, 100))));
        assert_eq!((rest.tasks().count(), rest.locations().count()), (10, 10));
        for (before, after) in samples.iter().skip(90).zip(rest.iter()) {
            let [old, new] = [(&profile, &samples, before), (&copied, &rest, after)].map(
                |(profile, samples, sample)| {
                    let task = samples.task(sample.task).unwrap();
                    let leaf = samples.location(sample.location).unwrap().leaf.unwrap();
                    let symbol = profile.frame(leaf).unwrap().function.unwrap();
                    let name = profile.string(profile.symbol(symbol).unwrap().name).to_vec();
                    let thread = *profile.thread(task.thread).unwrap();
                    ((name, thread, sample.time_ns, sample.cpu), (leaf, symbol))
                },
            );
            assert_eq!(old.0, new.0);
            assert_eq!((ids.frame(old.1.0), ids.symbol(old.1.1)), (Some(new.1.0), Some(new.1.1)));
        }
        assert_eq!(copied.string(copied.events().next().unwrap().1.name), b"cycles");
        let first =
            samples.location(samples.iter().next().unwrap().location).unwrap().leaf.unwrap();
        assert_eq!(ids.frame(first), None, "the first sample isn't copied");
    }
}
