//! What threads were called, and when: told for any moment once all up to it is known, in whatever
//! order it became known.

use std::collections::HashMap;

use tare_profile::{RowId, StringId};

/// Forks between a thread and the one that had its name first. A longer chain has no name: it may
/// be a circle.
const LONGEST_DESCENT: usize = 1 << 12;

/// Names of threads over time.
///
/// ```text
/// thread 7:  --- "sh" ---| from thread 5 |--- "make" ---
///                      fork            exec               time
/// ```
#[derive(Default)]
pub(crate) struct History {
    places: HashMap<i32, usize, foldhash::fast::RandomState>,
    threads: Vec<Thread>,
    /// The thread that was asked for last: most come one after the other.
    last: Option<(i32, usize)>,
}

#[derive(Default)]
struct Thread {
    /// In order of time.
    names: Vec<(u64, Name)>,
    rows: [Option<Cached>; 4],
}

#[derive(Clone, Copy)]
enum Name {
    Is(StringId),
    /// That of another thread at that time.
    Of(i32),
}

/// The row of samples that are alike, as long as a name holds.
#[derive(Clone, Copy)]
pub(crate) struct Cached {
    pub(crate) pid: i32,
    pub(crate) place: u16,
    pub(crate) cpu: Option<u32>,
    pub(crate) row: RowId,
    from_ns: u64,
    before_ns: u64,
}

impl History {
    /// A thread got a name.
    pub(crate) fn name(&mut self, tid: i32, from_ns: u64, name: StringId) {
        self.add(tid, from_ns, Name::Is(name));
    }

    /// A thread began, with the name of its parent.
    pub(crate) fn fork(&mut self, tid: i32, from_ns: u64, parent: i32) {
        self.add(tid, from_ns, Name::Of(parent));
    }

    fn add(&mut self, tid: i32, from_ns: u64, name: Name) {
        let at = self.place(tid);
        let thread = &mut self.threads[at];
        let behind = thread.names.partition_point(|(from, _)| *from <= from_ns);
        thread.names.insert(behind, (from_ns, name));
        thread.rows = [None; 4];
    }

    fn place(&mut self, tid: i32) -> usize {
        if let Some((_, at)) = self.last.filter(|(last, _)| *last == tid) {
            return at;
        }
        let threads = &mut self.threads;
        let at = *self.places.entry(tid).or_insert_with(|| {
            threads.push(Thread::default());
            threads.len() - 1
        });
        self.last = Some((tid, at));
        at
    }

    /// What a thread was called at a time; `None` where nothing has said so.
    pub(crate) fn at(&self, tid: i32, time_ns: u64) -> Option<StringId> {
        let (mut tid, mut time_ns) = (tid, time_ns);
        for _ in 0..LONGEST_DESCENT {
            let thread = self.threads.get(*self.places.get(&tid)?)?;
            let behind = thread.names.partition_point(|(from, _)| *from <= time_ns);
            match thread.names.get(behind.checked_sub(1)?)? {
                (_, Name::Is(name)) => return Some(*name),
                (from, Name::Of(parent)) => (tid, time_ns) = (*parent, *from),
            }
        }
        None
    }

    /// What a thread was called last.
    pub(crate) fn last(&self, tid: i32) -> Option<StringId> {
        self.at(tid, u64::MAX)
    }

    /// The row that alike samples of a thread were added to, while its name was the same.
    pub(crate) fn cached(
        &mut self,
        (pid, tid): (i32, i32),
        place: u16,
        cpu: Option<u32>,
        time_ns: u64,
    ) -> Option<RowId> {
        let at = self.place(tid);
        let cached = self.threads[at].rows[usize::from(place) % 4]?;
        let fits = cached.pid == pid && cached.place == place && cached.cpu == cpu;
        (fits && (cached.from_ns..cached.before_ns).contains(&time_ns)).then_some(cached.row)
    }

    /// Keeps the row for the next samples that are alike.
    pub(crate) fn cache(
        &mut self,
        (pid, tid): (i32, i32),
        place: u16,
        cpu: Option<u32>,
        time_ns: u64,
        row: RowId,
    ) {
        let at = self.place(tid);
        let thread = &mut self.threads[at];
        let behind = thread.names.partition_point(|(from, _)| *from <= time_ns);
        let from_ns = behind
            .checked_sub(1)
            .and_then(|before| thread.names.get(before))
            .map_or(0, |(from, _)| *from);
        let before_ns = thread.names.get(behind).map_or(u64::MAX, |(from, _)| *from);
        thread.rows[usize::from(place) % 4] =
            Some(Cached { pid, place, cpu, row, from_ns, before_ns });
    }
}

#[cfg(test)]
mod tests {
    use tare_profile::Profile;

    use super::*;

    #[test]
    fn names_hold_from_when_they_are_given_whatever_the_order_they_are_learnt_in() {
        let mut profile = Profile::default();
        let [sh, make, cc] = ["sh", "make", "cc"].map(|name| profile.add_string(name.as_bytes()));
        let mut history = History::default();
        history.name(7, 30, cc);
        history.fork(7, 20, 5);
        history.name(5, 25, make);
        history.name(5, 0, sh);
        assert_eq!(history.at(7, 19), None, "not begun");
        assert_eq!(
            (history.at(7, 20), history.at(7, 29), history.at(7, 30)),
            (Some(sh), Some(sh), Some(cc))
        );
        assert_eq!((history.at(5, 24), history.at(5, u64::MAX)), (Some(sh), Some(make)));
    }

    #[test]
    fn threads_that_descend_from_each_other_have_no_name() {
        let mut history = History::default();
        history.fork(1, 5, 2);
        history.fork(2, 5, 1);
        assert_eq!(history.at(1, 9), None);
    }
}
