//! Waits for kernel locks, from the sequence of `lock:contention_begin` and `contention_end`.

use std::collections::HashMap;

use tare_kernel::bpf::{LockKind, LockSums};

use super::rows::is_spinning;

/// Maximum number of call chains, as in the kernel's table.
const CHAINS: usize = 16_384;
/// Maximum nesting of a waiter's waits.
const NESTED: usize = 4;

/// The waiter: a task, or a spinning CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Waiter {
    Task(u32),
    Cpu(u32),
}

/// A wait in progress.
#[derive(Debug)]
pub(super) struct Wait {
    pub(super) lock: u64,
    pub(super) flags: u32,
    pub(super) since_ns: u64,
    /// The kernel's call chain, innermost first.
    pub(super) chain: Vec<u64>,
}

/// Sums by kind of lock and call chain.
#[derive(Debug, Default)]
pub(super) struct ContentionSums {
    waits: HashMap<Waiter, Vec<Wait>>,
    by_chain: HashMap<(u32, Vec<u64>), LockSums>,
    uncounted_waits: u64,
}

impl ContentionSums {
    /// A task on this CPU begins to wait.
    pub(super) fn begin(&mut self, tid: u32, cpu: u32, wait: Wait) {
        let waiter = if is_spinning(wait.flags) { Waiter::Cpu(cpu) } else { Waiter::Task(tid) };
        let waits = self.waits.entry(waiter).or_default();
        // A mutex reports a second begin when it stops spinning and sleeps.
        if waits.last().is_some_and(|last| last.lock == wait.lock) {
            return;
        }
        if waits.len() >= NESTED {
            waits.clear(); // their ends were lost
        }
        waits.push(wait);
    }

    /// A task on this CPU no longer waits for the lock.
    pub(super) fn end(&mut self, tid: u32, cpu: u32, lock: u64, time_ns: u64) {
        let found = [Waiter::Cpu(cpu), Waiter::Task(tid)].into_iter().find_map(|waiter| {
            let waits = self.waits.get_mut(&waiter)?;
            let at = waits.iter().rposition(|wait| wait.lock == lock)?;
            let wait = waits.swap_remove(at);
            waits.truncate(at);
            Some(wait)
        });
        let Some(wait) = found else { return };
        let ns = time_ns.saturating_sub(wait.since_ns);
        let is_full = self.by_chain.len() >= CHAINS;
        let key = (wait.flags, wait.chain);
        if is_full && !self.by_chain.contains_key(&key) {
            self.uncounted_waits += 1;
            return;
        }
        let new = || LockSums {
            kind: LockKind::Kernel(wait.flags),
            chain: 0,
            frames: key.1.clone(),
            waits: 0,
            total_ns: 0,
            max_ns: 0,
        };
        let new = new();
        let sums = self.by_chain.entry(key).or_insert(new);
        sums.waits += 1;
        sums.total_ns += ns;
        sums.max_ns = sums.max_ns.max(ns);
    }

    /// Returns the sums, unordered.
    pub(super) fn read(&self) -> Vec<LockSums> {
        self.by_chain.values().cloned().collect()
    }

    /// Number of waits that didn't fit in the table.
    pub(super) fn uncounted_waits(&self) -> u64 {
        self.uncounted_waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(lock: u64, flags: u32, since_ns: u64) -> Wait {
        Wait { lock, flags, since_ns, chain: vec![7] }
    }

    #[test]
    fn ends_nested_waits_by_their_lock() {
        let mut sums = ContentionSums::default();
        sums.begin(5, 0, wait(0x10, 33, 100));
        sums.begin(5, 1, wait(0x20, 1, 110));
        sums.end(5, 1, 0x20, 115);
        sums.begin(5, 0, wait(0x10, 32, 150));
        sums.end(6, 0, 0x10, 160);
        sums.end(5, 1, 0x10, 300);
        let of =
            |flags| sums.by_chain.get(&(flags, vec![7])).map(|sums| (sums.waits, sums.total_ns));
        assert_eq!((of(33), of(1), of(32)), (Some((1, 200)), Some((1, 5)), None));
        for lock in 0..100 {
            sums.begin(5, 0, wait(lock, 32, 1));
        }
        assert!(sums.waits[&Waiter::Task(5)].len() <= NESTED);
    }
}
