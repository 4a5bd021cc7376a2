//! Simulates a sequence of short processes under events that sample at a frequency: how often each
//! task is sampled depends on the period at which a child starts.
//!
//! Occurrences are nanoseconds of CPU time, so every task's desired period is 1e9 / rate. As in the
//! kernel (`perf_adjust_period`), each sample moves the period an eighth of the way there.

use fastrand::Rng;

/// Nanoseconds that a task stays on a CPU at most. Each CPU has its own copy of a per-task event.
const SLICE_NS: f64 = 10e6;

/// The initial period of a new task's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// 1, as for a parent that never ran on that CPU.
    One,
    /// The period that the first program reached at its start; 1 on CPUs where it never ran.
    Stale,
    /// A moving average of the last periods of earlier tasks' events (the kernel patch of 2017).
    Average,
    /// No per-task events: each CPU's events continue across tasks.
    PerCpu,
}

pub(crate) const POLICIES: [Policy; 4] =
    [Policy::One, Policy::Stale, Policy::Average, Policy::PerCpu];

/// The simulated machine and events.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) policy: Policy,
    pub(crate) cpus: usize,
    pub(crate) events: usize,
    /// Samples a second.
    pub(crate) rate: f64,
    pub(crate) tasks: usize,
    pub(crate) seed: u64,
}

/// The results.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ForksOutcome {
    /// Interrupts a second of CPU time, all events together.
    pub(crate) interrupts: f64,
    /// Events that a fork copies.
    pub(crate) cloned: f64,
    /// Share of the CPU time that no sample represents.
    pub(crate) unseen: f64,
    /// Share of the tasks that have no sample.
    pub(crate) tasks_unseen: f64,
}

/// An event of a task on a CPU, or of a CPU.
#[derive(Clone, Copy, Debug)]
struct PeriodicEvent {
    period: f64,
    /// Counted since the last sample.
    since: f64,
}

impl PeriodicEvent {
    fn starting_at(period: f64) -> Self {
        Self { period: period.max(1.0), since: 0.0 }
    }

    /// Counts for some time. Returns the number of samples, and the time that they represent.
    fn run(&mut self, mut time_ns: f64, wanted: f64) -> (u64, f64) {
        let mut samples = 0;
        let mut stands_for = 0.0;
        while time_ns >= self.period - self.since {
            time_ns -= self.period - self.since;
            stands_for += self.period;
            samples += 1;
            self.since = 0.0;
            self.period = (self.period + (wanted - self.period) / 8.0).max(1.0);
        }
        self.since += time_ns;
        (samples, stands_for)
    }
}

/// Draws a task's CPU time, with a heavy tail: Pareto with exponent 1.3, at least 0.2 ms, 0.34 ms
/// in the median, at most 2 s.
pub(crate) fn draw_lifetime_ns(rng: &mut Rng) -> f64 {
    (0.2e6 * (1.0 - rng.f64()).powf(-1.0 / 1.3)).min(2e9)
}

/// Runs the tasks one after the other, each in slices on random CPUs. All events behave alike, so
/// one is simulated.
pub(crate) fn simulate(setting: &Setting) -> ForksOutcome {
    let Setting { policy, cpus, events, rate, tasks, seed } = *setting;
    let mut rng = Rng::with_seed(seed);
    let wanted = 1e9 / rate;
    // The first program, a shell, runs for 5 ms, on two CPUs if there are two. Its events reach a
    // period there.
    let mut first = vec![PeriodicEvent::starting_at(1.0); cpus];
    for cpu in [0, cpus / 2] {
        first[cpu].run(2.5e6, wanted);
    }
    let stale: Vec<f64> = first.iter().map(|event| event.period).collect();
    let mut cpu_events = vec![PeriodicEvent::starting_at(wanted); cpus];
    let mut average = 1.0;
    let mut used = 0.0;
    let mut seen = 0.0;
    let mut samples = 0;
    let mut silent = 0;
    for _ in 0..tasks {
        let mut task_events: Vec<Option<PeriodicEvent>> = vec![None; cpus];
        let mut left = draw_lifetime_ns(&mut rng);
        used += left;
        let mut task_samples = 0;
        while left > 0.0 {
            let slice = left.min(SLICE_NS);
            let cpu = rng.usize(..cpus);
            left -= slice;
            let start = match policy {
                Policy::Stale => stale[cpu],
                Policy::Average => average,
                Policy::One | Policy::PerCpu => 1.0,
            };
            let event = if policy == Policy::PerCpu {
                &mut cpu_events[cpu]
            } else {
                task_events[cpu].get_or_insert(PeriodicEvent::starting_at(start))
            };
            let (number, stands_for) = event.run(slice, wanted);
            task_samples += number;
            seen += stands_for;
        }
        samples += task_samples;
        silent += usize::from(task_samples == 0);
        for event in task_events.iter().flatten() {
            average += (event.period - average) / 8.0;
        }
    }
    ForksOutcome {
        interrupts: samples as f64 * events as f64 / (used / 1e9),
        cloned: if policy == Policy::PerCpu { 0.0 } else { (events * cpus) as f64 },
        unseen: 1.0 - seen / used,
        tasks_unseen: silent as f64 / tasks as f64,
    }
}
