//! Tracks just-in-time compiled code, as jitdumps describe it, by process and time.
//!
//! A dump has times of `CLOCK_MONOTONIC`, and a recording those of its own clock; [`JitClock`]
//! converts the recording's. Without a conversion, a dump's last code at an address counts from the
//! mapping of the dump on.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tare_format::abi::Flags;
use tare_format::file::{Description, RecordedEvent};
use tare_format::jit_note::{ClockPair, JitNote, JitProcess};
use tare_symbols::{
    DsoAddress, DsoId, DsoRenumbering, JitChange, RecordedProcess, RecordedProcesses, Runtime,
    Unresolved,
};

/// `CLOCK_MONOTONIC` of `include/uapi/linux/time.h`.
const CLOCK_MONOTONIC: i32 = 1;

/// Limit of processes with a known runtime, and of those with an unreadable dump.
const PROCESSES: usize = 1 << 16;

/// Converts times of a recording to `CLOCK_MONOTONIC`.
#[derive(Clone, Debug, Default)]
pub(crate) struct JitClock {
    is_monotonic: bool,
    /// Readings of both clocks at the same moments, in time order: (recording, monotonic).
    pairs: Vec<(u64, u64)>,
}

impl JitClock {
    fn learn_events(&mut self, events: &[RecordedEvent]) {
        let is_monotonic = |event: &RecordedEvent| {
            event.attr.flags.contains(Flags::USE_CLOCKID) && event.attr.clockid == CLOCK_MONOTONIC
        };
        self.is_monotonic = !events.is_empty() && events.iter().all(is_monotonic);
    }

    /// Adds a reading of both clocks, if it is later than the last one.
    fn add_pair(&mut self, ClockPair { recorded_ns, monotonic_ns }: ClockPair) {
        const MOST: usize = 1 << 16;
        let is_later = self.pairs.last().is_none_or(|(last, _)| *last < recorded_ns);
        if is_later && self.pairs.len() < MOST {
            self.pairs.push((recorded_ns, monotonic_ns));
        }
    }

    /// Whether times can be converted.
    pub(crate) fn is_known(&self) -> bool {
        self.is_monotonic || !self.pairs.is_empty()
    }

    /// Converts a time of the recording, by the last reading before it, or else by the first.
    fn to_monotonic_ns(&self, recorded_ns: u64) -> u64 {
        let behind = self.pairs.partition_point(|(recorded, _)| *recorded <= recorded_ns);
        match self.pairs.get(behind.saturating_sub(1)) {
            Some((recorded, monotonic)) if !self.is_monotonic => {
                monotonic.wrapping_add(recorded_ns.wrapping_sub(*recorded))
            }
            _ => recorded_ns,
        }
    }
}

/// A range of compiled code: its end address, and its address in the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CodeRange {
    end: u64,
    dso: DsoId,
    address: u64,
}

/// The compiled code of a process by start address, without overlaps.
type CodeRanges = BTreeMap<u64, CodeRange>;

/// The times of a dump that a process maps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DumpTimes {
    /// When the dump was begun, by the process's clock; `None` if it has times of another kind.
    pub(crate) created_ns: Option<u64>,
    /// When it was mapped, by the recording's clock; `None` if that was before the recording.
    pub(crate) mapped_ns: Option<u64>,
}

/// A process maps its dump when it begins it. If the times of both differ by more, in nanoseconds,
/// the process has another `CLOCK_MONOTONIC`.
const SAME_CLOCK_NS: u64 = 10_000_000_000;

/// A dump whose changes are applied in the course of the recording.
#[derive(Clone, Copy, Debug)]
struct Dump {
    pid: i32,
    dso: DsoId,
    /// Index of the next change.
    next: usize,
}

/// The compiled code of all processes at the current time.
#[derive(Debug, Default)]
pub(crate) struct JitCode {
    clock: JitClock,
    /// Number of the recording's notes that were read.
    notes: usize,
    spaces: HashMap<i32, Arc<CodeRanges>, foldhash::fast::RandomState>,
    dumps: Vec<Dump>,
    /// How far the `CLOCK_MONOTONIC` of processes is ahead of the recorder's, in nanoseconds, where
    /// that is known.
    ahead_ns: HashMap<i32, i64, foldhash::fast::RandomState>,
    /// The time of the next change of any dump, in nanoseconds of `CLOCK_MONOTONIC`; 0 if the dumps
    /// must be read again, `None` if no change is pending.
    next_ns: Option<u64>,
    /// Whether a process has a perf map.
    perf_maps: HashMap<i32, bool, foldhash::fast::RandomState>,
    /// The runtime that compiles code in a process, if its mapped files reveal it.
    runtimes: HashMap<i32, Runtime, foldhash::fast::RandomState>,
    /// Unreadable dumps by process: the reason and the path.
    unread: HashMap<i32, (Unresolved, Box<[u8]>), foldhash::fast::RandomState>,
    /// Number of dumps whose times can't be converted.
    pub(crate) untimed: u64,
}

/// The changes of a dump, in time order.
pub(crate) type Changes<'a> = &'a [JitChange];

impl JitCode {
    /// Reads the recording's clock, and processes from its notes.
    pub(crate) fn learn(&mut self, description: &Description, processes: &mut RecordedProcesses) {
        self.clock.learn_events(description.events());
        let notes = description.notes();
        for note in notes.iter().skip(self.notes) {
            self.learn_note(note, processes);
        }
        self.notes = notes.len();
    }

    /// Reads a note, if it is about compiled code.
    pub(crate) fn learn_note(&mut self, note: &[u8], processes: &mut RecordedProcesses) {
        let Some(note) = JitNote::from_note(note) else { return };
        note.clock.into_iter().for_each(|pair| self.clock.add_pair(pair));
        for process in note.processes {
            let JitProcess { pid, uid, own_pid, start_ticks, started_ns, .. } = process;
            processes.describe(pid, RecordedProcess { uid, own_pid, start_ticks, started_ns });
            self.set_ahead(pid, process.monotonic_ahead_ns);
        }
    }

    /// Calls `see` at least once for each DSO in use.
    pub(crate) fn for_each_dso(&self, mut see: impl FnMut(DsoId)) {
        let code = self.spaces.values().flat_map(|space| space.values()).map(|code| code.dso);
        code.chain(self.dumps.iter().map(|dump| dump.dso)).for_each(&mut see);
    }

    /// Applies the new ids of DSOs. Dumps are read again, because they may have grown.
    pub(crate) fn renumber(&mut self, now: &DsoRenumbering) {
        for space in self.spaces.values_mut() {
            let renumbered = |(start, code): (&u64, &CodeRange)| {
                Some((*start, CodeRange { dso: now.get(code.dso)?, ..*code }))
            };
            *space = Arc::new(space.iter().filter_map(renumbered).collect());
        }
        let renumbered = |dump: Dump| Some(Dump { dso: now.get(dump.dso)?, ..dump });
        self.dumps = std::mem::take(&mut self.dumps).into_iter().filter_map(renumbered).collect();
        self.next_ns = self.dumps.first().map(|_| 0);
    }

    /// Sets how far a process's clock is ahead. Changes of its dumps may be due then.
    fn set_ahead(&mut self, pid: i32, ahead_ns: i64) {
        if self.ahead_ns.len() < PROCESSES || self.ahead_ns.contains_key(&pid) {
            self.ahead_ns.insert(pid, ahead_ns);
        }
        if self.dumps.iter().any(|dump| dump.pid == pid) {
            self.next_ns = Some(0);
        }
    }

    /// Returns how far a process's clock is ahead.
    fn ahead(&self, pid: i32) -> i64 {
        self.ahead_ns.get(&pid).copied().unwrap_or(0)
    }

    /// Finds out how far a process's clock is ahead, if no note tells: by the times at which it
    /// began and mapped a dump.
    fn compare_clocks(&mut self, pid: i32, times: DumpTimes) {
        let DumpTimes { created_ns: Some(created_ns), mapped_ns: Some(mapped_ns) } = times else {
            return;
        };
        let mapped_ns = self.clock.to_monotonic_ns(mapped_ns);
        let ahead_ns = created_ns.wrapping_sub(mapped_ns).cast_signed();
        if !self.ahead_ns.contains_key(&pid) && ahead_ns.unsigned_abs() > SAME_CLOCK_NS {
            self.set_ahead(pid, ahead_ns);
        }
    }

    /// Adds a dump that a process mapped. Returns whether its code applies at once.
    pub(crate) fn add_dump(
        &mut self,
        pid: i32,
        dso: DsoId,
        changes: Changes<'_>,
        times: DumpTimes,
    ) -> bool {
        if self.dumps.iter().any(|dump| (dump.pid, dump.dso) == (pid, dso)) {
            return false;
        }
        if times.created_ns.is_none() || !self.clock.is_known() {
            self.untimed += 1;
            changes.iter().for_each(|change| self.apply(pid, dso, change));
            return true;
        }
        self.compare_clocks(pid, times);
        self.dumps.push(Dump { pid, dso, next: 0 });
        let ahead_ns = self.ahead(pid);
        let first = changes.first().map(|change| to_recorders_ns(change.time_ns, ahead_ns));
        self.next_ns = self.next_ns.into_iter().chain(first).min();
        false
    }

    /// Applies the changes of all dumps up to a recorded time, and calls `changed` for each process
    /// whose code changed.
    pub(crate) fn advance<'d>(
        &mut self,
        recorded_ns: u64,
        changes_of: impl Fn(DsoId) -> Changes<'d>,
        mut changed: impl FnMut(i32),
    ) {
        let Some(next_ns) = self.next_ns else { return };
        let now_ns = self.clock.to_monotonic_ns(recorded_ns);
        if now_ns < next_ns {
            return;
        }
        self.next_ns = None;
        for number in 0..self.dumps.len() {
            let Dump { pid, dso, next } = self.dumps[number];
            let changes = changes_of(dso).get(next..).unwrap_or_default();
            let ahead_ns = self.ahead(pid);
            let is_due = |change: &JitChange| to_recorders_ns(change.time_ns, ahead_ns) <= now_ns;
            let due = changes.partition_point(is_due);
            changes[..due].iter().for_each(|change| self.apply(pid, dso, change));
            self.dumps[number].next = next + due;
            let rest = changes.get(due).map(|change| to_recorders_ns(change.time_ns, ahead_ns));
            self.next_ns = self.next_ns.into_iter().chain(rest).min();
            if due > 0 {
                changed(pid);
            }
        }
    }

    fn apply(&mut self, pid: i32, dso: DsoId, change: &JitChange) {
        let JitChange { start, end, code, .. } = *change;
        let space = Arc::make_mut(self.spaces.entry(pid).or_default());
        // Other code has replaced an entry with another range, at least in part.
        if code.is_none() {
            if space.get(&start).is_some_and(|old| old.end == end) {
                space.remove(&start);
            }
            return;
        }
        while let Some((&old_start, &old)) =
            space.range(..end).next_back().filter(|(_, old)| old.end > start)
        {
            space.remove(&old_start);
            if old.end > end {
                let address = old.address + (end - old_start);
                space.insert(end, CodeRange { address, ..old });
            }
            if old_start < start {
                space.insert(old_start, CodeRange { end: start, ..old });
            }
        }
        if let Some(address) = code {
            space.insert(start, CodeRange { end, dso, address });
        }
    }

    /// Returns the address in the dump of an address in a process.
    pub(crate) fn find(&self, pid: i32, address: u64) -> Option<DsoAddress> {
        if self.spaces.is_empty() {
            return None;
        }
        let (start, code) = self.spaces.get(&pid)?.range(..=address).next_back()?;
        let CodeRange { end, dso, address: first } = *code;
        (address < end).then(|| DsoAddress { dso, address: first + (address - start) })
    }

    /// Whether a process has a perf map, as `exists` says when the process is first asked for.
    pub(crate) fn has_perf_map(&mut self, pid: i32, exists: impl FnOnce() -> bool) -> bool {
        if self.perf_maps.len() >= PROCESSES {
            self.perf_maps.clear();
        }
        *self.perf_maps.entry(pid).or_insert_with(exists)
    }

    /// Notes the runtime of a process, if a file that it mapped reveals it.
    pub(crate) fn detect_runtime(&mut self, pid: i32, path: &[u8]) {
        let before = self.runtimes.get(&pid);
        // A Python program may load another runtime as a library, which then compiles the code.
        if before.is_none_or(|before| *before == Runtime::Python)
            && self.runtimes.len() < PROCESSES
            && let Some(runtime) = Runtime::from_path(path)
        {
            self.runtimes.insert(pid, runtime);
        }
    }

    /// Notes that a process's dump can't be read.
    pub(crate) fn note_unread(&mut self, pid: i32, why: Unresolved, path: &[u8]) {
        if self.unread.len() < PROCESSES {
            self.unread.insert(pid, (why, path.into()));
        }
    }

    pub(crate) fn unread_path(&self, pid: i32) -> Option<&[u8]> {
        self.unread.get(&pid).map(|(_, path)| &**path)
    }

    /// Returns why compiled code of a process without a perf map has no names.
    pub(crate) fn why_unnamed(&self, pid: i32) -> Unresolved {
        match self.unread.get(&pid) {
            Some((Unresolved::NoFile, _)) => Unresolved::NoJitDumpFile,
            Some((why, _)) => *why,
            None => self.runtime(pid).map_or(Unresolved::NoPerfMapAtAll, Unresolved::NoPerfMap),
        }
    }

    pub(crate) fn runtime(&self, pid: i32) -> Option<Runtime> {
        self.runtimes.get(&pid).copied()
    }

    /// Copies the code and the runtime of a process to its child.
    pub(crate) fn copy_code(&mut self, parent: i32, child: i32) {
        if let Some(runtime) = self.runtime(parent).filter(|_| self.runtimes.len() < PROCESSES) {
            self.runtimes.insert(child, runtime);
        }
        if let Some(space) = self.spaces.get(&parent).filter(|_| parent != child) {
            let space = Arc::clone(space);
            self.spaces.insert(child, space);
        }
    }

    /// Drops the code, the dumps and the runtime of a process that executed a new program.
    pub(crate) fn forget_program(&mut self, pid: i32) {
        self.forget_code(pid);
        self.runtimes.remove(&pid);
        self.perf_maps.remove(&pid);
    }

    /// Drops the compiled code and the dumps of a process.
    pub(crate) fn forget_code(&mut self, pid: i32) {
        if self.spaces.remove(&pid).is_some() || !self.dumps.is_empty() {
            self.dumps.retain(|dump| dump.pid != pid);
        }
    }
}

/// Converts a time of a process whose clock is ahead to the recorder's `CLOCK_MONOTONIC`.
fn to_recorders_ns(time_ns: u64, ahead_ns: i64) -> u64 {
    let distance_ns = ahead_ns.unsigned_abs();
    match ahead_ns {
        0.. => time_ns.saturating_sub(distance_ns),
        _ => time_ns.saturating_add(distance_ns),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of a dump that was mapped before the recording.
    const TIMES: DumpTimes = DumpTimes { created_ns: Some(0), mapped_ns: None };

    fn change(time_ns: u64, start: u64, end: u64, code: Option<u64>) -> JitChange {
        JitChange { time_ns, start, end, code }
    }

    fn dso() -> DsoId {
        let dso = tare_symbols::Dso {
            kind: tare_symbols::DsoKind::JitDump { pid: 1 },
            name: b"/tmp/jit-1.dump".to_vec(),
            build_id: None,
        };
        tare_symbols::DsoTable::default().intern(dso).unwrap()
    }

    /// Returns the address in the dump of an address at some times; the dump's clock is 1000 ns
    /// ahead.
    fn at_times(changes: &[JitChange], address: u64, times: &[u64]) -> Vec<Option<u64>> {
        let mut jit = JitCode::default();
        jit.clock.add_pair(ClockPair { recorded_ns: 50, monotonic_ns: 1050 });
        jit.add_dump(1, dso(), changes, TIMES);
        let mut found = Vec::new();
        for time in times {
            jit.advance(*time, |_| changes, |pid| assert_eq!(pid, 1));
            found.push(jit.find(1, address).map(|at| at.address));
        }
        found
    }

    #[test]
    fn an_address_has_the_code_of_its_time() {
        let changes = [
            change(1010, 0x100, 0x110, Some(0)),
            change(1020, 0x100, 0x108, Some(16)),
            change(1030, 0x108, 0x118, Some(24)),
            change(1040, 0x108, 0x118, None),
        ];
        let times = [9, 10, 19, 20, 30, 40];
        assert_eq!(
            at_times(&changes, 0x104, &times),
            [None, Some(4), Some(4), Some(20), Some(20), Some(20)]
        );
        assert_eq!(
            at_times(&changes, 0x10c, &times),
            [None, Some(12), Some(12), Some(12), Some(28), None]
        );
    }

    #[test]
    fn code_of_a_process_in_a_time_namespace_has_its_own_clock() {
        let hour_ns = 3_600_000_000_000;
        let changes = [
            change(hour_ns + 1010, 0x100, 0x110, Some(0)),
            change(hour_ns + 1020, 0x100, 0x110, Some(16)),
        ];
        let noted = |jit: &mut JitCode| jit.set_ahead(1, hour_ns.cast_signed());
        let at = |times, note: &dyn Fn(&mut JitCode), is_note_late: bool| {
            let mut jit = JitCode::default();
            jit.clock.add_pair(ClockPair { recorded_ns: 50, monotonic_ns: 1050 });
            if !is_note_late {
                note(&mut jit);
            }
            jit.add_dump(1, dso(), &changes, times);
            if is_note_late {
                jit.advance(5, |_| &changes, |_| {});
                note(&mut jit);
            }
            [9, 10, 20].map(|time| {
                jit.advance(time, |_| &changes, |_| {});
                jit.find(1, 0x104).map(|at| at.address)
            })
        };
        let right = [None, Some(4), Some(20)];
        assert_eq!(at(TIMES, &noted, false), right);
        assert_eq!(at(TIMES, &noted, true), right, "the note follows");
        let created = DumpTimes { created_ns: Some(hour_ns + 1005), mapped_ns: Some(5) };
        assert_eq!(at(created, &|_| (), false), right, "the process exited before it was noted");
        let same = |jit: &mut JitCode| jit.set_ahead(1, 0);
        assert_eq!(at(created, &same, false), [None; 3], "the note is believed");
    }

    #[test]
    fn without_a_clock_the_last_code_holds() {
        let changes = [change(1010, 0x100, 0x110, Some(0)), change(1020, 0x100, 0x108, Some(16))];
        let mut jit = JitCode::default();
        assert!(jit.add_dump(1, dso(), &changes, TIMES));
        let found = [0x104, 0x10c].map(|at| jit.find(1, at).map(|at| at.address));
        assert_eq!((found, jit.untimed), ([Some(20), Some(12)], 1));
    }

    #[test]
    fn a_child_has_its_parents_code_until_it_executes() {
        let changes = [change(1, 0x100, 0x110, Some(0))];
        let mut jit = JitCode::default();
        jit.add_dump(1, dso(), &changes, DumpTimes { created_ns: None, ..TIMES });
        jit.copy_code(1, 2);
        assert!(jit.find(2, 0x100).is_some() && jit.find(3, 0x100).is_none());
        jit.forget_code(2);
        assert!(jit.find(2, 0x100).is_none() && jit.find(1, 0x100).is_some());
    }

    #[test]
    fn times_are_converted_by_the_last_reading_before() {
        let mut clock = JitClock::default();
        assert!(!clock.is_known());
        for (recorded_ns, monotonic_ns) in [(100, 1100), (200, 1205), (150, 9999)] {
            clock.add_pair(ClockPair { recorded_ns, monotonic_ns });
        }
        assert_eq!(
            [50, 100, 199, 200, 300].map(|at| clock.to_monotonic_ns(at)),
            [1050, 1100, 1199, 1205, 1305]
        );
        clock.is_monotonic = true;
        assert_eq!(clock.to_monotonic_ns(7), 7);
    }
}
