//! Histograms of durations, with the buckets of the programs in the kernel (`bpf/histogram.h`).

const FIRST_POWER: u32 = 5;
const POWERS: usize = 36;

/// A histogram with `PER_POWER` buckets, a power of two, for each of the 36 powers of two from 32
/// ns on: `BUCKETS` in all. The last bucket also holds longer durations, the first shorter ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct Histogram<const PER_POWER: usize = 4, const BUCKETS: usize = 144>([u64; BUCKETS]);

/// A histogram whose buckets but the first and the last have a width of at most 1/32 of their
/// start. It takes 9 KiB.
pub type Distribution = Histogram<32, 1152>;

impl<const PER_POWER: usize, const BUCKETS: usize> Default for Histogram<PER_POWER, BUCKETS> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const PER_POWER: usize, const BUCKETS: usize> Histogram<PER_POWER, BUCKETS> {
    /// The empty histogram.
    pub const EMPTY: Self = {
        assert!(BUCKETS == PER_POWER * POWERS && PER_POWER.ilog2() <= FIRST_POWER);
        Self([0; BUCKETS])
    };

    /// Adds a duration to the bucket that the programs in the kernel choose.
    pub fn count(&mut self, duration_ns: u64) {
        let power = duration_ns.checked_ilog2().unwrap_or(0);
        let at = power.checked_sub(FIRST_POWER).map_or(0, |above| {
            let within = (duration_ns >> (power - PER_POWER.ilog2())) % PER_POWER as u64;
            PER_POWER * above as usize + usize::try_from(within).unwrap_or(0)
        });
        self.0[at.min(BUCKETS - 1)] += 1;
    }

    /// Adds another histogram's durations.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            *ours += theirs;
        }
    }

    /// Iterates over the non-empty buckets: first nanosecond, first nanosecond beyond, and count.
    /// The durations in the last bucket may lie beyond its end.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        let bounds = |at: usize| if at == 0 { 0 } else { Self::start(at) };
        (0..BUCKETS)
            .map(move |at| (bounds(at), Self::start(at + 1), self.0[at]))
            .filter(|&(.., count)| count > 0)
    }

    /// Returns a bucket's start in nanoseconds.
    fn start(at: usize) -> u64 {
        let power = FIRST_POWER + u32::try_from(at / PER_POWER).unwrap_or(0);
        (1 << power) + ((at % PER_POWER) as u64) * (1 << (power - PER_POWER.ilog2()))
    }

    /// Returns the quantile in nanoseconds, interpolated within its bucket.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        let all: u64 = self.0.iter().sum();
        let mut left = share * all as f64;
        let mut longest = 0.0;
        for (from, to, count) in self.buckets() {
            let from = from as f64;
            let to = to as f64;
            let count = count as f64;
            if left <= count {
                return from + (to - from) * left / count;
            }
            left -= count;
            longest = to;
        }
        longest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that durations at bucket edges are counted in the right bucket.
    fn counts_within_buckets<const PER_POWER: usize, const BUCKETS: usize>() {
        for ns in [0, 31, 32, 39, 40, 1000, 1 << 40, u64::MAX] {
            let mut one = Histogram::<PER_POWER, BUCKETS>::EMPTY;
            one.count(ns);
            let [(from, to, 1)] = one.buckets().collect::<Vec<_>>()[..] else { panic!("{ns}") };
            assert!(ns >= from && (ns < to || ns > 1 << 40), "{ns}: {from} to {to}");
        }
    }

    #[test]
    fn quantiles_lie_within_their_buckets() {
        counts_within_buckets::<4, 144>();
        let mut histogram: Histogram = Histogram::EMPTY;
        assert_eq!(histogram.quantile(0.5), 0.0);
        // 32, 40, 48 and 56 ns are the first four starts.
        histogram.0[0] = 50;
        histogram.0[5] = 50;
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(0, 40, 50), (80, 96, 50)]);
        assert_eq!((histogram.quantile(0.25), histogram.quantile(1.0)), (20.0, 96.0));
        assert!((80.0..96.0).contains(&histogram.quantile(0.6)));
    }

    #[test]
    fn quantiles_lie_within_fine_buckets() {
        counts_within_buckets::<32, 1152>();
        let mut durations = Distribution::default();
        assert_eq!(durations.quantile(0.5), 0.0);
        durations.0[0] = 50;
        durations.0[32] = 50; // 64 and 65 ns
        assert_eq!(durations.buckets().collect::<Vec<_>>(), [(0, 33, 50), (64, 66, 50)]);
        assert_eq!((durations.quantile(0.25), durations.quantile(1.0)), (16.5, 66.0));
        let mut twice = durations;
        twice.add(&durations);
        assert_eq!(twice.quantile(0.25), 16.5);
        assert!((0..1151).all(|at| Distribution::start(at) < Distribution::start(at + 1)));
    }
}
