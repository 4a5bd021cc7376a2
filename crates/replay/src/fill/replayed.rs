//! The whole way: records in order of time, address spaces and symbols as they were.

use std::fs::File;
use std::ops::ControlFlow;

use tare_format::file::Reader;
use tare_format::record::Sample;
use tare_profile::{Row, Thread, ThreadId, Weight};
use tare_symbols::SymbolOptions;

use super::FillError;
use super::filling::{Filled, Filling};
use super::places::{Places, space};
use crate::{Machine, Moment, Replay, What};

/// Reads a recording to its end.
pub(crate) fn fill(
    reader: Reader<File>,
    options: SymbolOptions,
    filling: Filling,
) -> Result<Filled, FillError> {
    let mut replayed = Replayed { filling, places: Places::default(), unwound: Vec::new() };
    let mut replay = Replay::new(reader, options);
    let account = replay.run::<FillError>(&mut |machine, moment| {
        replayed.take(machine, moment);
        Ok(ControlFlow::Continue(()))
    })?;
    let Replayed { mut filling, .. } = replayed;
    let loss = &mut filling.profile.loss;
    (loss.malformed_samples, loss.late_records, loss.outside_samples) =
        (account.undecodable, account.late, account.outside);
    loss.unread.extend(account.incomplete_stacks());
    Ok(filling.finish(replay.description(), &account.unread))
}

struct Replayed {
    filling: Filling,
    places: Places,
    /// The user part of a call chain, where that is a copy of the stack.
    unwound: Vec<u64>,
}

impl Replayed {
    fn take(&mut self, machine: &mut Machine, moment: &Moment<'_>) {
        self.filling.learn(moment.description);
        match moment.what {
            What::Sample(sample) => self.sample(machine, moment, sample),
            What::Other(record) => self.filling.notice(&moment.raw, record, moment.description),
        }
    }

    fn sample(&mut self, machine: &mut Machine, moment: &Moment<'_>, sample: &Sample<'_>) {
        let Some((place, event)) =
            moment.event.and_then(|place| Some((place, self.filling.event(place)?)))
        else {
            return;
        };
        if !self.filling.takes_time(moment.time_ns) {
            return;
        }
        let (pid, tid) = (sample.head.pid.unwrap_or(-1), sample.head.tid.unwrap_or(-1));
        let weight = Weight { period: self.filling.period(sample.head.period, place), samples: 1 };
        let cpu = self.filling.cpu(sample.head.cpu);
        let profile = &mut self.filling.profile;
        let comm = match machine.tasks.comm(tid) {
            Some(comm) => profile.add_string(comm),
            None => profile.add_string(format!(":{tid}").as_bytes()),
        };
        let thread: ThreadId = profile.add_thread(Thread { pid, tid });
        profile.name_thread(thread, comm);
        let leaf = sample
            .head
            .ip
            .map(|ip| self.places.frame(profile, machine, space(moment.raw.misc), pid, ip));
        machine.unwind(sample, usize::MAX, &mut self.unwound);
        let stack = sample
            .callchain
            .and_then(|chain| self.places.stack(profile, machine, pid, (chain, &self.unwound)));
        profile.add_samples(
            Row { event, thread: Some(thread), comm: Some(comm), cpu, leaf, stack },
            weight,
        );
    }
}
