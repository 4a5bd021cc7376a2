//! Computes the waits of threads from scheduler tracepoints and records of switches, forks, execs
//! and exits in time order, in the way of the BPF program (`bpf/offcpu.bpf.c` of `tare-kernel`).

use std::collections::HashMap;
use std::sync::Arc;

use tare_kernel::bpf::{OffCpuCounts, WaitState};

/// Limit on sums between two drains, as in the BPF program.
const MOST_SUMS: usize = 16_384;
/// Nanoseconds by which another CPU's wake-up may precede the beginning of the wait that it ends.
const WOKEN_EARLY_NS: u64 = 50_000;

/// The bits of `prev_state` of `sched:sched_switch` that hold a state, and the ones that mark a
/// dead task (`TASK_REPORT`, `EXIT_DEAD`, `EXIT_ZOMBIE` of `include/linux/sched.h`).
const STATES: u32 = 0xff;
const DEAD: u32 = 0x30;

/// Limits on which waits are recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Nanoseconds below which waits are only counted.
    pub(super) min_ns: u64,
    /// Nanoseconds from which waits are reported individually.
    pub(super) long_ns: Option<u64>,
}

/// Waits with equal keys are summed up.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct WaitKey {
    pub(super) pid: i32,
    pub(super) tid: i32,
    pub(super) state: WaitState,
    /// Addresses with perf's `PERF_CONTEXT_*` markers.
    pub(super) callchain: Arc<[u64]>,
}

/// The sum of waits with equal keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WaitSum {
    pub(super) ns: u64,
    pub(super) waits: u64,
    pub(super) end_ns: u64,
    pub(super) cpu: u32,
}

#[derive(Debug)]
struct Thread {
    pid: i32,
    is_followed: bool,
    /// When the thread last got a CPU, and when it was last woken.
    back_ns: u64,
    woken_ns: u64,
    wait: Option<OpenWait>,
}

/// A wait under way.
#[derive(Debug)]
struct OpenWait {
    start_ns: u64,
    state: u32,
    callchain: Arc<[u64]>,
}

/// Threads, and the sums of their waits.
#[derive(Debug)]
pub(super) struct Waits {
    /// Whether all tasks are followed: a thread that wasn't added counts from its first switch on.
    all: bool,
    /// The recorder's process, if its waits don't count.
    left_out: Option<i32>,
    limits: Limits,
    threads: HashMap<i32, Thread>,
    /// Start of counting; `None` while nothing counts.
    since_ns: Option<u64>,
    sums: HashMap<WaitKey, WaitSum>,
    long: Vec<(WaitKey, WaitSum)>,
    pub(super) counts: OffCpuCounts,
}

impl Waits {
    pub(super) fn new(all: bool, left_out: Option<i32>, limits: Limits) -> Self {
        Self {
            all,
            left_out,
            limits,
            threads: HashMap::new(),
            since_ns: None,
            sums: HashMap::new(),
            long: Vec::new(),
            counts: OffCpuCounts::default(),
        }
    }

    /// Adds a thread. `waits` is the start (ns) and the state of its wait; `None` if it doesn't
    /// wait. Threads of the recorder that don't count aren't followed.
    pub(super) fn add(&mut self, pid: i32, tid: i32, is_followed: bool, waits: Option<(u64, u32)>) {
        let wait =
            waits.map(|(start_ns, state)| OpenWait { start_ns, state, callchain: [].into() });
        let is_followed = is_followed && self.left_out != Some(pid);
        self.threads.insert(tid, Thread { pid, is_followed, back_ns: 0, woken_ns: 0, wait });
    }

    /// Handles the command's execve: follows its thread from now on.
    pub(super) fn execute(&mut self, tid: i32) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.is_followed = true;
        }
    }

    /// Handles a fork: the new task waits for its first turn on a CPU.
    pub(super) fn fork(&mut self, parent: i32, pid: i32, tid: i32, time_ns: u64) {
        let is_followed = match self.threads.get(&parent) {
            Some(parent) => parent.is_followed,
            None => self.all,
        };
        if is_followed || self.all {
            self.add(pid, tid, is_followed, is_followed.then_some((time_ns, 0)));
        }
    }

    pub(super) fn exit(&mut self, tid: i32) {
        self.threads.remove(&tid);
    }

    pub(super) fn wake(&mut self, tid: i32, time_ns: u64) {
        if let Some(thread) = self.threads.get_mut(&tid) {
            thread.woken_ns = time_ns;
        }
    }

    /// Handles a thread that leaves its CPU; `state` is the tracepoint's `prev_state`.
    pub(super) fn switch_out(
        &mut self,
        pid: i32,
        tid: i32,
        state: u32,
        callchain: Arc<[u64]>,
        time_ns: u64,
    ) {
        if self.all && !self.threads.contains_key(&tid) {
            self.add(pid, tid, true, None);
        }
        let Some(thread) = self.threads.get_mut(&tid).filter(|thread| thread.is_followed) else {
            return;
        };
        if state & DEAD != 0 {
            thread.wait = None;
        } else if time_ns >= thread.back_ns {
            let state = state & STATES;
            if state == 0 || time_ns.saturating_sub(thread.woken_ns) > WOKEN_EARLY_NS {
                thread.woken_ns = 0;
            }
            let unended = thread.wait.replace(OpenWait { start_ns: time_ns, state, callchain });
            // The chain of a wait that began before the recording is unknown; the thread may have
            // come back before the first record.
            if unended.is_some_and(|wait| !wait.callchain.is_empty()) && self.since_ns.is_some() {
                self.counts.missing_waits += 1;
            }
        }
    }

    /// Handles a thread that gets a CPU.
    pub(super) fn switch_in(&mut self, tid: i32, cpu: u32, time_ns: u64) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.back_ns = time_ns;
        let woken_ns = std::mem::take(&mut thread.woken_ns);
        let pid = thread.pid;
        if let Some(wait) = thread.wait.take() {
            self.end(pid, tid, &wait, woken_ns, (time_ns, cpu));
        }
    }

    /// Starts counting; a wait under way counts from now on.
    pub(super) fn enable(&mut self, now_ns: u64) {
        self.since_ns = Some(now_ns);
    }

    pub(super) fn is_enabled(&self) -> bool {
        self.since_ns.is_some()
    }

    /// Stops counting; a wait under way counts until now.
    pub(super) fn disable(&mut self, now_ns: u64) {
        let waiting = self.threads.iter_mut().filter(|(_, thread)| thread.is_followed);
        let cut = |(tid, thread): (&i32, &mut Thread)| {
            let OpenWait { start_ns, state, ref callchain } = *thread.wait.as_ref()?;
            let wait = OpenWait { start_ns, state, callchain: Arc::clone(callchain) };
            Some((thread.pid, *tid, wait, thread.woken_ns))
        };
        let waiting: Vec<_> = waiting.filter_map(cut).collect();
        for (pid, tid, wait, woken_ns) in waiting {
            self.end(pid, tid, &wait, woken_ns, (now_ns, 0));
        }
        self.since_ns = None;
    }

    /// Ends a wait, or cuts it here.
    fn end(&mut self, pid: i32, tid: i32, wait: &OpenWait, woken_ns: u64, end: (u64, u32)) {
        let Some(since_ns) = self.since_ns else { return };
        let (now_ns, cpu) = end;
        let start_ns = wait.start_ns.max(since_ns);
        let ns = now_ns.saturating_sub(start_ns);
        if ns == 0 || ns < self.limits.min_ns {
            self.counts.short_waits += 1;
            self.counts.short_ns += ns;
            return;
        }
        let queued_from_ns = match (wait.state, woken_ns) {
            (0, _) => start_ns,
            (_, 0) => now_ns,
            (_, woken_ns) => woken_ns.clamp(start_ns, now_ns),
        };
        let is_long = self.limits.long_ns.is_some_and(|long_ns| ns >= long_ns);
        for (from, to, on_run_queue) in
            [(start_ns, queued_from_ns, false), (queued_from_ns, now_ns, true)]
        {
            if to > from {
                let state = WaitState { state: wait.state, io: false, on_run_queue };
                let key = WaitKey { pid, tid, state, callchain: Arc::clone(&wait.callchain) };
                let sum = WaitSum { ns: to - from, waits: 1, end_ns: to, cpu };
                self.sum_up(key, sum, is_long);
            }
        }
    }

    fn sum_up(&mut self, key: WaitKey, new: WaitSum, is_long: bool) {
        let kept = self.sums.len() + self.long.len();
        if kept >= MOST_SUMS && (is_long || !self.sums.contains_key(&key)) {
            self.counts.missing_waits += 1;
            self.counts.missing_ns += new.ns;
        } else if is_long {
            self.long.push((key, new));
        } else {
            let sum = self.sums.entry(key).or_default();
            *sum = WaitSum { ns: sum.ns + new.ns, waits: sum.waits + 1, ..new };
        }
    }

    /// Returns the sums since the last call.
    pub(super) fn take(&mut self) -> impl Iterator<Item = (WaitKey, WaitSum)> + use<> {
        let long = std::mem::take(&mut self.long);
        long.into_iter().chain(std::mem::take(&mut self.sums))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { min_ns: 0, long_ns: None };

    /// Returns each sum's thread, state, whether it is on a run queue, and nanoseconds.
    fn found(waits: &mut Waits) -> Vec<(i32, u32, bool, u64)> {
        let of = |(key, sum): (WaitKey, WaitSum)| {
            (key.tid, key.state.state, key.state.on_run_queue, sum.ns)
        };
        let mut all: Vec<_> = waits.take().map(of).collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn waits_end_on_the_run_queue_from_the_wake_up_on() {
        let mut waits = Waits::new(false, None, LIMITS);
        waits.add(7, 7, true, None);
        waits.enable(100);
        let chain: Arc<[u64]> = [1, 2].into();
        waits.switch_out(7, 7, 1, Arc::clone(&chain), 1000);
        waits.wake(7, 5000);
        waits.switch_in(7, 0, 5200);
        waits.switch_out(7, 7, 0x100, Arc::clone(&chain), 6000);
        waits.switch_in(7, 0, 6050);
        // A thread that isn't followed.
        waits.switch_out(8, 8, 1, chain, 6000);
        waits.switch_in(8, 0, 9000);
        assert_eq!(found(&mut waits), [(7, 0, true, 50), (7, 1, false, 4000), (7, 1, true, 200)]);
        assert_eq!(found(&mut waits), []);
    }

    #[test]
    fn forked_threads_are_followed_and_dead_threads_do_not_wait() {
        let mut waits = Waits::new(false, None, LIMITS);
        waits.add(7, 7, false, None);
        waits.enable(0);
        waits.fork(7, 8, 8, 10);
        waits.execute(7);
        waits.fork(7, 9, 9, 100);
        waits.switch_in(8, 0, 130);
        waits.switch_in(9, 1, 140);
        waits.switch_out(9, 9, 0x20, [].into(), 200);
        waits.exit(9);
        waits.switch_in(9, 1, 500);
        waits.disable(900);
        assert_eq!(found(&mut waits), [(9, 0, true, 40)]);
    }

    #[test]
    fn waits_are_cut_at_start_and_end_of_the_recording() {
        let mut waits = Waits::new(true, Some(3), LIMITS);
        waits.add(7, 7, true, Some((50, 1)));
        waits.add(3, 3, true, Some((50, 1)));
        waits.enable(100);
        waits.switch_out(5, 5, 2, [].into(), 150);
        waits.disable(400);
        assert_eq!(found(&mut waits), [(5, 2, false, 250), (7, 1, false, 300)]);
        waits.switch_in(5, 0, 500);
        waits.enable(600);
        waits.switch_in(7, 0, 700);
        assert_eq!(found(&mut waits), [(7, 1, false, 100)]);
        // The record of an earlier switch may arrive after the thread has a CPU again: it begins no
        // wait.
        waits.switch_out(7, 7, 1, [].into(), 650);
        waits.disable(800);
        assert_eq!(found(&mut waits), []);
    }

    #[test]
    fn a_wait_without_an_end_is_missing() {
        let mut waits = Waits::new(false, None, LIMITS);
        waits.add(7, 7, true, Some((50, 1)));
        waits.enable(100);
        for at in [1000, 2000, 3000] {
            waits.switch_out(7, 7, 1, [1].into(), at);
        }
        waits.switch_in(7, 0, 3500);
        assert_eq!((waits.counts.missing_waits, waits.counts.missing_ns), (2, 0));
        assert_eq!(found(&mut waits), [(7, 1, false, 500)]);
    }

    #[test]
    fn short_waits_are_counted_and_long_waits_reported_alone() {
        let mut waits = Waits::new(true, None, Limits { min_ns: 10, long_ns: Some(100) });
        waits.enable(0);
        for (from, to) in [(0, 5), (10, 30), (40, 60), (1000, 1100), (2000, 2100)] {
            waits.switch_out(7, 7, 1, [].into(), from);
            waits.switch_in(7, 0, to);
        }
        assert_eq!((waits.counts.short_waits, waits.counts.short_ns), (1, 5));
        assert_eq!(found(&mut waits), [(7, 1, false, 40), (7, 1, false, 100), (7, 1, false, 100)]);
    }

    #[test]
    fn waits_beyond_the_table_are_counted_as_missing() {
        let mut waits = Waits::new(true, None, LIMITS);
        waits.enable(0);
        for at in 0..MOST_SUMS as u64 + 3 {
            waits.switch_out(7, 7, 1, [at].into(), 10 * at + 1);
            waits.switch_in(7, 0, 10 * at + 3);
        }
        assert_eq!((waits.counts.missing_waits, waits.counts.missing_ns), (3, 6));
        assert_eq!(found(&mut waits).len(), MOST_SUMS);
    }
}
