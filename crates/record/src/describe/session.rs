//! The session: version, command line, clock, times, groups, branches, build ids.

use rustix::time::{
    ClockId, DynamicClockId, Timespec, clock_getres, clock_gettime, clock_gettime_dynamic,
};
use tare_format::file::writer::{BuildId, Clock, Feature, Group};

/// Facts about a session. Facts that are unknown when the description is made are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFacts {
    /// The recorder's version.
    pub version: String,
    /// The recorder's command line, beginning with its name.
    pub command_line: Vec<String>,
    /// The clock of the timestamps, if one was chosen.
    pub clock: Option<RecordingClock>,
    /// Times of the first and the last sample, in nanoseconds of that clock.
    pub sample_time_ns: Option<(u64, u64)>,
    /// The groups of more than one event.
    pub groups: Vec<Group>,
    /// Whether samples contain branches.
    pub has_branches: bool,
    /// The files that samples can lie in: see [`super::BuildIds`].
    pub build_ids: Vec<BuildId>,
}

/// A clock's resolution, and a reading of it together with the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingClock {
    /// Resolution in nanoseconds.
    pub resolution_ns: u64,
    /// Both clocks, read one after the other.
    pub clock: Clock,
}

impl RecordingClock {
    /// Reads a clock of `perf_event_attr.clockid`. Returns `None` if perf events don't support it.
    #[must_use]
    pub fn now(clockid: i32) -> Option<Self> {
        let clockid = u32::try_from(clockid).ok()?;
        let clocks =
            [ClockId::Realtime, ClockId::Monotonic, ClockId::MonotonicRaw, ClockId::Boottime];
        let known = clocks.into_iter().find(|clock| *clock as u32 == clockid);
        let read = || match known {
            Some(clock) => Some(ns(clock_gettime(clock))),
            None if clockid == CLOCK_TAI => clock_gettime_dynamic(DynamicClockId::Tai).ok().map(ns),
            None => None,
        };
        // TAI has the resolution of the time of day, from which it differs by whole seconds.
        let resolution_ns = ns(clock_getres(known.unwrap_or(ClockId::Realtime)));
        let wall = || ns(clock_gettime(ClockId::Realtime));
        let pair = closest_pair(read, wall)?;
        let clock = Clock { clockid, wall_clock_ns: pair.wall_ns, clock_ns: pair.clock_ns };
        Some(Self { resolution_ns, clock })
    }
}

/// Number of times that both clocks are read.
const PAIRS: usize = 5;

/// Reads one clock between two readings of the other, several times, and returns the readings that
/// are closest together. A task that loses its CPU in between doesn't shift one clock against the other.
fn closest_pair(
    mut read: impl FnMut() -> Option<u64>,
    mut wall: impl FnMut() -> u64,
) -> Option<ClockPair> {
    let mut pair = || {
        let before = wall();
        let clock_ns = read()?;
        let gap_ns = wall().saturating_sub(before);
        Some(ClockPair { gap_ns, clock_ns, wall_ns: before + gap_ns / 2 })
    };
    let pairs: Option<Vec<_>> = (0..PAIRS).map(|_| pair()).collect();
    pairs?.into_iter().min_by_key(|pair| pair.gap_ns)
}

/// Two clocks at one moment, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockPair {
    /// Time between the readings before and after it.
    gap_ns: u64,
    clock_ns: u64,
    wall_ns: u64,
}

/// `CLOCK_TAI` of `include/uapi/linux/time.h`.
const CLOCK_TAI: u32 = 11;

/// Converts to nanoseconds. None of these clocks is ever negative.
fn ns(time: Timespec) -> u64 {
    let whole = u64::try_from(time.tv_sec).unwrap_or(0).saturating_mul(1_000_000_000);
    whole.saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0))
}

impl SessionFacts {
    pub(super) fn features(&self) -> Vec<Feature> {
        let mut features = vec![Feature::Version(self.version.clone())];
        if !self.command_line.is_empty() {
            features.push(Feature::CommandLine(self.command_line.clone()));
        }
        if let Some(RecordingClock { resolution_ns, clock }) = self.clock {
            features.extend([Feature::ClockResolutionNs(resolution_ns), Feature::Clock(clock)]);
        }
        if let Some((first_ns, last_ns)) = self.sample_time_ns {
            features.push(Feature::SampleTime { first_ns, last_ns });
        }
        if !self.groups.is_empty() {
            features.push(Feature::Groups(self.groups.clone()));
        }
        if self.has_branches {
            features.push(Feature::BranchStack);
        }
        if !self.build_ids.is_empty() {
            features.push(Feature::BuildIds(self.build_ids.clone()));
        }
        features
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The clocks differ by 1,000. A pause after the first reading of every pair but the third
    /// would shift them.
    #[test]
    fn a_pause_between_two_clocks_does_not_shift_them() {
        let now = Cell::new(5_000);
        let reads = Cell::new(0);
        let wall = || {
            now.set(now.get() + 2);
            now.get() + 1_000
        };
        let read = || {
            let pause = if reads.replace(reads.get() + 1) == 2 { 2 } else { 700 };
            now.set(now.get() + pause);
            Some(now.get())
        };
        let pair = closest_pair(read, wall).unwrap();
        assert_eq!((pair.gap_ns, pair.wall_ns - pair.clock_ns), (4, 1_000));
        assert_eq!(closest_pair(|| None, || 7), None);
    }
}
