//! The loops whose throughput is measured with and without sampling.

use std::hint::black_box;

use fastrand::Rng;
use serde::{Deserialize, Serialize};
use tare_kernel::timestamp;

/// The kinds of loops. No loop depends on its own stores: every interrupt changes the speed of
/// store forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadKind {
    /// Counts its passes in registers, like the loop of the published study. It loses the time that
    /// samples take.
    Counting,
    /// Follows pointers through more memory than a core's caches hold. It also loses the cache
    /// lines that samples evict.
    Memory,
    /// Branches by a fixed random pattern that the CPU has learnt. It also loses the branch
    /// predictions that samples evict.
    Branchy,
}

impl LoadKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Counting, Self::Memory, Self::Branchy];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Counting => "counting",
            Self::Memory => "memory",
            Self::Branchy => "branchy",
        }
    }
}

/// Bytes of the memory loop: more than the second-level cache of a core.
const MEMORY_BYTES: usize = 16 << 20;
/// Bytes of a cache line; each has one pointer.
const LINE: usize = 64;
/// Number of branches in the pattern.
const PATTERN: usize = 4096;
/// Steps of each kind between two readings of the clock: about ten microseconds.
const STEPS: [u32; 3] = [8_000, 100, 2_000];

/// A loop and its data.
#[derive(Debug)]
pub struct Load {
    kind: LoadKind,
    words: Vec<u32>,
    place: u32,
    taken: [u32; 64],
}

/// A loop's progress.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Passes per tick.
    pub speed: f64,
}

impl Load {
    /// Prepares a loop; its pattern depends on the seed.
    #[must_use]
    pub fn new(kind: LoadKind, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let words = match kind {
            LoadKind::Counting => Vec::new(),
            LoadKind::Memory => create_cycle(MEMORY_BYTES / LINE, &mut rng),
            LoadKind::Branchy => (0..PATTERN).map(|_| rng.u32(..2)).collect(),
        };
        Self { kind, words, place: 0, taken: [0; 64] }
    }

    /// Runs for at least this number of ticks of the CPU's clock. Never inlined: copies at
    /// different addresses differ in speed, those of the branchy loop by 20%.
    #[inline(never)]
    pub fn run(&mut self, ticks: u64) -> Progress {
        let steps = STEPS[self.kind as usize];
        let begin = timestamp::ticks();
        let mut passes = 0_u64;
        let mut spent = 0;
        while spent < ticks {
            match self.kind {
                LoadKind::Counting => self.place = count(self.place, steps),
                LoadKind::Memory => self.place = chase(&self.words, self.place, steps),
                LoadKind::Branchy => {
                    self.place = branch(&self.words, &mut self.taken, self.place, steps);
                }
            }
            passes += u64::from(steps);
            black_box(self.place);
            spent = timestamp::ticks().wrapping_sub(begin);
        }
        Progress { speed: passes as f64 / spent as f64 }
    }
}

fn count(from: u32, steps: u32) -> u32 {
    // The compiler would compute a plain sum without a loop.
    (0..steps).fold(from, |count, step| (count ^ step).rotate_left(7).wrapping_add(1))
}

fn chase(lines: &[u32], from: u32, steps: u32) -> u32 {
    (0..steps).fold(from, |at, _| lines[at as usize])
}

fn branch(pattern: &[u32], taken: &mut [u32; 64], from: u32, steps: u32) -> u32 {
    let mut sum = from;
    for step in 0..steps as usize {
        // A store in only one arm prevents the compiler from replacing the branch by a selection.
        if pattern[step % PATTERN] == 0 {
            taken[step % 64] = sum;
            sum = sum.wrapping_add(1);
        } else {
            sum = sum.rotate_left(3);
        }
    }
    sum
}

/// Creates a cycle of pointers, one in each cache line, through all lines in random order
/// (Sattolo's algorithm).
fn create_cycle(lines: usize, rng: &mut Rng) -> Vec<u32> {
    let stride = LINE / size_of::<u32>();
    let mut order: Vec<u32> = (0..u32::try_from(lines).unwrap_or(u32::MAX)).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, rng.usize(..last));
    }
    let mut words = vec![0; lines * stride];
    let scaled = u32::try_from(stride).unwrap_or(1);
    for (from, to) in order.into_iter().enumerate() {
        words[from * stride] = to * scaled;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pointers_are_one_cycle() {
        let words = create_cycle(64, &mut Rng::with_seed(1));
        let mut seen = std::collections::BTreeSet::new();
        let mut at = 0;
        while seen.insert(at) {
            at = words[at as usize];
        }
        assert_eq!(seen.len(), 64);
    }

    #[test]
    fn every_loop_makes_passes_for_the_requested_time() {
        for kind in LoadKind::ALL {
            let begin = timestamp::ticks();
            let progress = Load::new(kind, 3).run(1_000_000);
            assert!(timestamp::ticks() - begin >= 1_000_000);
            assert!(progress.speed > 0.0, "{kind:?}");
        }
    }
}
