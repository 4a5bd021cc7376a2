//! What both ways through a recording share: events, the time that is asked for, counts and losses.

use tare_format::abi::Sampling;
use tare_format::file::{Description, Losses};
use tare_format::record::{RawRecord, Record, TaskRead};
use tare_profile::{EventId, Profile, Thread};

use super::counted::Counts;
use super::history::History;
use super::{FillError, ProfileOptions, TimeRange};
use crate::event_name;
use tare_format::ledger::Ledger;

/// A profile while it is filled.
pub(crate) struct Filling {
    pub(crate) profile: Profile,
    /// What threads were called.
    pub(crate) history: History,
    include_self: bool,
    /// Whether rows are told apart by CPU.
    by_cpu: bool,
    from_ns: u64,
    to_ns: u64,
    events: Vec<EventId>,
    periods: Vec<u64>,
    counts: Counts,
    /// Samples weigh what was counted.
    exact: bool,
}

/// A profile that is whole, and what the recording said about itself.
pub struct Filled {
    /// The samples.
    pub profile: Profile,
    /// Events and features.
    pub description: Description,
    /// What the recorder said about itself, where it was tare.
    pub ledger: Option<Ledger>,
}

impl Filling {
    pub(crate) fn new(
        options: &ProfileOptions,
        description: &Description,
    ) -> Result<Self, FillError> {
        let (from_ns, to_ns) = match options.time {
            TimeRange::All => (0, u64::MAX),
            TimeRange::Nanoseconds(from, to) => (from, to),
            TimeRange::Percent(from, to) => percent_of(description, from, to)?,
        };
        let mut filling = Self {
            profile: Profile::default(),
            history: History::default(),
            include_self: options.include_self,
            by_cpu: options.by_cpu,
            from_ns,
            to_ns,
            events: Vec::new(),
            periods: Vec::new(),
            counts: Counts::default(),
            exact: options.exact,
        };
        filling.learn(description);
        Ok(filling)
    }

    /// Takes in events that became known since.
    pub(crate) fn learn(&mut self, description: &Description) {
        for (place, event) in description.events().iter().enumerate().skip(self.events.len()) {
            let name = self.profile.add_string(&event_name(event, place));
            self.events.push(self.profile.name_event(place, name));
            self.periods.push(match event.attr.sampling {
                Sampling::None => 0,
                Sampling::Period(period) | Sampling::Frequency(period) => period,
            });
        }
    }

    /// The event at a place of the recording.
    pub(crate) fn event(&self, place: usize) -> Option<EventId> {
        self.events.get(place).copied()
    }

    /// How many occurrences a sample stands for. What doesn't say has its event's period, as in
    /// perf.
    pub(crate) fn period(&self, of_sample: Option<u64>, place: usize) -> u64 {
        of_sample.unwrap_or_else(|| self.periods.get(place).copied().unwrap_or(0))
    }

    /// The CPU, where a row depends on it.
    pub(crate) fn cpu(&self, of_sample: Option<u32>) -> Option<u32> {
        of_sample.filter(|_| self.by_cpu)
    }

    /// Whether a sample lies in the time that is asked for. One without a time does.
    pub(crate) fn takes_time(&self, time_ns: Option<u64>) -> bool {
        time_ns.is_none_or(|time_ns| (self.from_ns..=self.to_ns).contains(&time_ns))
    }

    /// Takes in a record that is about the recording rather than a sample of it.
    pub(crate) fn notice(
        &mut self,
        raw: &RawRecord<'_>,
        record: &Record<'_>,
        description: &Description,
    ) {
        match record {
            Record::Lost(lost) => {
                self.profile.loss.lost_records =
                    self.profile.loss.lost_records.saturating_add(lost.lost);
            }
            Record::LostSamples { lost } => {
                self.profile.loss.lost_samples =
                    self.profile.loss.lost_samples.saturating_add(*lost);
            }
            Record::Throttle(_) => self.profile.loss.throttled += 1,
            Record::Read => self.count(raw, description),
            Record::Comm(_) | Record::Fork(_) => {
                self.see_task(record, description.lookup().time_ns(raw).unwrap_or(0));
            }
            _ => {}
        }
    }

    /// Takes in a task's name or begin.
    pub(crate) fn see_task(&mut self, record: &Record<'_>, time_ns: u64) {
        match record {
            Record::Comm(comm) => {
                let name = self.profile.add_string(comm.comm);
                self.history.name(comm.tid, time_ns, name);
            }
            Record::Fork(task) => self.history.fork(task.tid, time_ns, task.ptid),
            _ => {}
        }
    }

    /// Takes in the count of a task that ended. Events in a group have the counts of all: the
    /// record's own is the one with its id.
    fn count(&mut self, raw: &RawRecord<'_>, description: &Description) {
        let lookup = description.lookup();
        let Some((place, layout)) =
            lookup.of(raw).and_then(|place| Some((place, lookup.layouts().get(place)?)))
        else {
            return;
        };
        let (Ok(read), Some(event)) = (TaskRead::decode(raw, layout), self.event(place)) else {
            return;
        };
        let own = read
            .values
            .values()
            .find(|value| value.id.is_none_or(|id| lookup.with_id(id) == Some(place)));
        let Some(value) = own.map(|own| own.value) else { return };
        self.counts.add(place, &read, value, lookup.time_ns(raw).unwrap_or(u64::MAX));
        let thread = self.profile.add_thread(Thread { pid: read.pid, tid: read.tid });
        self.profile.add_count(thread, event, value);
    }

    /// The recording has ended.
    pub(crate) fn finish(mut self, description: &Description, losses: &Losses) -> Filled {
        for (place, event) in description.events().iter().enumerate() {
            let name = self.profile.add_string(&event_name(event, place));
            self.profile.name_event(place, name);
        }
        let unread = &mut self.profile.loss.unread;
        unread.extend(losses.gaps().iter().map(|gap| {
            format!("{} bytes at byte {} are left out: {}", gap.bytes, gap.offset, gap.why)
        }));
        if losses.more() > 0 {
            unread.push(format!(
                "{} more gaps; {} bytes are left out in all",
                losses.more(),
                losses.bytes()
            ));
        }
        if losses.unfinished {
            unread.push("the recorder was killed: what it had written is shown".to_owned());
        }
        let ledger = description.notes().iter().rev().find_map(|note| Ledger::from_note(note));
        if let Some(Ledger { recorder, .. }) =
            ledger.as_ref().filter(|ledger| !self.include_self && !ledger.recorder.included)
        {
            let is_own = |thread: &Thread| recorder.tids.contains(&thread.tid);
            let own = self.profile.remove_rows(|profile, row| {
                row.thread.and_then(|thread| profile.thread(thread)).is_some_and(is_own)
            });
            self.profile.loss.own_samples = own.samples;
        }
        self.compare(description, ledger.as_ref());
        Filled { profile: self.profile, description: description.clone(), ledger }
    }
}

impl Filling {
    /// Puts samples beside exact counts, and has them weigh as much where that is asked for.
    fn compare(&mut self, description: &Description, ledger: Option<&Ledger>) {
        let Self { counts, history, profile, events, .. } = self;
        let by_name = counts.by_name(profile, history, events, description, ledger);
        let last_name = |thread: &Thread| history.last(thread.tid);
        profile.compare_with_counts(&by_name, last_name);
        if self.exact {
            profile.weigh_by_counts(last_name);
        }
    }
}

/// Whether any event's samples have call chains.
#[must_use]
pub fn has_chains(description: &Description) -> bool {
    description.events().iter().any(|event| event.attr.has_callchain())
}

fn percent_of(description: &Description, from: f64, to: f64) -> Result<(u64, u64), FillError> {
    let Ok((first, last)) = description.features().sample_time_ns() else {
        return Err(FillError::NoSampleTimes);
    };
    let length = last.saturating_sub(first) as f64;
    let at = |percent: f64| {
        first.saturating_add(
            std::time::Duration::from_secs_f64(length * percent / 100.0 / 1e9)
                .as_nanos()
                .try_into()
                .unwrap_or(u64::MAX),
        )
    };
    Ok((at(from), at(to)))
}
