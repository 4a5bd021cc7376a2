//! Hostile input for the readers of recordings: targets, seeds and damage. See README.md.

mod compiled;
mod damage;
mod seeds;
mod targets;
mod tracepoints;

use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

pub use damage::damage;
pub use targets::{TARGETS, Target};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that reading may ask for in all, whatever the input: the reader's buffers, that of the
/// decompressor, and tables.
const FIXED_BYTES: usize = 24 << 20;

/// And for each byte of input: what is decoded is larger than its bytes, and lists double as they
/// grow.
const BYTES_FOR_EACH: usize = 512;

/// What an input did that it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Reading it panicked.
    Panic,
    /// Reading it asked for so many bytes of memory.
    Memory(usize),
}

/// Lets a target read an input.
///
/// # Errors
/// See [`Failure`].
pub fn try_input(target: &Target, input: &[u8]) -> Result<(), Failure> {
    let region = Region::new(ALLOCATOR);
    catch_unwind(AssertUnwindSafe(|| (target.read)(input))).map_err(|_| Failure::Panic)?;
    let asked = region.change().bytes_allocated;
    if asked > FIXED_BYTES + BYTES_FOR_EACH * input.len() {
        Err(Failure::Memory(asked))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Mutex, PoisonError};

    use super::*;

    /// What is asked for is counted for the whole process: one test at a time.
    static ALLOCATING: Mutex<()> = Mutex::new(());

    /// Seeds are read, and what was found once is not found again. A file is named by its target
    /// and anything behind a `-`.
    #[test]
    fn seeds_and_what_was_found() {
        let _alone = ALLOCATING.lock().unwrap_or_else(PoisonError::into_inner);
        for target in TARGETS {
            for seed in (target.seeds)() {
                assert_eq!(try_input(target, &seed), Ok(()), "{}", target.name);
            }
        }
        for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/found")).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let Some(target) =
                TARGETS.iter().find(|target| name.split('-').next() == Some(target.name))
            else {
                continue;
            };
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
        assert!(
            matches!(try_input(&greedy, &[1]), Err(Failure::Memory(bytes)) if bytes >= 2 * FIXED_BYTES)
        );
    }
}
