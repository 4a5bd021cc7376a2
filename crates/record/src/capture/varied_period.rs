//! Varies the periods of clocks, so that samples don't keep step with a program.
//!
//! The kernel gives a clock one fixed period. A program that repeats itself with that period, or a
//! multiple of it, is then always sampled at the same place.
//!
//! The period is longer and shorter than the requested one in turns, so that the average rate stays
//! the requested one. That keeps weights right: a clock's samples state the period that it was
//! opened with (`perf_swevent_hrtimer` takes `last_period`, which `PERF_EVENT_IOC_PERIOD` leaves).
//! A child's event starts with the period that its parent's has at the fork, and its samples state
//! that one.

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

/// Time between two of the first changes, so that short recordings have several periods too.
const FIRST_CHANGE: Duration = Duration::from_millis(200);

/// Number of the first changes.
const FIRST_CHANGES: u32 = 6;

/// The smallest and the largest deviation of a longer period. At 99 Hz and 2%, a second's samples
/// pass two whole rounds of a program that repeats itself with the requested period.
const DEVIATION: [f64; 2] = [0.02, 0.06];

/// The shortest period that is varied, in nanoseconds: the kernel's clocks have none below 10 us
/// (`perf_swevent_init_hrtimer`).
const SHORTEST_NS: u64 = 11_000;

/// The number of open events of tasks up to which their periods change again and again. Each change
/// is a system call that interrupts the task's CPU.
const MOST_TASK_EVENTS: usize = 1024;

/// The golden ratio's fraction: its multiples are spread evenly between 0 and 1.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

impl Events {
    /// Gives clocks another period if it is time for that. In events that a task's children
    /// inherited the period stays: the change doesn't reach them.
    pub(crate) fn vary_periods(&mut self, now: Instant) {
        let changes = &mut self.period_changes;
        let last = *changes.last.get_or_insert(now);
        let due = if changes.number < FIRST_CHANGES { FIRST_CHANGE } else { CHANGE };
        if now.saturating_duration_since(last) >= due {
            *changes = PeriodChanges { number: changes.number + 1, last: Some(now) };
            let changes_tasks = self.opened.len() <= MOST_TASK_EVENTS;
            self.set_varied_periods(|target| changes_tasks || is_of_cpus(target));
        }
    }

    /// Gives the clocks of these targets their current period. A kernel that refuses keeps the
    /// requested one.
    pub(super) fn set_varied_periods(&self, which: impl Fn(EventTarget) -> bool) {
        for (nth, opened) in (0..).zip(&self.opened) {
            if opened.is_dropped || !which(opened.target) {
                continue;
            }
            if let Some(period_ns) = self.clock_period_ns(opened).filter(|ns| *ns >= SHORTEST_NS) {
                let period_ns = varied_period_ns(period_ns, nth, self.period_changes.number);
                let _ = opened.file.set_period(period_ns);
            }
        }
    }

    /// Returns the number of samples due so far of each clock of a CPU, by event and CPU: the time
    /// that it was on, by its period. Leaves out clocks that don't sample all of the time.
    pub(crate) fn due_samples(&self) -> BTreeMap<(usize, u32), u64> {
        let mut due = BTreeMap::new();
        let samples_always = |attr: &Attr| {
            !attr.flags.intersects(PARTIAL) && !attr.flags.contains(Flags::WRITE_BACKWARD)
        };
        for opened in &self.opened {
            let EventTarget::Cpu(cpu) = opened.target else { continue };
            let Some(period_ns) = self.clock_period_ns(opened) else { continue };
            if !samples_always(&self.wanted[opened.event].attr) {
                continue;
            }
            if let Some(count) = self.count_of(opened) {
                *due.entry((opened.event, cpu)).or_insert(0) += count.running_ns() / period_ns;
            }
        }
        due
    }

    /// Returns the requested period of an open event that is a clock; `None` for other events.
    fn clock_period_ns(&self, opened: &OpenEvent) -> Option<u64> {
        let wanted = &self.wanted[opened.event];
        let period_ns = match wanted.attr.sampling {
            Sampling::Frequency(hz) => {
                let hz = opened.step.checked_sub(1).map_or(hz, |slower| wanted.slower[slower]);
                1_000_000_000_u64.checked_div(hz)?
            }
            Sampling::Period(period_ns) => period_ns,
            Sampling::None => return None,
        };
        is_clock(&wanted.attr).then_some(period_ns).filter(|period_ns| *period_ns > 0)
    }
}

/// Whether an event is one of the kernel's clocks.
fn is_clock(attr: &Attr) -> bool {
    let clocks = [abi::PERF_COUNT_SW_CPU_CLOCK, abi::PERF_COUNT_SW_TASK_CLOCK];
    attr.kind == abi::PERF_TYPE_SOFTWARE
        && clocks.into_iter().any(|id| attr.config == u64::from(id))
}

fn is_of_cpus(target: EventTarget) -> bool {
    matches!(target, EventTarget::Cpu(_) | EventTarget::CgroupOnCpu(..))
}

/// Returns a period near the requested one: longer and shorter in turns. Two turns from an even
/// change on have the same deviation, and on average the requested rate. `nth` is the event's
/// place, so that clocks differ.
fn varied_period_ns(requested_ns: u64, nth: u32, change: u32) -> u64 {
    let [least, most] = DEVIATION;
    let spread = (f64::from(nth) + f64::from(change / 2) * 2.0) * GOLDEN;
    let deviation = least + (most - least) * spread.fract();
    let is_longer = (u64::from(nth) + u64::from(change)).is_multiple_of(2);
    let longer = 1.0 + deviation;
    // Both rates have the average 1: 1 / (1 + d) + (1 + 2d) / (1 + d) = 2.
    let factor = if is_longer { longer } else { longer / (1.0 + 2.0 * deviation) };
    // Positive, and a user's number of nanoseconds at most.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let period_ns = (requested_ns as f64 * factor).round() as u64;
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
    fn clocks_of_cpus_change_their_period_several_times_in_the_first_seconds() {
        let kernel = Scripted::new();
        let cpus = [0, 1].map(|cpu| (cpu, EventTarget::Cpu(cpu)));
        let wanted = event(clock(Sampling::Frequency(1000)), &cpus);
        let mut events = Events::open(&kernel, vec![wanted]).unwrap();
        let start = Instant::now();
        for quarter in 0..=14 {
            events.vary_periods(start + quarter * Duration::from_millis(250));
        }
        let periods = periods(&kernel);
        assert_eq!(
            periods.len(),
            18,
            "at the start, each of six flushes, two seconds: {periods:?}"
        );
        let deviation = |period: &u64| period.abs_diff(1_000_000);
        assert!(periods.iter().all(|period| (19_000..=60_000).contains(&deviation(period))));
        let of_first_cpu: Vec<_> = periods.iter().step_by(2).map(|p| *p > 1_000_000).collect();
        assert_eq!(of_first_cpu[..4], [true, false, true, false], "{periods:?}");
    }

    #[test]
    fn a_pair_of_periods_has_the_requested_rate() {
        for (nth, change) in [(0, 0), (3, 4), (4, 6)] {
            let rate = |change| 1e6 / varied_period_ns(1_000_000, nth, change) as f64;
            let average = (rate(change) + rate(change + 1)) / 2.0;
            assert!((average - 1.0).abs() < 1e-5, "{nth} {change}: {average}");
        }
    }

    #[test]
    fn due_samples_follow_from_the_time_that_a_clock_was_on() {
        // On for two seconds, one of them on a counter.
        let answer = ScriptedAnswer::Count(5, 2_000_000_000, 1_000_000_000);
        let kernel = Scripted::new().rule(|_, _| true, answer);
        let cpu = [(3, EventTarget::Cpu(3))];
        let read_format = ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING;
        let attr = Attr { read_format, ..clock(Sampling::Frequency(100)) };
        let user = Attr { flags: Flags::EXCLUDE_KERNEL, ..attr.clone() };
        let fixed = Attr { sampling: Sampling::Period(5_000_000), ..attr.clone() };
        let wanted = [attr, user, fixed].map(|attr| event(attr, &cpu));
        let events = Events::open(&kernel, wanted.into()).unwrap();
        assert_eq!(events.due_samples(), [((0, 3), 100), ((2, 3), 200)].into());
    }

    #[test]
    fn fixed_periods_of_clocks_vary_too() {
        let kernel = Scripted::new();
        let cpu = [(0, EventTarget::Cpu(0))];
        let fixed = clock(Sampling::Period(1_000_000));
        let mut events = Events::open(&kernel, vec![event(fixed, &cpu)]).unwrap();
        let start = Instant::now();
        events.vary_periods(start);
        events.vary_periods(start + CHANGE);
        let periods = periods(&kernel);
        assert!(periods.len() == 2 && !periods.contains(&1_000_000), "{periods:?}");
    }

    #[test]
    fn other_events_and_the_shortest_periods_stay_as_requested() {
        let kernel = Scripted::new();
        let cpu = [(0, EventTarget::Cpu(0))];
        let cycles = Attr { sampling: Sampling::Frequency(99), ..Attr::default() };
        let counted = Attr { sampling: Sampling::Period(1_000_000), ..Attr::default() };
        let shortest = clock(Sampling::Period(10_000));
        let wanted = [cycles, counted, shortest].map(|attr| event(attr, &cpu));
        let mut events = Events::open(&kernel, wanted.into()).unwrap();
        let start = Instant::now();
        events.vary_periods(start);
        events.vary_periods(start + CHANGE);
        assert_eq!(periods(&kernel), [0; 0]);
    }

    #[test]
    fn clocks_of_tasks_change_unless_there_are_many() {
        for (tasks, expected) in [(1, 2), (1500, 1500)] {
            let kernel = Scripted::new();
            let targets: Vec<_> =
                (0..tasks).map(|tid| (0, EventTarget::TaskOnCpu(tid + 7, 0))).collect();
            let wanted = event(clock(Sampling::Frequency(1000)), &targets);
            let mut events = Events::open(&kernel, vec![wanted]).unwrap();
            let start = Instant::now();
            events.vary_periods(start);
            events.vary_periods(start + CHANGE);
            assert_eq!(periods(&kernel).len(), expected);
        }
    }
}
