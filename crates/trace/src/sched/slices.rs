//! Turns context switches and wake-ups, in time order, into time slices.

use std::collections::HashMap;

use super::event::{SchedAction, Slice, State, Task};
use super::sums::{CpuSums, TaskSums};

/// Maximum number of known tasks.
const TASKS: usize = 1 << 16;
/// Maximum number of CPUs; Linux has at most 8,192.
const CPUS: usize = 1 << 13;

/// Which time and CPUs are counted.
#[derive(Clone, Debug)]
pub struct SchedOptions {
    /// Start of the counted time.
    pub from_ns: u64,
    /// End of the counted time.
    pub to_ns: u64,
    /// Only these CPUs; all if empty.
    pub cpus: Vec<u32>,
    /// Produce slices only, no sums.
    pub only_slices: bool,
}

impl Default for SchedOptions {
    fn default() -> Self {
        Self { from_ns: 0, to_ns: u64::MAX, cpus: Vec::new(), only_slices: false }
    }
}

/// State of a task between its slices.
#[derive(Clone, Copy, Debug, Default)]
struct KnownTask {
    /// Time it left its last CPU; 0: not seen.
    left_ns: u64,
    /// Time when it became runnable, kept until it leaves a CPU again; 0: it sleeps, or not seen.
    ready_ns: u64,
    last_cpu: Option<u32>,
}

/// State of a CPU.
#[derive(Debug, Default)]
struct Cpu {
    /// Time of the last switch; 0: none.
    since_ns: u64,
    /// Time its idle task left it; 0: not seen.
    idle_left_ns: u64,
    /// The running task, and whether it is selected.
    current: Option<(i32, bool)>,
    sums: CpuSums,
}

/// Turns scheduler actions into slices and sums. It takes about 50 bytes per living task and 150
/// per task that had a CPU (at most 65,536 of each), and 1.2 KB more for a task that waited.
#[derive(Debug)]
pub struct Sched {
    options: SchedOptions,
    known: HashMap<i32, KnownTask, foldhash::fast::RandomState>,
    sums: HashMap<i32, TaskSums, foldhash::fast::RandomState>,
    cpus: Vec<Cpu>,
    first_ns: Option<u64>,
    last_ns: u64,
    uncounted_switches: u64,
}

impl Sched {
    /// Creates an empty state.
    #[must_use]
    pub fn new(options: SchedOptions) -> Self {
        Self {
            options,
            known: HashMap::default(),
            sums: HashMap::default(),
            cpus: Vec::new(),
            first_ns: None,
            last_ns: 0,
            uncounted_switches: 0,
        }
    }

    /// Adds an action. For a switch, returns the slice that it ends, if it lies in the counted time
    /// and on a counted CPU.
    pub fn add_action(&mut self, time_ns: u64, action: &SchedAction<'_>) -> Option<Slice> {
        match action {
            SchedAction::Switch { cpu, prev, state, next } => {
                return self.add_switch(time_ns, *cpu, prev, *state, next);
            }
            SchedAction::Wakeup { task, .. } => {
                if let Some(known) = self.known_task(task)
                    && known.ready_ns == 0
                {
                    known.ready_ns = time_ns;
                }
            }
            SchedAction::Migrate { .. } => {}
            SchedAction::Begin(task) => {
                self.known.remove(&task.tid);
            }
        }
        None
    }

    /// Returns the state of a task, and adds it if necessary. `None` for idle tasks, for tasks that
    /// aren't selected, and for new ones if the table is full.
    fn known_task(&mut self, task: &Task<'_>) -> Option<&mut KnownTask> {
        if task.tid == 0 || !task.is_selected {
            return None;
        }
        if self.known.len() >= TASKS && !self.known.contains_key(&task.tid) {
            return None;
        }
        Some(self.known.entry(task.tid).or_default())
    }

    /// Replaces the state of a task that left its CPU, or removes it, and returns the previous one.
    fn exchange(&mut self, task: &Task<'_>, now: Option<KnownTask>) -> KnownTask {
        let before = match now {
            Some(now) => self.known_task(task).map(|known| std::mem::replace(known, now)),
            None => self.known.remove(&task.tid).filter(|_| task.is_selected),
        };
        before.unwrap_or_default()
    }

    fn cpu(&mut self, number: u32) -> Option<&mut Cpu> {
        let at = usize::try_from(number).ok().filter(|at| *at < CPUS)?;
        if at >= self.cpus.len() {
            self.cpus.resize_with(at + 1, Cpu::default);
        }
        self.cpus.get_mut(at)
    }

    fn add_switch(
        &mut self,
        time_ns: u64,
        cpu: u32,
        prev: &Task<'_>,
        state: State,
        next: &Task<'_>,
    ) -> Option<Slice> {
        let SchedOptions { from_ns, to_ns, .. } = self.options;
        let of_cpu = self.cpu(cpu)?;
        // If switches were lost, or left out because neither task is selected, the leaving task
        // isn't the one that was switched in.
        let is_known = of_cpu.current.is_none_or(|(tid, _)| tid == prev.tid);
        let since_ns = std::mem::replace(&mut of_cpu.since_ns, time_ns);
        of_cpu.current = Some((next.tid, next.is_selected));
        let since_ns = if is_known { since_ns } else { 0 };
        let idle = (prev.tid == 0).then(|| std::mem::replace(&mut of_cpu.idle_left_ns, time_ns));
        let known = match idle {
            Some(left_ns) => KnownTask { left_ns, ..KnownTask::default() },
            None => {
                let ready_ns = if state.is_runnable() { time_ns } else { 0 };
                let now = KnownTask { left_ns: time_ns, ready_ns, last_cpu: Some(cpu) };
                self.exchange(prev, (!state.is_end()).then_some(now))
            }
        };
        let is_late = time_ns > to_ns && (since_ns == 0 || since_ns > to_ns);
        if time_ns < from_ns || is_late || !self.has_cpu(cpu) {
            return None;
        }
        let begin_ns = since_ns.max(from_ns);
        let end_ns = time_ns.min(to_ns);
        let mut slice = Slice { time_ns: end_ns, ..Slice::default() };
        if since_ns > 0 {
            slice.since_ns = Some(begin_ns);
            slice.run_ns = end_ns.saturating_sub(begin_ns);
            let since =
                |past_ns: u64| if past_ns == 0 { 0 } else { begin_ns.saturating_sub(past_ns) };
            (slice.wait_ns, slice.delay_ns) = (since(known.left_ns), since(known.ready_ns));
            slice.has_delay = (1..=begin_ns).contains(&known.ready_ns);
        }
        self.first_ns = self.first_ns.or(Some(if since_ns > 0 { begin_ns } else { end_ns }));
        self.last_ns = self.last_ns.max(end_ns);
        self.add_slice(cpu, prev, &slice, state, known.last_cpu);
        Some(slice)
    }

    fn has_cpu(&self, cpu: u32) -> bool {
        self.options.cpus.is_empty() || self.options.cpus.contains(&cpu)
    }

    fn add_slice(
        &mut self,
        cpu: u32,
        task: &Task<'_>,
        slice: &Slice,
        state: State,
        before: Option<u32>,
    ) {
        if self.options.only_slices {
            return;
        }
        let has_moved = before.is_some_and(|before| before != cpu);
        if let Some(of_cpu) = self.cpu(cpu) {
            of_cpu.sums.add(task, slice, has_moved);
        }
        if task.tid == 0 || !task.is_selected {
            return;
        }
        if self.sums.len() >= TASKS && !self.sums.contains_key(&task.tid) {
            self.uncounted_switches += 1;
            return;
        }
        let sums = self.sums.entry(task.tid).or_insert_with(|| TaskSums::new(task.tid));
        sums.add(task, slice, state, has_moved);
    }

    /// Ends at this time, or at the last switch. Tasks on a CPU get the time since their switch-in.
    pub fn finish(&mut self, time_ns: Option<u64>) {
        let end_ns = time_ns.unwrap_or(self.last_ns).min(self.options.to_ns);
        for (number, cpu) in self.cpus.iter_mut().enumerate() {
            let cpus = &self.options.cpus;
            if !cpus.is_empty() && !cpus.iter().any(|cpu| *cpu as usize == number) {
                continue;
            }
            let Some((tid, is_selected)) = cpu.current.take().filter(|_| cpu.since_ns > 0) else {
                continue;
            };
            let run_ns = end_ns.saturating_sub(cpu.since_ns.max(self.options.from_ns));
            if tid == 0 {
                cpu.sums.idle_ns += run_ns;
            } else if is_selected {
                cpu.sums.run_ns += run_ns;
                if let Some(sums) = self.sums.get_mut(&tid) {
                    sums.run_ns += run_ns;
                }
            }
        }
        self.last_ns = self.last_ns.max(end_ns);
    }

    /// Returns the observed time in nanoseconds.
    #[must_use]
    pub fn seen_ns(&self) -> u64 {
        self.first_ns.map_or(0, |first_ns| self.last_ns.saturating_sub(first_ns))
    }

    /// Iterates over the sums of tasks that had a CPU, unordered.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskSums> {
        self.sums.values()
    }

    /// Iterates over the CPUs that a selected task left, with their numbers.
    pub fn cpus(&self) -> impl Iterator<Item = (usize, &CpuSums)> {
        self.cpus.iter().map(|cpu| &cpu.sums).enumerate().filter(|(_, sums)| sums.switches > 0)
    }

    /// Number of switches of tasks that didn't fit in the table.
    #[must_use]
    pub fn uncounted_switches(&self) -> u64 {
        self.uncounted_switches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(tid: i32) -> Task<'static> {
        Task { tid, pid: Some(tid), comm: b"x", is_selected: true }
    }

    fn switch(cpu: u32, prev: i32, state: u64, next: i32) -> SchedAction<'static> {
        SchedAction::Switch { cpu, prev: task(prev), state: State(state), next: task(next) }
    }

    fn wake(tid: i32) -> SchedAction<'static> {
        SchedAction::Wakeup { cpu: 0, waker: task(0), task: task(tid) }
    }

    /// Task 7 sleeps from 20, is woken at 50, waits until 60 and runs on the other CPU until 100.
    #[test]
    fn measures_a_sleep_a_wait_and_a_run() {
        let mut sched = Sched::new(SchedOptions::default());
        let events = [
            (10, switch(0, 0, 0, 7)),
            (20, switch(0, 7, 1, 0)),
            (30, switch(1, 0, 0, 8)),
            (50, wake(7)),
            (55, wake(7)),
            (60, switch(1, 8, 0, 7)),
            (100, switch(1, 7, 0x100, 8)),
        ];
        let slices: Vec<_> =
            events.iter().map(|(time_ns, action)| sched.add_action(*time_ns, action)).collect();
        let last = slices[6].unwrap();
        assert_eq!((last.run_ns, last.wait_ns, last.delay_ns), (40, 40, 10));
        assert_eq!(slices[0].unwrap().since_ns, None);
        sched.finish(Some(110));
        let sums = |tid| sched.tasks().find(|sums| sums.tid == tid).unwrap();
        assert_eq!((sums(7).run_ns, sums(7).migrations, sums(7).preempted), (50, 1, 1));
        // It continues at 100, and its wait from 60 to 100 ends with its next slice.
        assert_eq!((sums(8).run_ns, sums(8).preempted, sums(8).waits.count), (40, 1, 0));
        let cpus: Vec<_> =
            sched.cpus().map(|(cpu, sums)| (cpu, sums.run_ns, sums.idle_ns)).collect();
        assert_eq!(cpus, [(0, 10, 90), (1, 80, 0)]);
        assert_eq!(sched.seen_ns(), 100);
    }

    /// As in `perf sched timehist`: the idle task of a CPU waits while another runs there.
    #[test]
    fn an_idle_task_waits_while_another_task_runs() {
        let mut sched = Sched::new(SchedOptions::default());
        let events = [(10, 0, 0, 7), (15, 1, 8, 0), (20, 0, 7, 0), (45, 1, 0, 8), (50, 0, 0, 7)];
        let slices: Vec<_> = events
            .iter()
            .map(|&(time_ns, cpu, prev, next)| {
                let slice = sched.add_action(time_ns, &switch(cpu, prev, 1, next)).unwrap();
                (slice.wait_ns, slice.run_ns)
            })
            .collect();
        assert_eq!(slices, [(0, 0), (0, 0), (0, 10), (0, 30), (10, 30)]);
    }

    #[test]
    fn counts_only_the_selected_time() {
        let options = SchedOptions { from_ns: 15, to_ns: 40, ..SchedOptions::default() };
        let mut sched = Sched::new(options);
        let events = [(10, 0, 7), (20, 7, 8), (50, 8, 0), (60, 0, 7)];
        let slices: Vec<_> = events
            .iter()
            .map(|&(time_ns, prev, next)| sched.add_action(time_ns, &switch(0, prev, 1, next)))
            .map(|slice| slice.map(|slice| (slice.time_ns, slice.run_ns)))
            .collect();
        assert_eq!(slices, [None, Some((20, 5)), Some((40, 20)), None]);
    }
}
