//! System calls summed up in the kernel: `bpf/summary.bpf.c`.

use std::collections::BTreeMap;

use aya::Pod;
use aya::maps::{Array, HashMap, MapData, PerCpuArray};

use super::error::BpfError;
use super::follow::{Call, FollowedTasks};
use super::object::{self, LoadedObject, ObjectLoader};
use super::progress::{self, CallInProgress};
use crate::histogram::Histogram;

/// The scope of a sum, besides the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumKey {
    /// All threads.
    Call,
    /// One thread.
    Thread,
    /// One cgroup (version 2).
    Cgroup,
}

/// `struct sums`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
struct RawSums {
    calls: u64,
    total_ns: u64,
    max_ns: u64,
    histogram: Histogram,
}

/// `struct key`.
#[derive(Clone, Copy)]
#[repr(C)]
struct RawKey {
    scope: u64,
    slot: u32,
    errno: u32,
}

/// `struct thread`: process and name of a thread that has exited.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ThreadName {
    /// The process, in the initial pid namespace.
    pub process: u32,
    /// The name, up to a NUL byte.
    pub comm: [u8; 16],
}

/// `struct others`: the numbers of slots behind those of the tables.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct OtherNumbers([u64; 64]);

impl OtherNumbers {
    /// Returns the call of a slot.
    fn call(&self, slot: u32) -> Call {
        let at = slot.checked_sub(2 * Call::CALLS).and_then(|at| usize::try_from(at).ok());
        let key = at.and_then(|at| self.0.get(at)).and_then(|key| key.checked_sub(2));
        match (key, Call::from_slot(slot)) {
            (Some(key), _) => Call {
                number: u32::try_from(key >> 1 & 0xffff_ffff).unwrap_or(Call::OTHERS),
                compat: key & 1 != 0,
            },
            (None, call) if call.number == Call::BEYOND => Call { number: Call::OTHERS, ..call },
            (None, call) => call,
        }
    }
}

// SAFETY: only integers and no padding, so any bytes are a valid value.
#[allow(unsafe_code)]
unsafe impl Pod for OtherNumbers {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for RawSums {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for RawKey {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for ThreadName {}

/// The sums of one call, for all threads, one thread or one cgroup.
#[derive(Clone, Debug)]
pub struct CallSums {
    /// The call.
    pub call: Call,
    /// The thread, or the cgroup's id (the inode of its folder); 0 for all threads.
    pub scope: u64,
    /// Number of calls that have returned.
    pub calls: u64,
    /// Their total time in nanoseconds.
    pub total_ns: u64,
    /// The longest time in nanoseconds.
    pub max_ns: u64,
    /// Their times, in buckets.
    pub histogram: Histogram,
    /// Number of failed calls, by errno.
    pub errors: BTreeMap<u32, u64>,
}

/// All sums.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// By call and scope, in no order.
    pub calls: Vec<CallSums>,
    /// The threads that have exited, if sums are by thread.
    pub ended: BTreeMap<u32, ThreadName>,
    /// Calls that began before the trace and returned during it. They aren't part of `calls`,
    /// because their duration is unknown.
    pub begun_before: BTreeMap<Call, u64>,
    /// Calls in progress when the sums were read. Only those of running processes are known.
    pub in_progress: Vec<CallInProgress>,
    /// Calls that the kernel's table of sums had no room for.
    pub missing_calls: u64,
    /// Errors that the kernel's table had no room for.
    pub missing_errors: u64,
}

/// Programs that sum up system calls. Dropping it unloads them.
pub struct CallSummary {
    /// `None` after [`Self::stop`].
    programs: Option<LoadedObject>,
    by: SumKey,
    /// The calls in progress when the programs were unloaded.
    in_progress: Vec<CallInProgress>,
    by_call: PerCpuArray<MapData, RawSums>,
    by_scope: HashMap<MapData, RawKey, RawSums>,
    errors: HashMap<MapData, RawKey, u64>,
    threads: HashMap<MapData, u32, ThreadName>,
    before: Array<MapData, u64>,
    others: Array<MapData, OtherNumbers>,
    missing: Array<MapData, u64>,
}

impl std::fmt::Debug for CallSummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CallSummary").field("by", &self.by).finish_non_exhaustive()
    }
}

impl CallSummary {
    /// Loads and starts the programs.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(by: SumKey, follow: &FollowedTasks) -> Result<Self, BpfError> {
        let unused = if by == SumKey::Call { "by_scope" } else { "by_call" };
        let by_number = match by {
            SumKey::Call => 0,
            SumKey::Thread => 1,
            SumKey::Cgroup => 2,
        };
        let programs = ["sys_enter", "sys_exit", "sched_process_fork"];
        let mut loader = ObjectLoader::new(object::SUMMARY, &programs)
            .follow(follow)
            .constant("by", by_number)
            .map_size(unused, 1);
        if by == SumKey::Thread {
            loader = loader.program("sched_process_exit");
        }
        let mut loaded = loader.load()?;
        if let FollowedTasks::Processes(_) = follow {
            progress::load(&mut loaded);
        }
        loaded.start(follow)?;
        Ok(Self {
            by,
            in_progress: Vec::new(),
            by_call: loaded.take_map("by_call")?,
            by_scope: loaded.take_map("by_scope")?,
            errors: loaded.take_map("errors")?,
            threads: loaded.take_map("threads")?,
            before: loaded.take_map("before")?,
            others: loaded.take_map("others")?,
            missing: loaded.take_map("missing")?,
            programs: Some(loaded),
        })
    }

    /// Unloads the programs; the sums remain readable.
    ///
    /// # Errors
    /// Fails if the calls in progress can't be listed.
    pub fn stop(&mut self) -> Result<(), BpfError> {
        if let Some(mut programs) = self.programs.take() {
            self.in_progress = progress::list(&mut programs)?;
        }
        Ok(())
    }

    /// Returns the sums so far.
    ///
    /// # Errors
    /// Fails if a map can't be read.
    pub fn read(&self) -> Result<Sums, BpfError> {
        let others = self.others.get(&0, 0)?;
        let mut errors: BTreeMap<(u64, u32), BTreeMap<u32, u64>> = BTreeMap::new();
        for entry in self.errors.iter() {
            let (key, count) = entry?;
            errors.entry((key.scope, key.slot)).or_default().insert(key.errno, count);
        }
        let mut calls = Vec::new();
        let mut add = |scope: u64, slot: u32, sums: &RawSums| {
            if sums.calls > 0 {
                calls.push(CallSums {
                    call: others.call(slot),
                    scope,
                    calls: sums.calls,
                    total_ns: sums.total_ns,
                    max_ns: sums.max_ns,
                    histogram: sums.histogram,
                    errors: errors.remove(&(scope, slot)).unwrap_or_default(),
                });
            }
        };
        if self.by == SumKey::Call {
            for slot in 0..self.by_call.len() {
                add(0, slot, &sum_of_cpus(&self.by_call.get(&slot, 0)?));
            }
        } else {
            for entry in self.by_scope.iter() {
                let (key, sums) = entry?;
                add(key.scope, key.slot, &sums);
            }
        }
        let mut begun_before = BTreeMap::new();
        for slot in 0..self.before.len() {
            let number = self.before.get(&slot, 0)?;
            if number > 0 {
                begun_before.insert(others.call(slot), number);
            }
        }
        Ok(Sums {
            calls,
            begun_before,
            in_progress: self.in_progress(&others),
            ended: self.threads.iter().collect::<Result<_, _>>()?,
            missing_calls: self.missing.get(&0, 0)?,
            missing_errors: self.missing.get(&1, 0)?,
        })
    }
}

impl CallSummary {
    /// Returns the calls in progress with their numbers.
    fn in_progress(&self, others: &OtherNumbers) -> Vec<CallInProgress> {
        let calls = self.in_progress.iter().cloned();
        calls.map(|call| CallInProgress { call: others.call(call.call.slot()), ..call }).collect()
    }
}

fn sum_of_cpus(cpus: &[RawSums]) -> RawSums {
    let mut all = RawSums { calls: 0, total_ns: 0, max_ns: 0, histogram: Histogram::EMPTY };
    for cpu in cpus.iter().filter(|cpu| cpu.calls > 0) {
        all.calls += cpu.calls;
        all.total_ns += cpu.total_ns;
        all.max_ns = all.max_ns.max(cpu.max_ns);
        all.histogram.add(&cpu.histogram);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_program() {
        assert_eq!(size_of::<RawSums>(), 24 + 8 * 144);
        assert_eq!((size_of::<RawKey>(), size_of::<ThreadName>()), (16, 20));
    }

    #[test]
    fn slots_behind_the_tables_have_their_numbers() {
        let mut others = OtherNumbers([0; 64]);
        others.0[0] = 2 * 9999 + 2;
        others.0[1] = 2 * u64::from(u32::MAX) + 1 + 2;
        let numbers = [0, 3, 511, 515, 1023, 1024, 1025].map(|slot| {
            let call = others.call(slot);
            (call.number, call.compat)
        });
        let other = Call::OTHERS;
        let first = [(0, false), (3, false), (other, false), (3, true), (other, true)];
        assert_eq!(numbers[..5], first);
        assert_eq!(numbers[5..], [(9999, false), (u32::MAX, true)]);
    }
}
