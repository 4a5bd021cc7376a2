//! The end of a recording: what is left in the rings, the ledger, the description of what is known
//! only now.

use std::io;
use std::sync::Arc;

use anyhow::Context;
use tare_format::file::note;
use tare_format::file::writer::Feature;
use tare_kernel::child::Ended;

use super::account;
use super::cost;
use super::followed;
use super::live::{End, Live, cpu_ns};
use crate::command::interrupt::end_child;
use crate::pipeline::output::{Account, Closing};
use tare_format::ledger::Ledger;

/// What a recording leaves behind.
pub(super) struct Recorded {
    pub(super) ledger: Ledger,
    pub(super) account: Account,
    pub(super) ended: Option<Ended>,
    pub(super) signal: Option<i32>,
}

impl Live<'_> {
    /// Describes what runs, where the user wants that at the end: after the last sample, which may
    /// still be in a ring.
    fn describe_at_end(&mut self) -> anyhow::Result<()> {
        let Some(existing) =
            self.existing.take().filter(|_| self.session.record.synthesize.at_the_end)
        else {
            return Ok(());
        };
        if let Err(error) = self.reader.drain(&self.shared) {
            self.stop_recording(error.into());
            return Ok(());
        }
        let mut emit = |bytes: &[u8]| {
            self.shared.see_mappings(bytes);
            self.shared.append(&[bytes]).map_err(io::Error::other)
        };
        self.session.synthesize(&existing, &mut emit)
    }

    fn complete_followed(&self, ledger: &mut Ledger, ended: Option<Ended>) {
        let meters: Vec<_> = self.reader.rings.iter().map(|ring| &ring.meter).collect();
        followed::complete(
            ledger,
            self.session,
            &meters,
            &self.events.counts(),
            ended,
            &self.cgroup,
        );
    }

    /// Adds the ledger of a file to those of the files before.
    pub(super) fn add_to_total(&mut self, ledger: &Ledger) {
        self.total =
            Some(self.total.take().map_or_else(|| ledger.clone(), |total| total.and(ledger)));
    }

    /// Ends the recording.
    pub(super) fn finish(mut self, end: End) -> anyhow::Result<Recorded> {
        let until_now_ns = cpu_ns();
        self.cgroup.at_end(self.session.follow);
        if self.stopped.is_none() {
            self.disable_all()?;
        }
        self.cgroup.at_end(self.session.follow);
        // Before the rings are emptied for the last time: a command that is told to end may still
        // take a while.
        let ended = if end.ended.is_none() {
            self.child.as_mut().map_or(Ok(None), end_child)?
        } else {
            end.ended
        };
        for helper in std::mem::take(&mut self.helpers) {
            let reader =
                helper.stop().context("a thread that read rings is gone, with what was in them")?;
            self.reader.rings.extend(reader.rings);
        }
        if self.stopped.is_none() {
            self.describe_at_end()?;
            self.dump()?;
        }
        self.shortest = self.shared.shortest();
        let build_ids =
            self.session.record.output.build_ids.then(|| self.shared.build_ids(self.session.host));
        let shared = Arc::clone(&self.shared);
        let (mut ledger, sample_time) = shared.end_file(|output, figures| {
            let ledger = self.ledger_of_file(&figures, output, until_now_ns);
            (ledger, account::sample_time(&figures.rings))
        });
        ledger.command = ended.map(account::command);
        cost::complete(&mut ledger, self.session);
        ledger.budget = self.kept_budget(&ledger);
        // How much the samples stand for is known of the recording as a whole.
        let earlier = self.total.take();
        if earlier.is_none() {
            self.complete_followed(&mut ledger, ended);
        }
        let note = note::encode(&ledger.to_note())?;
        if let Some(earlier) = earlier {
            ledger = earlier.and(&ledger);
            cost::complete(&mut ledger, self.session);
            ledger.budget = self.kept_budget(&ledger);
            self.complete_followed(&mut ledger, ended);
        }
        let Self { shared: last, mut description, .. } = self;
        drop(shared);
        let output = Arc::into_inner(last).context("somebody still writes")?.into_output();
        description.features.extend(build_ids.map(Feature::BuildIds));
        description.features.extend(sample_time);
        let account = output.finish(&Closing { description: &description, records: &note });
        account::complete(&mut ledger.output, &account);
        Ok(Recorded { ledger, account, ended, signal: end.signal })
    }
}
