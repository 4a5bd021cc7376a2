//! Sums of slices by task and by CPU.

use tare_kernel::histogram::Histogram;

use super::event::{Slice, State, Task};

/// Time that runnable tasks waited for a CPU.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    /// Number of waits.
    pub count: u64,
    /// Total in nanoseconds.
    pub total_ns: u64,
    /// Longest wait in nanoseconds.
    pub max_ns: u64,
    /// End of the longest wait, in nanoseconds of the actions' clock.
    pub max_at_ns: u64,
    /// Distribution; `None` without waits.
    histogram: Option<Box<Histogram>>,
}

impl Waits {
    fn add(&mut self, delay_ns: u64, at_ns: u64) {
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(delay_ns);
        if delay_ns >= self.max_ns {
            (self.max_ns, self.max_at_ns) = (delay_ns, at_ns);
        }
        self.histogram.get_or_insert_with(|| Box::new(Histogram::EMPTY)).count(delay_ns);
    }

    /// Adds another's waits.
    pub fn add_all(&mut self, other: &Self) {
        self.count += other.count;
        self.total_ns = self.total_ns.saturating_add(other.total_ns);
        if other.max_ns >= self.max_ns {
            (self.max_ns, self.max_at_ns) = (other.max_ns, other.max_at_ns);
        }
        if let Some(histogram) = &other.histogram {
            self.histogram.get_or_insert_with(|| Box::new(Histogram::EMPTY)).add(histogram);
        }
    }

    /// Returns the mean in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total_ns as f64 / self.count as f64 }
    }

    /// Returns the wait in nanoseconds that this share of the waits didn't exceed, within a bucket
    /// of the histogram (a quarter of a power of two) and at most the longest wait.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> f64 {
        let quantile = self.histogram.as_ref().map_or(0.0, |histogram| histogram.quantile(share));
        quantile.min(self.max_ns as f64)
    }

    /// Iterates over the distribution: first nanosecond of a bucket, first nanosecond beyond it,
    /// count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.histogram.iter().flat_map(|histogram| histogram.buckets())
    }
}

/// The sums of a task.
#[derive(Clone, Debug)]
pub struct TaskSums {
    /// Thread id.
    pub tid: i32,
    /// Process id, if known.
    pub pid: Option<i32>,
    /// Its name when it last had a CPU. Untrusted.
    pub comm: Vec<u8>,
    /// Time on a CPU in nanoseconds.
    pub run_ns: u64,
    /// Number of times it left a CPU.
    pub switches: u64,
    /// Number of times it left a CPU although it could have continued.
    pub preempted: u64,
    /// Number of times it was switched in on another CPU than before.
    pub migrations: u64,
    /// Its waits for a CPU.
    pub waits: Waits,
}

impl TaskSums {
    pub(super) fn new(tid: i32) -> Self {
        Self {
            tid,
            pid: None,
            comm: Vec::new(),
            run_ns: 0,
            switches: 0,
            preempted: 0,
            migrations: 0,
            waits: Waits::default(),
        }
    }

    /// Adds another task's sums. The ids and the name stay as they are.
    pub(super) fn add_all(&mut self, other: &Self) {
        self.run_ns += other.run_ns;
        self.switches += other.switches;
        self.preempted += other.preempted;
        self.migrations += other.migrations;
        self.waits.add_all(&other.waits);
    }

    pub(super) fn add(&mut self, task: &Task<'_>, slice: &Slice, state: State, has_moved: bool) {
        self.pid = task.pid.or(self.pid);
        if self.comm != task.comm {
            self.comm.clear();
            self.comm.extend_from_slice(task.comm);
        }
        self.run_ns += slice.run_ns;
        self.switches += 1;
        self.preempted += u64::from(state.is_runnable());
        self.migrations += u64::from(has_moved);
        if let (true, Some(since_ns)) = (slice.has_delay, slice.since_ns) {
            self.waits.add(slice.delay_ns, since_ns);
        }
    }
}

/// The sums of a CPU.
#[derive(Clone, Debug, Default)]
pub struct CpuSums {
    /// Time that selected tasks ran, in nanoseconds.
    pub run_ns: u64,
    /// Time that the CPU had no task, in nanoseconds; complete only if all tasks are selected.
    pub idle_ns: u64,
    /// Number of times a selected task left the CPU; if all are selected, the idle task counts too.
    pub switches: u64,
    /// Number of times it got a task that was on another CPU before.
    pub migrations: u64,
    /// Waits for this CPU.
    pub waits: Waits,
}

impl CpuSums {
    pub(super) fn add(&mut self, task: &Task<'_>, slice: &Slice, has_moved: bool) {
        if !task.is_selected {
            return;
        }
        self.switches += 1;
        if task.tid == 0 {
            self.idle_ns += slice.run_ns;
        } else {
            self.run_ns += slice.run_ns;
            self.migrations += u64::from(has_moved);
            if let (true, Some(since_ns)) = (slice.has_delay, slice.since_ns) {
                self.waits.add(slice.delay_ns, since_ns);
            }
        }
    }
}
