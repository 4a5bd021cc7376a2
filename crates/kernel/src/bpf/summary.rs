//! Sums of system calls, made in the kernel: `bpf/summary.bpf.c`.

use std::collections::BTreeMap;

use aya::maps::{Array, HashMap, MapData, PerCpuArray};
use aya::{Pod, include_bytes_aligned};

use super::follow::{Call, Follow};
use super::load::{BpfError, Loaded, Plan};

#[cfg(target_arch = "x86_64")]
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/summary.x86_64.o");
#[cfg(target_arch = "aarch64")]
static OBJECT: &[u8] = include_bytes_aligned!("../../bpf/summary.aarch64.o");

/// What the sums are of, beside the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The call alone.
    Call,
    /// Also the thread.
    Thread,
    /// Also the cgroup (version 2).
    Cgroup,
}

const FIRST_POWER: u32 = 5;
const POWERS: u32 = 36;
const BUCKETS: usize = 4 * POWERS as usize;

/// Durations: four buckets for each power of two from 32 ns on. The last holds what is longer, the
/// first also what is shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Histogram([u64; BUCKETS]);

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
struct Key {
    scope: u64,
    slot: u32,
    errno: u32,
}

/// `struct thread`: the process and the name of a thread that has ended.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ThreadName {
    /// The process, in the first pid namespace.
    pub process: u32,
    /// The name, up to a NUL byte.
    pub comm: [u8; 16],
}

// SAFETY: integers alone, and no padding: any bytes are a value.
#[allow(unsafe_code)]
unsafe impl Pod for RawSums {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for Key {}
// SAFETY: as above.
#[allow(unsafe_code)]
unsafe impl Pod for ThreadName {}

impl Histogram {
    /// Without a duration.
    pub const EMPTY: Self = Self([0; BUCKETS]);

    /// Adds a duration, to the bucket that the programs in the kernel would add it to.
    pub fn count(&mut self, duration_ns: u64) {
        let power = duration_ns.checked_ilog2().unwrap_or(0);
        let at = power.checked_sub(FIRST_POWER).map_or(0, |above| {
            4 * above as usize + usize::try_from(duration_ns >> (power - 2) & 3).unwrap_or(0)
        });
        self.0[at.min(BUCKETS - 1)] += 1;
    }

    /// The buckets that hold anything: the first nanosecond, the first beyond, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let bounds = |at: usize| if at == 0 { 0 } else { Self::start(at) };
        (0..BUCKETS)
            .map(move |at| (bounds(at), Self::start(at + 1), self.0[at]))
            .filter(|&(.., count)| count > 0)
    }

    /// Where a bucket begins, in nanoseconds.
    fn start(at: usize) -> u64 {
        let power = FIRST_POWER + u32::try_from(at / 4).unwrap_or(POWERS);
        (1 << power) + (at as u64 % 4) * (1 << (power - 2))
    }

    fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            *ours += theirs;
        }
    }

    /// The duration, in nanoseconds, that this share of all is not longer than: within a bucket as
    /// if its calls were spread evenly.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let all: u64 = self.0.iter().sum();
        let mut left = share * all as f64;
        let mut longest = 0.0;
        for (from, to, count) in self.buckets() {
            let (from, to, count) = (from as f64, to as f64, count as f64);
            if left <= count {
                return from + (to - from) * left / count;
            }
            left -= count;
            longest = to;
        }
        longest
    }
}

/// The sums of one call, of all threads, of one thread or of one cgroup.
#[derive(Clone, Debug)]
pub struct CallSums {
    /// The call.
    pub call: Call,
    /// The thread, or the id of the cgroup (the inode of its folder); 0 where sums are by call
    /// alone.
    pub scope: u64,
    /// How many calls have returned.
    pub calls: u64,
    /// How long they took, in nanoseconds.
    pub total_ns: u64,
    /// How long the longest took, in nanoseconds.
    pub max_ns: u64,
    /// How long they took, by buckets.
    pub histogram: Histogram,
    /// How many failed, by errno.
    pub errors: BTreeMap<u32, u64>,
}

/// All that was summed up.
#[derive(Clone, Debug, Default)]
pub struct Sums {
    /// By call and scope, in no order.
    pub calls: Vec<CallSums>,
    /// The threads that ended meanwhile, where sums are by thread.
    pub ended: BTreeMap<u32, ThreadName>,
    /// Calls that found no room in the kernel's table.
    pub missing_calls: u64,
    /// Errors of counted calls that found no room.
    pub missing_errors: u64,
}

/// Programs that sum up system calls. Dropped, they are gone.
pub struct Summary {
    /// `None` when stopped.
    programs: Option<Loaded>,
    by: By,
    by_call: PerCpuArray<MapData, RawSums>,
    by_scope: HashMap<MapData, Key, RawSums>,
    errors: HashMap<MapData, Key, u64>,
    threads: HashMap<MapData, u32, ThreadName>,
    missing: Array<MapData, u64>,
}

impl std::fmt::Debug for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summary").field("by", &self.by).finish_non_exhaustive()
    }
}

impl Summary {
    /// Loads the programs and begins.
    ///
    /// # Errors
    /// See [`BpfError`].
    pub fn start(by: By, follow: &Follow) -> Result<Self, BpfError> {
        let unused = if by == By::Call { "by_scope" } else { "by_call" };
        let by_number = match by {
            By::Call => 0,
            By::Thread => 1,
            By::Cgroup => 2,
        };
        let mut programs = vec!["sys_enter", "sys_exit", "sched_process_fork"];
        if by == By::Thread {
            programs.push("sched_process_exit");
        }
        let mut programs = Loaded::load(&Plan {
            object: OBJECT,
            constants: &[("by", by_number), ("all_tasks", follow.all_tasks())],
            sizes: &[(unused, 1)],
            programs: &programs,
        })?;
        let by_call = programs.take("by_call")?.try_into()?;
        let by_scope = programs.take("by_scope")?.try_into()?;
        let errors = programs.take("errors")?.try_into()?;
        let threads = programs.take("threads")?.try_into()?;
        let missing = programs.take("missing")?.try_into()?;
        follow.mark(&programs)?;
        programs.attach()?;
        Ok(Self { programs: Some(programs), by, by_call, by_scope, errors, threads, missing })
    }

    /// Ends the summing-up: the programs are gone, the sums stay.
    pub fn stop(&mut self) {
        self.programs = None;
    }

    /// What was summed up until now.
    ///
    /// # Errors
    /// The kernel's own, when a table is read.
    pub fn read(&self) -> Result<Sums, BpfError> {
        let mut errors: BTreeMap<(u64, u32), BTreeMap<u32, u64>> = BTreeMap::new();
        for entry in self.errors.iter() {
            let (key, count) = entry?;
            errors.entry((key.scope, key.slot)).or_default().insert(key.errno, count);
        }
        let mut calls = Vec::new();
        let mut add = |scope: u64, slot: u32, sums: &RawSums| {
            if sums.calls > 0 {
                calls.push(CallSums {
                    call: Call::of_slot(slot),
                    scope,
                    calls: sums.calls,
                    total_ns: sums.total_ns,
                    max_ns: sums.max_ns,
                    histogram: sums.histogram,
                    errors: errors.remove(&(scope, slot)).unwrap_or_default(),
                });
            }
        };
        if self.by == By::Call {
            for slot in 0..self.by_call.len() {
                add(0, slot, &sum_of_cpus(&self.by_call.get(&slot, 0)?));
            }
        } else {
            for entry in self.by_scope.iter() {
                let (key, sums) = entry?;
                add(key.scope, key.slot, &sums);
            }
        }
        Ok(Sums {
            calls,
            ended: self.threads.iter().collect::<Result<_, _>>()?,
            missing_calls: self.missing.get(&0, 0)?,
            missing_errors: self.missing.get(&1, 0)?,
        })
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
        assert_eq!(size_of::<RawSums>(), 24 + 8 * BUCKETS);
        assert_eq!((size_of::<Key>(), size_of::<ThreadName>()), (16, 20));
    }

    #[test]
    fn quantiles_lie_within_their_buckets() {
        for ns in [0, 31, 32, 39, 40, 1000, 1 << 40, u64::MAX] {
            let mut one = Histogram::EMPTY;
            one.count(ns);
            let [(from, to, 1)] = one.buckets().collect::<Vec<_>>()[..] else { panic!("{ns}") };
            assert!(ns >= from && (ns < to || ns > 1 << 40), "{ns}: {from} to {to}");
        }
        let mut histogram = Histogram::EMPTY;
        assert_eq!(histogram.quantile(0.5), 0.0);
        // 32, 40, 48 and 56 ns are the first four starts.
        histogram.0[0] = 50;
        histogram.0[5] = 50;
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(0, 40, 50), (80, 96, 50)]);
        assert_eq!((histogram.quantile(0.25), histogram.quantile(1.0)), (20.0, 96.0));
        assert!((80.0..96.0).contains(&histogram.quantile(0.6)));
    }
}
