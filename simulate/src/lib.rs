//! Simulated machines: a kernel that fills rings, a clock, a disk with faults, and the checks after
//! a run. One seed is one run.

mod checks;
pub mod clock;
mod contents;
pub mod disk;
mod failure;
mod files;
mod history;
mod machine;
mod memory;
#[cfg(shuttle)]
mod orders;
mod recording;
mod replayed;
mod scenario;
mod sink;
mod unwinder;

use fastrand::Rng;

#[cfg(shuttle)]
pub use orders::run_in_orders;

/// Runs a seed: a recording or, in one of four, a history.
///
/// # Errors
/// A check failed, or the run couldn't be carried out.
pub fn run(seed: u64) -> anyhow::Result<()> {
    let mut rng = Rng::with_seed(seed);
    if rng.u32(..4) == 0 { history::run(&mut rng) } else { recording::run(&mut rng) }
}
