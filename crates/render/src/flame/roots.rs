//! What the call chains of a graph begin with: thread names, processes, or processes and threads.

use std::collections::HashMap;

use indexmap::IndexMap;
use tare_profile::{Profile, Thread, Weight};

use super::collect::StackKey;

/// What is next to the root of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FlameRoot {
    /// Thread names. Threads and processes of one name are merged.
    #[default]
    Comm,
    /// Processes. Their threads are merged.
    Process,
    /// Processes, and their threads below them.
    Thread,
}

/// The names of a recording's processes by pid: that of the first thread, or if that has no
/// samples, the thread name with the most samples.
#[derive(Debug)]
pub(super) struct ProcessNames<'a>(HashMap<i32, &'a [u8]>);

impl<'a> ProcessNames<'a> {
    pub(super) fn new<'r>(
        profile: &'a Profile,
        rows: impl Iterator<Item = (&'r StackKey, &'r Weight)>,
    ) -> Self {
        let mut leaders: HashMap<i32, &[u8]> = HashMap::new();
        let mut samples: IndexMap<(i32, &[u8]), u64> = IndexMap::new();
        for (key, weight) in rows {
            let thread = key.thread.and_then(|id| Some((id, profile.thread(id)?)));
            let Some((id, Thread { pid, tid })) = thread else { continue };
            if pid == tid
                && let Some(name) = profile.last_name(id)
            {
                leaders.insert(*pid, profile.string(name));
            }
            let comm = key.comm.map(|comm| profile.string(comm)).unwrap_or_default();
            *samples.entry((*pid, comm)).or_default() += weight.samples;
        }
        samples.sort_by(|_, left, _, right| right.cmp(left));
        let mut names = leaders;
        for ((pid, comm), _) in samples {
            names.entry(pid).or_insert(comm);
        }
        Self(names)
    }

    /// Returns the name of a process; `unknown` if none of its threads has samples.
    pub(super) fn get(&self, pid: i32) -> &'a [u8] {
        self.0.get(&pid).copied().unwrap_or(b"unknown")
    }
}
