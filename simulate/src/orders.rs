//! Random thread schedules: a run's threads execute one at a time, and at every lock, unlock, wait,
//! wake-up and hand-over the scheduler picks the next thread, at random or by priority.

use std::sync::{Arc, Mutex, PoisonError};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Stack size of a thread, in bytes.
const STACK: usize = 8 << 20;

/// A run with more steps is stuck in a loop.
const STEPS: usize = 10_000_000;

/// Schedules of each kind.
const ORDERS: usize = 2;

/// Depth of the schedules by priority: each has up to `CHANGES - 1` priority changes.
const CHANGES: usize = 3;

/// Runs a seed under several schedules: random ones, and ones in which the thread of the highest
/// priority runs.
///
/// # Errors
/// A check that fails under one of them.
///
/// # Panics
/// All threads wait (deadlock), or a run has more than `STEPS` steps.
pub fn run_in_orders(seed: u64) -> anyhow::Result<()> {
    run_by(RandomScheduler::new_from_seed(seed, ORDERS), seed)?;
    run_by(PctScheduler::new_from_seed(seed, CHANGES, ORDERS), seed)
}

fn run_by(scheduler: impl Scheduler + 'static, seed: u64) -> anyhow::Result<()> {
    let mut config = Config::new();
    config.stack_size = STACK;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.failure_persistence = FailurePersistence::None;
    let failed = Arc::new(Mutex::new(None));
    let of_runs = Arc::clone(&failed);
    Runner::new(scheduler, config).run(move || {
        // The scheduler by priority rejects a run with a single thread.
        let other = shuttle::thread::spawn(shuttle::thread::yield_now);
        shuttle::thread::yield_now();
        let _ = other.join();
        if let Err(error) = crate::run(seed) {
            of_runs.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    });
    let failed = failed.lock().unwrap_or_else(PoisonError::into_inner).take();
    failed.map_or(Ok(()), Err)
}
