//! The clock, behind a trait so that time can be simulated.

use std::fmt;
use std::time::{Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};
use tare_format::jit_note::ClockPair;

use crate::describe::RecordingClock;

/// The clocks of a recorder and its output.
pub trait Clock: fmt::Debug + Send + Sync {
    /// Monotonic time, for deadlines and durations.
    fn now(&self) -> Instant;

    /// Time of day, for file names.
    fn time_of_day(&self) -> SystemTime;

    /// Returns the time of day of a moment in clock ticks since boot, in nanoseconds since 1970.
    /// The default implementation always returns `None`.
    fn time_of_ticks(&self, ticks: u64) -> Option<u64> {
        let _ = ticks;
        None
    }

    /// CPU time of this process so far, in nanoseconds.
    fn cpu_ns(&self) -> u64;

    /// Reads a clock of `perf_event_attr.clockid` together with the time of day. Returns `None` if
    /// perf events don't support the clock.
    fn recording_clock(&self, clockid: i32) -> Option<RecordingClock>;

    /// Reads the events' clock (`None`: the kernel's default) together with `CLOCK_MONOTONIC`.
    /// Returns `None` if the events' clock can't be read. The default implementation always returns
    /// `None`.
    fn clock_pair(&self, clockid: Option<i32>) -> Option<ClockPair> {
        let _ = clockid;
        None
    }
}

/// The clocks of the running kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn time_of_day(&self) -> SystemTime {
        SystemTime::now()
    }

    fn time_of_ticks(&self, ticks: u64) -> Option<u64> {
        let read_ns = |clock| {
            let time = clock_gettime(clock);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        let tick_ns = i128::from(1_000_000_000 / rustix::param::clock_ticks_per_second().max(1));
        let since_ns = read_ns(ClockId::Boottime) - i128::from(ticks) * tick_ns;
        u64::try_from(read_ns(ClockId::Realtime) - since_ns).ok()
    }

    fn cpu_ns(&self) -> u64 {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        u64::try_from(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec))
            .unwrap_or(0)
    }

    fn recording_clock(&self, clockid: i32) -> Option<RecordingClock> {
        RecordingClock::now(clockid)
    }

    fn clock_pair(&self, clockid: Option<i32>) -> Option<ClockPair> {
        tare_kernel::clock_pair(clockid)
    }
}
