//! A recording from its front to its end, in order of time, with the state of the machine that it
//! was made on.
//!
//! ```text
//! file, pipe -> Reader -> Sorter -> Machine (threads, maps) -> whoever wants to see it
//! ```

mod account;
mod event_name;
mod family;
mod fill;
mod input;
mod machine;
mod stacks;
mod tasks;

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;

pub use account::Account;
pub use event_name::event_name;
pub use fill::{FillError, Filled, ProfileOptions, TimeRange, fill, has_chains};
pub use input::{InputError, open};
pub use machine::{Machine, Mode, Place};
use tare_format::file::{Description, Reader};
use tare_format::order::Sorter;
use tare_format::record::{RawRecord, ReadValues, Record, Sample, SampleHead, kind};
use tare_symbols::SymbolOptions;

/// A record whose turn it is. The machine has taken it in already.
#[derive(Clone, Copy, Debug)]
pub struct Moment<'a> {
    /// When it was made, where it says so.
    pub time_ns: Option<u64>,
    /// Events and features, as far as they are known.
    pub description: &'a Description,
    /// The event that it belongs to, an index into the description's events.
    pub event: Option<usize>,
    /// The record's bytes.
    pub raw: RawRecord<'a>,
    /// What it says.
    pub what: What<'a>,
}

/// A record's fields.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// A sample.
    Sample(&'a Sample<'a>),
    /// Anything else.
    Other(&'a Record<'a>),
}

/// What sees each record, and says whether to go on.
pub type Visit<'a, E> = dyn FnMut(&mut Machine, &Moment<'_>) -> Result<ControlFlow<()>, E> + 'a;

/// A recording that is being replayed.
#[derive(Debug)]
pub struct Replay {
    reader: Reader<File>,
    state: State,
}

/// What is known by then.
#[derive(Debug)]
struct State {
    machine: Machine,
    account: Account,
    /// The counts of events in groups, by id.
    counts: HashMap<u64, u64>,
}

impl Replay {
    /// A recording from where its reader stands.
    #[must_use]
    pub fn new(reader: Reader<File>, options: SymbolOptions) -> Self {
        let mut machine = Machine::new(options);
        machine.learn(reader.description());
        Self {
            reader,
            state: State { machine, account: Account::default(), counts: HashMap::new() },
        }
    }

    /// Events and features, as far as they are known.
    #[must_use]
    pub fn description(&self) -> &Description {
        self.reader.description()
    }

    /// Hands out every record, those with a time in order of time; ends early where `visit` breaks.
    ///
    /// # Errors
    /// The recording can't be read, or `visit` failed.
    pub fn run<E: From<io::Error>>(&mut self, visit: &mut Visit<'_, E>) -> Result<Account, E> {
        let mut sorter = Sorter::default();
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() {
            let Some(entry) = self.reader.next_record()? else { break };
            let (offset, record) = (entry.offset, entry.record);
            if let Some(time_ns) = entry.description.lookup().time_ns(&record) {
                sorter.push(time_ns, offset, &record);
            } else {
                flow = self.state.deliver(entry.description, (None, record), visit)?;
                if record.kind == kind::FINISHED_ROUND {
                    sorter.round();
                }
            }
            if flow.is_continue() {
                flow = self.drain(&mut sorter, visit)?;
            }
        }
        if flow.is_continue() {
            sorter.finish();
            let _ended_early = self.drain(&mut sorter, visit)?;
        }
        let unread = self.reader.losses().clone();
        let State { machine, account, .. } = &self.state;
        let (unwound, incomplete) = (machine.stacks.unwound, machine.stacks.incomplete);
        Ok(Account { late: sorter.late(), unwound, incomplete, unread, ..account.clone() })
    }

    fn drain<E>(
        &mut self,
        sorter: &mut Sorter,
        visit: &mut Visit<'_, E>,
    ) -> Result<ControlFlow<()>, E> {
        let description = self.reader.description();
        while let Some(ordered) = sorter.pop() {
            let record = (Some(ordered.time_ns), ordered.record);
            if self.state.deliver(description, record, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

impl State {
    fn deliver<E>(
        &mut self,
        description: &Description,
        (time_ns, raw): (Option<u64>, RawRecord<'_>),
        visit: &mut Visit<'_, E>,
    ) -> Result<ControlFlow<()>, E> {
        if time_ns.is_none() {
            self.machine.family.learn(description);
            if raw.kind == kind::HEADER_FEATURE {
                self.machine.learn(description);
            }
        }
        let event = description.lookup().of(&raw);
        let layout = event.and_then(|event| description.lookup().layouts().get(event));
        if raw.kind == kind::PERF_RECORD_SAMPLE {
            let Some(Ok(sample)) = layout.map(|layout| Sample::decode(&raw, layout)) else {
                self.account.undecodable += 1;
                return Ok(ControlFlow::Continue(()));
            };
            if !self.machine.family.keeps(sample.head.tid, time_ns) {
                self.account.outside += 1;
                return Ok(ControlFlow::Continue(()));
            }
            if sample.read.is_some() {
                return self.deliver_counts((time_ns, raw), description, &sample, visit);
            }
            return visit(
                &mut self.machine,
                &Moment { time_ns, description, event, raw, what: What::Sample(&sample) },
            );
        }
        let Ok(record) = raw.decode() else {
            self.account.undecodable += 1;
            return Ok(ControlFlow::Continue(()));
        };
        match &record {
            Record::Lost(lost) => {
                self.account.lost += lost.lost;
                self.account.lost_records += 1;
            }
            Record::LostSamples { lost } => self.account.lost_samples += lost,
            Record::Throttle(_) => self.account.throttled += 1,
            _ => {
                self.machine.family.see(&record, time_ns.unwrap_or(0));
                self.machine.apply(&raw, &record);
            }
        }
        visit(
            &mut self.machine,
            &Moment { time_ns, description, event, raw, what: What::Other(&record) },
        )
    }

    /// A sample with the counts of its group is one of each member that has counted anything since
    /// the sample before.
    fn deliver_counts<E>(
        &mut self,
        (time_ns, raw): (Option<u64>, RawRecord<'_>),
        description: &Description,
        sample: &Sample<'_>,
        visit: &mut Visit<'_, E>,
    ) -> Result<ControlFlow<()>, E> {
        for count in sample.read.iter().flat_map(ReadValues::values) {
            let event = count.id.and_then(|id| description.lookup().with_id(id));
            let (Some(event), Some(id)) = (event, count.id) else { continue };
            let before = self.counts.insert(id, count.value).unwrap_or(0);
            let period = count.value.wrapping_sub(before);
            if period == 0 {
                continue;
            }
            let sample = Sample {
                head: SampleHead { id: Some(id), period: Some(period), ..sample.head },
                ..*sample
            };
            let moment = Moment {
                time_ns,
                description,
                event: Some(event),
                raw,
                what: What::Sample(&sample),
            };
            if visit(&mut self.machine, &moment)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
