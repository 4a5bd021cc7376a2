//! What few recordings have: branches as rows, and counts of tasks that ended.

use tare_format::record::{Branches, Record, Sample, TaskRead};
use tare_profile::{EventId, Row, Weight};

use super::super::details::Subject;
use super::ProfileSink;
use crate::machine::Machine;
use crate::replayed::Replayed;

impl ProfileSink {
    /// Whether a sample is of the socket that is asked for, and between the events that switch.
    pub(super) fn is_among_those(
        &mut self,
        sample: &Replayed<'_, Sample<'_>>,
        event: EventId,
    ) -> bool {
        if !self.switched.is_idle() {
            let name = self.profile.event(event).map(|event| self.profile.string(event.name));
            if !self.switched.takes(name.unwrap_or_default()) {
                return false;
            }
        }
        self.socket.is_none_or(|socket| {
            self.details.socket(sample.description, sample.fields.head.cpu) == Some(socket)
        })
    }

    /// Adds the branches of a sample, each of which weighs 1, as in perf: where they went to is the
    /// place in code.
    pub(super) fn add_branches(
        &mut self,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
        row: Row,
    ) {
        let pid = sample.fields.head.pid.unwrap_or(-1);
        for branch in sample.fields.branches.iter().flat_map(Branches::iter) {
            let Self { profile, frames, details, .. } = self;
            let leaf = frames
                .as_mut()
                .map(|frames| frames.frame(profile, machine, pid, Subject::code(branch.to)));
            let subject = Subject { sample, branch: Some(&branch) };
            let details = details.of(profile, machine, frames.as_mut(), subject);
            let weight = Weight { period: 1, samples: 1 };
            profile.add_samples(Row { leaf, details, ..row }, weight);
        }
    }

    /// Takes in the count of a task that ended. Events in a group have the counts of all: the
    /// record's own is the one with its id.
    pub(super) fn count(&mut self, machine: &Machine, record: &Replayed<'_, Record<'_>>) {
        let lookup = record.description.lookup();
        let Some((index, layout)) =
            record.event.and_then(|index| Some((index, lookup.layouts().get(index)?)))
        else {
            return;
        };
        let Some(event) = self.events.get(index).copied() else { return };
        let Ok(read) = TaskRead::decode(&record.raw, layout) else { return };
        let own = read
            .values
            .values()
            .find(|value| value.id.is_none_or(|id| lookup.with_id(id) == Some(index)));
        let Some(value) = own.map(|own| own.value) else { return };
        let (_, thread) = self.threads.find(&mut self.profile, machine, read.pid, read.tid);
        self.counts.add(index, thread.comm, &read, value);
        self.profile.add_count(thread.id, event, value);
    }
}
