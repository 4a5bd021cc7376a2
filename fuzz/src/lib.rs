//! Hostile input for readers of data that others control: targets, seeds and damage. See README.md.

mod binaries;
mod compiled;
mod corpus;
mod damage;
mod input_file;
mod machine_files;
mod reports;
mod rings;
mod seeds;
mod strict;
mod targets;
mod tracepoints;
mod unwound;
mod words;

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

pub use corpus::{corpus, keep};
pub use damage::damage;
pub use targets::{TARGETS, Target};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that reading may allocate regardless of the input: buffers of reader and decompressor, and
/// tables.
const FIXED_BYTES: usize = 24 << 20;

/// Additional bytes per byte of input: decoded data are larger than encoded, and vectors double as
/// they grow.
const BYTES_FOR_EACH: usize = 512;

/// CPU time limit per input.
const MOST_TIME: Duration = Duration::from_secs(2);

/// How an input made a target fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Reading it took too much CPU time.
    Time(Duration),
    /// Reading it panicked.
    Panic,
    /// Reading it allocated too many bytes.
    Memory(usize),
}

/// Runs a target on an input.
///
/// # Errors
/// See [`Failure`].
pub fn try_input(target: &Target, input: &[u8]) -> Result<(), Failure> {
    let region = Region::new(ALLOCATOR);
    let begin = cpu_time();
    catch_unwind(AssertUnwindSafe(|| (target.read)(input))).map_err(|_| Failure::Panic)?;
    let asked = region.change().bytes_allocated;
    if asked > FIXED_BYTES + BYTES_FOR_EACH * input.len() {
        return Err(Failure::Memory(asked));
    }
    let taken = cpu_time().saturating_sub(begin);
    if taken > MOST_TIME { Err(Failure::Time(taken)) } else { Ok(()) }
}

/// CPU time of this process.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ProcessCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// Allocations and CPU time are counted per process, so the tests of this module exclude each
    /// other. Tests of other modules don't take this lock.
    static ALLOCATING: Mutex<()> = Mutex::new(());

    /// Seeds, corpus and the inputs in `found/` pass. A file's name there is its target and a
    /// suffix after `-`.
    #[test]
    fn seeds_and_what_was_found() {
        let _alone = ALLOCATING.lock().unwrap_or_else(PoisonError::into_inner);
        for target in TARGETS {
            for seed in (target.seeds)().iter().chain(&corpus(target.name).unwrap()) {
                assert_eq!(try_input(target, seed), Ok(()), "{}", target.name);
            }
        }
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/found")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let is_of = |target: &&Target| {
                name.strip_prefix(target.name).is_some_and(|rest| rest.starts_with('-'))
            };
            let target = TARGETS.iter().find(is_of).unwrap_or_else(|| panic!("{name}: of what?"));
            assert_eq!(try_input(target, &std::fs::read(&path).unwrap()), Ok(()), "{name}");
        }
    }

    #[test]
    fn failures_are_noticed() {
        let _alone = ALLOCATING.lock().unwrap_or_else(PoisonError::into_inner);
        let seeds = || Vec::new();
        let panics = Target { name: "panics", seeds, read: |input| assert!(input.is_empty()) };
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(|_| ()));
        let failed = try_input(&panics, &[1]);
        std::panic::set_hook(hook);
        assert_eq!(failed, Err(Failure::Panic));
        let greedy = Target {
            name: "greedy",
            seeds,
            read: |_| drop(std::hint::black_box(vec![0_u8; 2 * FIXED_BYTES])),
        };
        let slow = Target {
            name: "slow",
            seeds,
            read: |_| {
                let begin = cpu_time();
                while cpu_time() < begin + MOST_TIME + Duration::from_millis(10) {}
            },
        };
        assert!(matches!(try_input(&slow, &[1]), Err(Failure::Time(_))));
        assert!(
            matches!(try_input(&greedy, &[1]), Err(Failure::Memory(bytes)) if bytes >= 2 * FIXED_BYTES)
        );
    }
}
