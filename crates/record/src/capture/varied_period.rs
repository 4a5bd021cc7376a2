//! Varies the periods of clocks, so that samples don't keep step with a program.
//!
//! The kernel gives a clock with a frequency one fixed period. A program that repeats itself with
//! that period, or a multiple of it, is then always sampled at the same place. Each sample states
//! the period that it stands for, so weights stay right.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use tare_format::abi::bindings as abi;
use tare_format::abi::{Attr, Flags, Sampling};
use tare_kernel::open::EventTarget;

use super::opening::{Events, OpenEvent, PeriodChanges};

/// Flags of events that skip a part of the time.
const PARTIAL: Flags = Flags::EXCLUDE_USER
    .union(Flags::EXCLUDE_KERNEL)
    .union(Flags::EXCLUDE_IDLE)
    .union(Flags::EXCLUDE_HV)
    .union(Flags::EXCLUDE_HOST);

/// Time between two changes of the period.
const CHANGE: Duration = Duration::from_secs(1);

/// The smallest and the largest deviation from the requested period. At 99 Hz and 2%, a second's
/// samples pass two whole rounds of a program that repeats itself with the requested period.
const DEVIATION: [f64; 2] = [0.02, 0.06];

/// The golden ratio's fraction: its multiples are spread evenly between 0 and 1.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Events {
    /// Gives clocks of CPUs another period if the last one is a second old.
    pub(crate) fn vary_periods(&mut self, now: Instant) {
        let changes = &mut self.period_changes;
        let last = *changes.last.get_or_insert(now);
        if now.saturating_duration_since(last) >= CHANGE {
            *changes = PeriodChanges { number: changes.number + 1, last: Some(now) };
            self.set_varied_periods(is_of_cpus);
        }
    }

    /// Gives the clocks of these targets their current period. A kernel that refuses keeps the
    /// requested one.
    pub(super) fn set_varied_periods(&self, which: impl Fn(EventTarget) -> bool) {
        for (nth, opened) in (0..).zip(&self.opened) {
            if opened.is_dropped || !which(opened.target) {
                continue;
            }
            if let Some(hz) = self.clock_hz(opened) {
                let period = varied_period_ns(hz, nth + self.period_changes.number);
                let _ = opened.file.set_period(period);
            }
        }
    }

    /// Returns the number of samples due so far of each clock of a CPU, by event and CPU: the time
    /// that it was on, by its frequency. Leaves out clocks that don't sample all of the time.
    pub(crate) fn due_samples(&self) -> BTreeMap<(usize, u32), u64> {
        let mut due = BTreeMap::new();
        let samples_always = |attr: &Attr| {
            !attr.flags.intersects(PARTIAL) && !attr.flags.contains(Flags::WRITE_BACKWARD)
        };
        for opened in &self.opened {
            let EventTarget::Cpu(cpu) = opened.target else { continue };
            let Some(hz) = self.clock_hz(opened) else { continue };
            if !samples_always(&self.wanted[opened.event].attr) {
                continue;
            }
            if let Some(count) = self.count_of(opened) {
                let samples = u128::from(count.running_ns()) * u128::from(hz) / 1_000_000_000;
                *due.entry((opened.event, cpu)).or_insert(0) +=
                    u64::try_from(samples).unwrap_or(u64::MAX);
            }
        }
        due
    }

    /// Returns the frequency of an open event that is a clock; `None` for other events and for
    /// fixed periods.
    fn clock_hz(&self, opened: &OpenEvent) -> Option<u64> {
        let wanted = &self.wanted[opened.event];
        let Sampling::Frequency(hz) = wanted.attr.sampling else { return None };
        let hz = opened.step.checked_sub(1).map_or(hz, |slower| wanted.slower[slower]);
        is_clock(&wanted.attr).then_some(hz).filter(|hz| *hz > 0)
    }
}

/// Whether an event is one of the kernel's clocks.
fn is_clock(attr: &Attr) -> bool {
    let clocks = [abi::PERF_COUNT_SW_CPU_CLOCK, abi::PERF_COUNT_SW_TASK_CLOCK];
    attr.kind == abi::PERF_TYPE_SOFTWARE
        && clocks.into_iter().any(|id| attr.config == u64::from(id))
}

/// Whether a target is a CPU. A change doesn't reach the events that a task's children inherited.
fn is_of_cpus(target: EventTarget) -> bool {
    matches!(target, EventTarget::Cpu(_) | EventTarget::CgroupOnCpu(..))
}

/// Returns a period near that of a frequency: longer and shorter in turns.
fn varied_period_ns(hz: u64, nth: u32) -> u64 {
    let [least, most] = DEVIATION;
    let deviation = least + (most - least) * (f64::from(nth) * GOLDEN).fract();
    let sign = if nth.is_multiple_of(2) { 1.0 } else { -1.0 };
    let period_ns = 1e9 / hz as f64 * (1.0 + sign * deviation);
    // Positive, and at most 1.06 s.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let period_ns = period_ns.round() as u64;
    period_ns
}

#[cfg(test)]
mod tests {
    use tare_format::abi::ReadFormat;
    use tare_kernel::fake::{Scripted, ScriptedAnswer};

    use super::super::EventToOpen;
    use super::*;

    fn event(attr: Attr, targets: &[(u32, EventTarget)]) -> EventToOpen {
        EventToOpen {
            name: "e".to_owned(),
            attr,
            slower: Vec::new(),
            leader: None,
            targets: targets.to_vec(),
        }
    }

    fn clock(sampling: Sampling) -> Attr {
        let config = abi::PERF_COUNT_SW_CPU_CLOCK.into();
        Attr { kind: abi::PERF_TYPE_SOFTWARE, config, sampling, ..Attr::default() }
    }

    fn periods(kernel: &Scripted) -> Vec<u64> {
        let calls = kernel.calls();
        let words = calls.iter().map(|call| call.split(' ').collect::<Vec<_>>());
        words.filter(|words| words[0] == "period").map(|words| words[2].parse().unwrap()).collect()
    }

    #[test]
    fn clocks_of_cpus_change_their_period_every_second() {
        let kernel = Scripted::new();
        let cpus = [0, 1].map(|cpu| (cpu, EventTarget::Cpu(cpu)));
        let wanted = event(clock(Sampling::Frequency(1000)), &cpus);
        let mut events = Events::open(&kernel, vec![wanted]).unwrap();
        let start = Instant::now();
        for quarter in 0..=8 {
            events.vary_periods(start + quarter * Duration::from_millis(250));
        }
        let periods = periods(&kernel);
        assert_eq!(periods.len(), 6, "two at the start, two a second: {periods:?}");
        let deviation = |period: &u64| period.abs_diff(1_000_000);
        assert!(periods.iter().all(|period| (20_000..=60_000).contains(&deviation(period))));
        let of_first_cpu: Vec<bool> = periods.iter().step_by(2).map(|p| *p > 1_000_000).collect();
        assert_eq!(of_first_cpu, [true, false, true], "{periods:?}");
    }

    #[test]
    fn due_samples_follow_from_the_time_that_a_clock_was_on() {
        // On for two seconds, one of them on a counter.
        let answer = ScriptedAnswer::Count(5, 2_000_000_000, 1_000_000_000);
        let kernel = Scripted::new().rule(|_, _| true, answer);
        let cpu = [(3, EventTarget::Cpu(3))];
        let read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let attr = Attr { read_format, ..clock(Sampling::Frequency(99)) };
        let user = Attr { flags: Flags::EXCLUDE_KERNEL, ..attr.clone() };
        let events = Events::open(&kernel, vec![event(attr, &cpu), event(user, &cpu)]).unwrap();
        assert_eq!(events.due_samples(), [((0, 3), 99)].into());
    }

    #[test]
    fn fixed_periods_and_other_events_stay_as_requested() {
        let kernel = Scripted::new();
        let cpu = [(0, EventTarget::Cpu(0))];
        let cycles = Attr { sampling: Sampling::Frequency(99), ..Attr::default() };
        let fixed = clock(Sampling::Period(1_000_000));
        let mut events =
            Events::open(&kernel, vec![event(cycles, &cpu), event(fixed, &cpu)]).unwrap();
        let start = Instant::now();
        events.vary_periods(start);
        events.vary_periods(start + CHANGE);
        assert_eq!(periods(&kernel), [0; 0]);
    }

    #[test]
    fn clocks_of_tasks_have_one_period() {
        let kernel = Scripted::new();
        let task = [(0, EventTarget::TaskOnCpu(7, 0))];
        let wanted = event(clock(Sampling::Frequency(1000)), &task);
        let mut events = Events::open(&kernel, vec![wanted]).unwrap();
        let start = Instant::now();
        events.vary_periods(start);
        events.vary_periods(start + CHANGE);
        assert_eq!(periods(&kernel).len(), 1);
    }
}
