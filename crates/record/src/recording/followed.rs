//! Adds the facts about a followed command to the ledger: at the beginning how it is followed, at
//! the end its tasks, and the share of their usage that the samples account for.

use std::collections::BTreeSet;
use std::time::Duration;

use tare_format::abi::{Attr, Flags, Sampling};
use tare_kernel::cgroup::CpuTime;
use tare_kernel::kept_counts;

use super::ledger::nanos;
use crate::capture::scanner::{SampleWeight, Scanner};
use crate::capture::tasks::{CommandTasks, Tasks};
use crate::follow::Following;
use crate::options::{Begin, Keep};
use crate::plan::PlannedEvent;
use crate::session::RecordSession;
use tare_format::ledger::{Coverage, Follow, FollowMode, Ledger, LedgerEvent};

/// Number of samples below which chance decides whether they account for 90%.
const FEW_SAMPLES: f64 = 20.0;

/// Usage of the command's cgroup while the command ran.
#[derive(Debug, Default)]
pub(super) struct CgroupUsage {
    used_before: Option<CpuTime>,
    used: Option<CpuTime>,
    /// Threads in the cgroup when recording ended, just before or after.
    threads: BTreeSet<i32>,
}

impl CgroupUsage {
    /// Reads the usage before the command starts.
    pub(super) fn read_at_start(&mut self, following: Option<&Following>) {
        self.used_before =
            following.and_then(|following| following.cgroup.as_ref()?.cpu_time().ok());
    }

    /// Reads usage and threads at the end of recording. Threads that the cgroup lists have not
    /// exited.
    pub(super) fn read_at_end(&mut self, following: Option<&Following>) {
        let Some(cgroup) = following.and_then(|following| following.cgroup.as_ref()) else {
            return;
        };
        self.threads.extend(cgroup.threads().unwrap_or_default());
        let used = cgroup.cpu_time().ok();
        self.used = used.zip(self.used_before).map(|(now, before)| now.since(before));
    }
}

/// Returns the weight of a sample of each event if tasks are counted separately; `None` without a
/// followed command, or if only part of the records is kept.
pub(super) fn weights(session: &RecordSession) -> Option<Vec<SampleWeight>> {
    let of = |attr: &Attr| match attr.sampling {
        Sampling::None => SampleWeight::Fixed(0),
        Sampling::Period(period) => SampleWeight::Fixed(period),
        Sampling::Frequency(_) => SampleWeight::InSample,
    };
    let wanted = session.following.is_some() && session.options.rings.keep == Keep::All;
    wanted.then(|| session.plan.events.iter().map(|planned| of(&planned.attr)).collect())
}

/// Returns how the command is followed, for the note at the beginning.
pub(super) fn beginning(following: Option<&Following>, root: Option<i32>) -> Option<Follow> {
    let following = following?;
    Some(Follow {
        mode: following.mode,
        why: following.why.as_ref().map(ToString::to_string),
        root: root?,
        ..Follow::default()
    })
}

/// Completes the ledger, and removes the command's cgroup.
pub(super) fn complete(
    ledger: &mut Ledger,
    session: &RecordSession,
    scanners: &[&Scanner],
    counts: &[Option<u64>],
    used: Option<CpuTime>,
    seen: &CgroupUsage,
) {
    let removed =
        session.following.as_ref().and_then(|following| Some(following.cgroup.as_ref()?.remove()));
    let Some(follow) = &mut ledger.follow else { return };
    if let Some(removed) = removed {
        let cgroup = session.following.as_ref().and_then(|following| following.cgroup.as_ref());
        follow.outlived = removed.moved;
        follow.cgroup_kept =
            cgroup.filter(|_| !removed.gone).map(|cgroup| cgroup.name().to_owned());
    }
    for (event, planned) in ledger.events.iter_mut().zip(&session.plan.events) {
        event.fixed = planned.fixed;
    }
    let tasks: Vec<&Tasks> = scanners.iter().filter_map(|scanner| scanner.tasks.as_ref()).collect();
    if tasks.is_empty() {
        return;
    }
    let family = CommandTasks::sum_up(
        tasks.iter().copied(),
        follow.root,
        session.plan.events.len(),
        follow.mode == FollowMode::System,
    );
    follow.tasks = Some(family.tasks);
    follow.unseen_tasks = family.unseen;
    if follow.mode == FollowMode::Inherit && family.tasks > 1 {
        follow.kernel_keeps_counts = kept_counts::kernel_keeps_counts(&*session.backend.kernel);
    }
    // A recording that ended early doesn't miss later tasks.
    let is_whole = ledger.stopped.is_none();
    if follow.mode == FollowMode::Cgroup && ledger.losses.is_empty() && is_whole {
        follow.left_cgroup = family.not_ended.saturating_sub(seen.threads.len() as u64);
    }
    let mode = follow.mode;
    let command = CommandUsage {
        mode,
        time: time_used(session, used.filter(|_| is_whole), seen),
        recorded_ns: ledger.recorded_ns,
    };
    for (number, event) in ledger.events.iter_mut().enumerate() {
        let Some(&sampled) = family.periods.get(number) else { continue };
        let count = counts.get(number).copied().flatten().filter(|_| mode != FollowMode::System);
        command.cover(session, number, sampled, count, event);
    }
}

/// The command's usage, to compare with its samples.
struct CommandUsage {
    mode: FollowMode,
    /// `None` if unknown.
    time: Option<CpuTime>,
    recorded_ns: u64,
}

impl CommandUsage {
    /// Adds to an event's ledger the share that its samples account for, and the event's exact
    /// count if it is inherited with separate counts: `sampled` is the sum of their periods,
    /// `count` the event's total.
    fn cover(
        &self,
        session: &RecordSession,
        number: usize,
        sampled: u64,
        count: Option<u64>,
        event: &mut LedgerEvent,
    ) {
        let Some(planned) = session.plan.events.get(number) else { return };
        event.counted = count.filter(|_| {
            self.mode == FollowMode::Inherit && planned.attr.flags.contains(Flags::INHERIT_STAT)
        });
        let is_time = planned.is_clock();
        let time = self.time.filter(|_| is_time).map(|time| time_at_levels(time, &planned.attr));
        if planned.attr.sampling == Sampling::None || session.is_tracking_only(number) {
            return;
        }
        let busy = self.time.map(|time| nanos(time.user + time.system));
        let highest_hz = session.backend.host.sysctl("kernel.perf_event_max_sample_rate");
        let highest_hz = highest_hz.ok().and_then(|hz| u64::try_from(hz).ok());
        event.coverage = time.or(count).map(|used| Coverage {
            sampled,
            used,
            is_time,
            is_little: is_little(planned.attr.sampling, used, busy.unwrap_or(self.recorded_ns)),
            is_highest_rate: rate(planned).is_some_and(|hz| Some(hz) >= highest_hz),
        });
    }
}

/// Returns the CPU time of the command's tasks while they were recorded; `None` if that was only
/// part of the time.
fn time_used(
    session: &RecordSession,
    command: Option<CpuTime>,
    seen: &CgroupUsage,
) -> Option<CpuTime> {
    let always = session.options.begin == Begin::AtOnce && !session.options.may_pause;
    seen.used.or(command).filter(|_| always)
}

/// Returns the sampling frequency in Hz, also if a fixed period replaces it; `None` for other
/// periods.
fn rate(planned: &PlannedEvent) -> Option<u64> {
    match planned.attr.sampling {
        Sampling::Frequency(hz) => Some(hz),
        Sampling::Period(_) | Sampling::None => planned.fixed.map(|fixed| fixed.hz),
    }
}

/// Returns the nanoseconds at the privilege levels that an event counts.
fn time_at_levels(time: CpuTime, attr: &Attr) -> u64 {
    let no_user = attr.flags.contains(Flags::EXCLUDE_USER);
    let no_kernel = attr.flags.contains(Flags::EXCLUDE_KERNEL);
    let user = if no_user { Duration::ZERO } else { time.user };
    let system = if no_kernel { Duration::ZERO } else { time.system };
    nanos(user + system)
}

/// Whether the usage is too little for a judgement: fewer than [`FEW_SAMPLES`] samples were to be
/// expected.
fn is_little(sampling: Sampling, used: u64, busy_ns: u64) -> bool {
    let samples = match sampling {
        Sampling::None => 0.0,
        Sampling::Period(period) => used as f64 / period as f64,
        Sampling::Frequency(hz) => busy_ns as f64 * hz as f64 / 1e9,
    };
    samples < FEW_SAMPLES
}
