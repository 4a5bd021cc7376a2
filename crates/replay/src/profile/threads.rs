//! Looks up the threads of samples in a profile.

use std::collections::HashMap;

use tare_profile::{EventId, Profile, RowId, StringId, Thread, ThreadId};

use crate::machine::Machine;

/// Caches the profile's ids of threads. Most samples come from the thread of the previous one.
#[derive(Debug, Default)]
pub(super) struct ThreadTable {
    indices: HashMap<(i32, i32), usize, foldhash::fast::RandomState>,
    threads: Vec<KnownThread>,
    last: Option<((i32, i32), usize)>,
    /// The last name of each thread.
    last_comms: HashMap<i32, StringId, foldhash::fast::RandomState>,
    /// The names `:TID` of threads with samples but no name so far.
    unnamed: HashMap<i32, StringId, foldhash::fast::RandomState>,
    /// Whether numbers in names are shown as `<N>`.
    folds_numbers: bool,
}

/// A thread, valid while its version stays the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct KnownThread {
    version: u64,
    pub(super) id: ThreadId,
    pub(super) comm: StringId,
    /// The rows of recent samples without a place in code, by event and CPU.
    rows: [Option<(EventId, Option<u32>, RowId)>; 4],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ThreadIndex(usize);

impl ThreadTable {
    /// Creates an empty table. `folds_numbers` shows numbers in names as `<N>`, so that the threads
    /// of a pool have one name.
    pub(super) fn new(folds_numbers: bool) -> Self {
        Self { folds_numbers, ..Self::default() }
    }

    /// Adds a thread's name to the profile.
    pub(super) fn add_name(&self, profile: &mut Profile, comm: &[u8]) -> StringId {
        if self.folds_numbers {
            profile.add_string(&with_folded_numbers(comm))
        } else {
            profile.add_string(comm)
        }
    }

    /// Returns a thread with its current name.
    pub(super) fn find(
        &mut self,
        profile: &mut Profile,
        machine: &Machine,
        pid: i32,
        tid: i32,
    ) -> (ThreadIndex, KnownThread) {
        let thread = machine.thread(tid);
        let version = thread.map_or(0, crate::Thread::version);
        let index = match self.last {
            Some((last, index)) if last == (pid, tid) => Some(index),
            _ => self.indices.get(&(pid, tid)).copied(),
        };
        let cached = index.and_then(|index| Some((index, *self.threads.get(index)?)));
        if let Some((index, known)) = cached.filter(|(_, known)| known.version == version) {
            self.last = Some(((pid, tid), index));
            return (ThreadIndex(index), known);
        }
        let comm = match thread.and_then(crate::Thread::comm) {
            Some(comm) => self.add_name(profile, comm),
            None => {
                let comm = self.add_name(profile, format!(":{tid}").as_bytes());
                self.unnamed.insert(tid, comm);
                comm
            }
        };
        let id = profile.add_thread(Thread { pid, tid });
        profile.name_thread(id, comm);
        let known = KnownThread { version, id, comm, rows: [None; 4] };
        let index = index.unwrap_or(self.threads.len());
        match self.threads.get_mut(index) {
            Some(old) => *old = known,
            None => self.threads.push(known),
        }
        self.indices.insert((pid, tid), index);
        self.last = Some(((pid, tid), index));
        (ThreadIndex(index), known)
    }

    /// Returns the row of recent samples with the same thread, event and CPU.
    pub(super) fn cached_row(
        &self,
        ThreadIndex(index): ThreadIndex,
        event: EventId,
        cpu: Option<u32>,
    ) -> Option<RowId> {
        let rows = self.threads.get(index)?.rows.iter().flatten();
        rows.filter(|row| (row.0, row.1) == (event, cpu)).map(|row| row.2).next()
    }

    /// Caches a row for the next samples with the same thread, event and CPU.
    pub(super) fn cache_row(
        &mut self,
        ThreadIndex(index): ThreadIndex,
        event: EventId,
        cpu: Option<u32>,
        row: RowId,
    ) {
        if let Some(known) = self.threads.get_mut(index) {
            known.rows.rotate_right(1);
            known.rows[0] = Some((event, cpu, row));
        }
    }

    /// Returns the name `:TID` of a thread's samples so far, if it had no name until now. As in
    /// perf, its first COMM record names them too (`thread__set_comm`).
    pub(super) fn take_unnamed(&mut self, tid: i32) -> Option<StringId> {
        self.unnamed.remove(&tid)
    }

    /// Sets the last name of a thread.
    pub(super) fn rename(&mut self, tid: i32, comm: Option<StringId>) {
        match comm {
            Some(comm) => self.last_comms.insert(tid, comm),
            None => self.last_comms.remove(&tid),
        };
    }

    pub(super) fn last_comm(&self, tid: i32) -> Option<StringId> {
        self.last_comms.get(&tid).copied()
    }
}

/// Replaces each number in a name by `<N>`.
fn with_folded_numbers(name: &[u8]) -> Vec<u8> {
    let mut folded = Vec::with_capacity(name.len());
    for run in name.chunk_by(|left, right| left.is_ascii_digit() == right.is_ascii_digit()) {
        let is_number = run.first().is_some_and(u8::is_ascii_digit);
        folded.extend_from_slice(if is_number { b"<N>" } else { run });
    }
    folded
}

#[cfg(test)]
mod tests {
    use tare_format::record::Comm;
    use tare_profile::Weight;

    use super::*;
    use crate::machine::tests::machine_with;

    fn rename(machine: &mut Machine, tid: i32, comm: &[u8]) {
        machine.threads.set_comm(&Comm { pid: 1, tid, comm, is_exec: false });
    }

    #[test]
    fn numbers_in_names_are_folded() {
        let folded = |name: &[u8]| String::from_utf8(with_folded_numbers(name)).unwrap();
        assert_eq!(folded(b"kworker/12:3H"), "kworker/<N>:<N>H");
        assert_eq!(folded(b"sh"), "sh");
        assert_eq!(folded(b""), "");
        assert_eq!(folded(b":4711"), ":<N>");
    }

    #[test]
    fn the_name_of_an_unnamed_thread_is_replaced_once() {
        let mut machine = machine_with(&[]);
        let mut profile = Profile::default();
        let mut threads = ThreadTable::default();
        let (_, unnamed) = threads.find(&mut profile, &machine, 1, 2);
        assert_eq!(threads.take_unnamed(2), Some(unnamed.comm));
        rename(&mut machine, 2, b"sh");
        threads.find(&mut profile, &machine, 1, 2);
        assert_eq!(threads.take_unnamed(2), None);
    }

    #[test]
    fn a_renamed_thread_keeps_its_id_and_gets_its_new_name() {
        let mut machine = machine_with(&[]);
        let mut profile = Profile::default();
        let mut threads = ThreadTable::default();
        let (index, unnamed) = threads.find(&mut profile, &machine, 1, 2);
        assert_eq!(profile.string(unnamed.comm), b":2");
        for name in [b"sh", b"ls"] {
            rename(&mut machine, 2, name);
            let (same, thread) = threads.find(&mut profile, &machine, 1, 2);
            assert_eq!((same, thread.id), (index, unnamed.id));
            assert_eq!(profile.string(thread.comm), name);
        }
        assert_ne!(threads.find(&mut profile, &machine, 1, 3).1.id, unnamed.id);
    }

    #[test]
    fn the_last_four_rows_of_a_thread_are_cached_until_it_is_renamed() {
        let mut machine = machine_with(&[]);
        let mut profile = Profile::default();
        let mut threads = ThreadTable::default();
        let (thread, _) = threads.find(&mut profile, &machine, 1, 2);
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        let weight = Weight { period: 1, samples: 1 };
        let row = |cpu| tare_profile::Row { cpu: Some(cpu), ..tare_profile::Row::new(event) };
        let ids: Vec<_> = (0..5).map(|cpu| profile.add_samples(row(cpu), weight)).collect();
        for (cpu, id) in (0..).zip(&ids) {
            threads.cache_row(thread, event, Some(cpu), *id);
        }
        let cached: Vec<_> =
            (0..5).map(|cpu| threads.cached_row(thread, event, Some(cpu))).collect();
        let expected = ids.iter().map(|id| Some(*id).filter(|id| *id != ids[0]));
        assert!(cached.into_iter().eq(expected), "only the oldest row is dropped");
        rename(&mut machine, 2, b"sh");
        let (thread, _) = threads.find(&mut profile, &machine, 1, 2);
        assert_eq!(threads.cached_row(thread, event, Some(4)), None, "its rows have another name");
    }
}
