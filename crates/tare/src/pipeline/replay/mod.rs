//! A recording from its front to its end, in order of time, with the state of the machine that it was made on.
//!
//! ```text
//! file, pipe -> Reader -> Sorter -> Machine (threads, maps) -> whoever wants to see it
//! ```

mod account;
mod input;
mod machine;
mod tasks;

use std::fs::File;
use std::ops::ControlFlow;

pub(crate) use account::Account;
pub(crate) use input::open;
pub(crate) use machine::{Machine, Mode, Place};
use tare_format::file::{Description, Reader};
use tare_format::order::Sorter;
use tare_format::record::{RawRecord, Record, Sample, kind};
use tare_symbols::Options;

/// A record whose turn it is. The machine has taken it in already.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    /// When it was made, where it says so.
    pub(crate) time_ns: Option<u64>,
    /// Events and features, as far as they are known.
    pub(crate) description: &'a Description,
    /// The event that it belongs to, an index into the description's events.
    pub(crate) event: Option<usize>,
    /// The record's bytes.
    pub(crate) raw: RawRecord<'a>,
    /// What it says.
    pub(crate) what: What<'a>,
}

/// A record's fields.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What<'a> {
    /// A sample.
    Sample(&'a Sample<'a>),
    /// Anything else.
    Other(&'a Record<'a>),
}

/// A recording that is being replayed.
#[derive(Debug)]
pub(crate) struct Replay {
    reader: Reader<File>,
    machine: Machine,
    account: Account,
}

impl Replay {
    pub(crate) fn new(reader: Reader<File>, options: Options) -> Self {
        let mut machine = Machine::new(options);
        machine.learn_build_ids(reader.description());
        Self { reader, machine, account: Account::default() }
    }

    /// Events and features, as far as they are known.
    pub(crate) fn description(&self) -> &Description {
        self.reader.description()
    }

    /// Hands out every record, those with a time in order of time; ends early where `visit` breaks.
    pub(crate) fn run(&mut self, visit: &mut dyn FnMut(&mut Machine, &Moment<'_>) -> anyhow::Result<ControlFlow<()>>) -> anyhow::Result<Account> {
        let mut sorter = Sorter::default();
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() {
            let Some(entry) = self.reader.next_record()? else { break };
            let (offset, record) = (entry.offset, entry.record);
            if let Some(time_ns) = entry.description.lookup().time_ns(&record) {
                sorter.push(time_ns, offset, &record);
            } else {
                flow = deliver(&mut self.machine, &mut self.account, entry.description, (None, record), visit)?;
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
        Ok(Account { late: sorter.late(), unread, ..self.account.clone() })
    }

    fn drain(
        &mut self,
        sorter: &mut Sorter,
        visit: &mut dyn FnMut(&mut Machine, &Moment<'_>) -> anyhow::Result<ControlFlow<()>>,
    ) -> anyhow::Result<ControlFlow<()>> {
        let description = self.reader.description();
        while let Some(ordered) = sorter.pop() {
            let record = (Some(ordered.time_ns), ordered.record);
            if deliver(&mut self.machine, &mut self.account, description, record, visit)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

fn deliver(
    machine: &mut Machine,
    account: &mut Account,
    description: &Description,
    (time_ns, raw): (Option<u64>, RawRecord<'_>),
    visit: &mut dyn FnMut(&mut Machine, &Moment<'_>) -> anyhow::Result<ControlFlow<()>>,
) -> anyhow::Result<ControlFlow<()>> {
    let event = description.lookup().of(&raw);
    let layout = event.and_then(|event| description.lookup().layouts().get(event));
    if raw.kind == kind::PERF_RECORD_SAMPLE {
        let Some(Ok(sample)) = layout.map(|layout| Sample::decode(&raw, layout)) else {
            account.undecodable += 1;
            return Ok(ControlFlow::Continue(()));
        };
        return visit(machine, &Moment { time_ns, description, event, raw, what: What::Sample(&sample) });
    }
    let Ok(record) = raw.decode() else {
        account.undecodable += 1;
        return Ok(ControlFlow::Continue(()));
    };
    match &record {
        Record::Lost(lost) => {
            account.lost += lost.lost;
            account.lost_records += 1;
        }
        Record::LostSamples { lost } => account.lost_samples += lost,
        Record::Throttle(_) => account.throttled += 1,
        _ => machine.apply(&raw, &record),
    }
    visit(machine, &Moment { time_ns, description, event, raw, what: What::Other(&record) })
}
