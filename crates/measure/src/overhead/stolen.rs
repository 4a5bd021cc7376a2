//! Measures stolen time: the gaps in a loop that only reads the CPU's clock.

use tare_kernel::timestamp;

/// A span of time on some clock, such as a gap in which the loop didn't run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its start.
    pub from: u64,
    /// Its end.
    pub to: u64,
}

impl Span {
    /// Its length, in the unit of the clock.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.to.saturating_sub(self.from)
    }
}

/// The gaps of a loop, in nanoseconds of `CLOCK_MONOTONIC_RAW`.
#[derive(Debug, Default)]
pub struct StolenTimes {
    /// Time from the loop's start to its end, including the gaps.
    pub elapsed_ns: u64,
    /// Gaps, ascending. The average length of an uninterrupted pass is subtracted from each.
    pub gaps: Vec<Span>,
}

/// Passes of the loop that take more nanoseconds than this were interrupted. A pass usually takes
/// about 20 ns.
const GAP_NS: u64 = 400;
/// Maximum number of gaps recorded by a call of [`watch`].
const ROOM: usize = 1 << 14;

/// Watches the clock for this number of nanoseconds, and records the gaps.
#[must_use]
pub fn watch(duration_ns: u64, clock: &Clock) -> StolenTimes {
    let mut gaps = Vec::with_capacity(ROOM);
    let threshold = clock.ticks_in(GAP_NS);
    let begin = Anchor::now();
    let end = begin.ticks + clock.ticks_in(duration_ns);
    let mut last = timestamp::ticks();
    let mut passes = 0_u64;
    while last < end {
        let now = timestamp::ticks();
        // Time may go backwards: a hypervisor may move the pinned loop to a core with another
        // clock.
        if now.saturating_sub(last) > threshold && gaps.len() < ROOM {
            gaps.push(Span { from: last, to: now });
        }
        last = now;
        passes += 1;
    }
    let finish = Anchor::now();
    let line = ClockLine::through(&begin, &finish);
    let gap_ticks: u64 = gaps.iter().map(Span::length).sum();
    let own = (last.saturating_sub(begin.ticks).saturating_sub(gap_ticks)) / passes.max(1);
    let in_ns = |gap: &Span| Span { from: line.ns(gap.from + own), to: line.ns(gap.to) };
    StolenTimes { elapsed_ns: finish.ns - begin.ns, gaps: gaps.iter().map(in_ns).collect() }
}

/// The speed of the CPU's clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    ticks_per_ns: f64,
}

impl Clock {
    /// Measures the speed, for 20 ms.
    #[must_use]
    pub fn measure() -> Self {
        let begin = Anchor::now();
        while timestamp::raw_ns() < begin.ns + 20_000_000 {
            std::hint::spin_loop();
        }
        let end = Anchor::now();
        let ticks_per_ns = (end.ticks - begin.ticks) as f64 / (end.ns - begin.ns).max(1) as f64;
        Self { ticks_per_ns }
    }

    /// Converts nanoseconds to ticks.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "positive, and far below 2^64"
    )]
    pub fn ticks_in(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns) as u64
    }
}

/// A moment on both clocks.
#[derive(Clone, Copy, Debug)]
struct Anchor {
    ticks: u64,
    ns: u64,
}

impl Anchor {
    /// Reads both clocks seven times, and returns the fastest reading, so that no interrupt lies
    /// within it.
    fn now() -> Self {
        let one = |_| {
            let before = timestamp::ticks();
            let ns = timestamp::raw_ns();
            let after = timestamp::ticks();
            (
                after.wrapping_sub(before),
                Self { ticks: before + after.wrapping_sub(before) / 2, ns },
            )
        };
        (0..7)
            .map(one)
            .min_by_key(|(apart, _)| *apart)
            .map_or(Self { ticks: 0, ns: 0 }, |(_, anchor)| anchor)
    }
}

/// Converts ticks to nanoseconds, on a line through two anchors.
#[derive(Clone, Copy, Debug)]
struct ClockLine {
    from: Anchor,
    ns_per_tick: f64,
}

impl ClockLine {
    fn through(from: &Anchor, to: &Anchor) -> Self {
        let ticks = to.ticks.saturating_sub(from.ticks).max(1);
        Self { from: *from, ns_per_tick: to.ns.saturating_sub(from.ns) as f64 / ticks as f64 }
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a slice lasts milliseconds"
    )]
    fn ns(&self, ticks: u64) -> u64 {
        self.from.ns + (ticks.saturating_sub(self.from.ticks) as f64 * self.ns_per_tick) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watches_for_the_requested_time_and_returns_gaps_in_order() {
        let watched = watch(30_000_000, &Clock::measure());
        assert!(watched.elapsed_ns >= 29_000_000, "{}", watched.elapsed_ns);
        assert!(watched.gaps.is_sorted_by(|a, b| a.to <= b.from));
        assert!(watched.gaps.iter().all(|gap| gap.length() > 100));
    }

    #[test]
    fn a_line_maps_both_ends_and_the_middle() {
        let from = Anchor { ticks: 100, ns: 5000 };
        let to = Anchor { ticks: 300, ns: 5100 };
        let line = ClockLine::through(&from, &to);
        assert_eq!([100, 200, 300].map(|ticks| line.ns(ticks)), [5000, 5050, 5100]);
    }
}
