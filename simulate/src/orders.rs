//! Threads in orders that are drawn: a run's threads go on one at a time, and whenever one takes or gives
//! up a lock, waits, wakes or hands something over, who goes on is drawn.

use std::sync::{Arc, Mutex, PoisonError};

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, FailurePersistence, MaxSteps, Runner};

/// Bytes of a thread's stack: the recorder's own has as much.
const STACK: usize = 8 << 20;

/// A run that takes so many steps goes in circles.
const STEPS: usize = 10_000_000;

/// Orders of each kind.
const ORDERS: usize = 2;

/// How often an order of priorities changes.
const CHANGES: usize = 3;

/// Runs a seed some times, each time in another order: any order, and such where one thread goes on as
/// long as it can.
///
/// # Errors
/// What doesn't hold in one of them.
///
/// # Panics
/// All threads wait.
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
        // Without a second thread there are no orders, which a scheduler takes for a mistake.
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
