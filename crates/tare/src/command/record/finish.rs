//! The end of a recording: what is left in the rings, the ledger, the description of what is known only now.

use std::sync::Arc;

use anyhow::Context;
use tare_format::file::note;
use tare_format::file::writer::Feature;
use tare_kernel::child::Ended;

use super::account::{self, RingAccount};
use super::followed;
use super::live::{End, Live, cpu_ns};
use crate::command::interrupt::end_child;
use crate::pipeline::capture::reader::Done;
use crate::pipeline::ledger::{Ledger, Output};
use crate::pipeline::output::{Account, Closing};

/// What a recording leaves behind.
pub(super) struct Recorded {
    pub(super) ledger: Ledger,
    pub(super) account: Account,
    pub(super) ended: Option<Ended>,
    pub(super) signal: Option<i32>,
}

impl Live<'_> {
    /// Ends the recording.
    pub(super) fn finish(mut self, end: End) -> anyhow::Result<Recorded> {
        let until_now_ns = cpu_ns();
        self.cgroup.at_end(self.session.follow);
        if self.stopped.is_none() {
            self.disable_all()?;
        }
        self.cgroup.at_end(self.session.follow);
        // Before the rings are emptied for the last time: a command that is told to end may still take a while.
        let ended = if end.ended.is_none() { self.child.as_mut().map_or(Ok(None), end_child)? } else { end.ended };
        let readers = 1 + self.helpers.len();
        for helper in std::mem::take(&mut self.helpers) {
            let finished = helper.stop().context("a thread that read rings is gone, with what was in them")?;
            self.counts.wake_ups += finished.wake_ups;
            self.counts.system_calls += finished.wake_ups;
            self.reader.rings.extend(finished.reader.rings);
        }
        self.dump()?;
        let Self { session, mut ledger, mut description, events, reader, snapshots, shared, cgroup, .. } = self;
        let Done { output, forgotten, shortest, build_ids, calls } = Arc::into_inner(shared).context("somebody still writes")?.into_done();
        let consumed = reader.rings.iter().map(|ring| RingAccount { cpu: ring.cpu, bytes: ring.ring.size(), meter: &ring.meter });
        let overwritten = snapshots.rings().iter().map(|ring| RingAccount { cpu: ring.cpu, bytes: ring.ring.size(), meter: &ring.meter });
        let rings: Vec<RingAccount<'_>> = consumed.chain(overwritten).collect();

        ledger.finished = true;
        ledger.events = account::events(&description, &rings, &events.lost(), &forgotten);
        ledger.losses = account::losses(&rings);
        ledger.throttled = rings.iter().map(|ring| ring.meter.throttled).sum();
        ledger.recorded_ns = account::nanos(self.clock.recorded());
        ledger.kept_ns = shortest.map(account::nanos);
        ledger.output = Output { record_bytes: rings.iter().map(|ring| ring.meter.bytes).sum(), ..Output::default() };
        account::complete(&mut ledger.output, &output.so_far());
        ledger.output.written_bytes = output.written();
        ledger.rings = account::rings(&rings, session.record.rings.flush_interval);
        let meters: Vec<_> = reader.rings.iter().map(|ring| &ring.meter).collect();
        followed::complete(&mut ledger, session, &meters, &events.counts(), ended, &cgroup);
        ledger.command = ended.map(account::command);
        ledger.stopped = self.stopped.as_ref().map(ToString::to_string);
        if session.record.output.build_ids {
            description.features.push(Feature::BuildIds(build_ids.read(session.host)));
        }
        description.features.extend(account::sample_time(&rings));
        ledger.cost = account::cost(session, self.counts, self.clock.started_cpu_ns, until_now_ns);
        ledger.cost.system_calls += calls;
        ledger.cost.readers = readers;
        let account = output.finish(&Closing { description: &description, records: &note::encode(&ledger.to_note())? });
        account::complete(&mut ledger.output, &account);
        Ok(Recorded { ledger, account, ended, signal: end.signal })
    }
}
