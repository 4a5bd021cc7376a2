//! The events of a recording in a profile.

use tare_format::abi::Sampling;
use tare_format::file::Description;
use tare_format::record::Sample;
use tare_profile::{EventId, Profile, StringId};

use crate::machine::Machine;
use crate::replayed::Replayed;
use crate::tracepoints::Tracepoints;

/// An event, as the profile has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProfiledEvent {
    pub(super) id: EventId,
    /// The period of samples that don't carry their own, as in perf.
    pub(super) period: u64,
}

/// The recording's events by their index in its description.
#[derive(Debug)]
pub(super) struct EventTable {
    tracepoints: Tracepoints,
    events: Vec<ProfiledEvent>,
}

impl EventTable {
    /// `raw_trace`: see [`Tracepoints::new`].
    pub(super) fn new(raw_trace: bool) -> Self {
        Self { tracepoints: Tracepoints::new(raw_trace), events: Vec::new() }
    }

    /// Adds the events that a stream described since the last call.
    pub(super) fn learn(&mut self, profile: &mut Profile, description: &Description) {
        if self.events.len() != description.events().len() {
            self.learn_names(profile, description);
        }
    }

    /// Adds all events again: a stream may name an event after it described it.
    pub(super) fn learn_names(&mut self, profile: &mut Profile, description: &Description) {
        self.tracepoints.learn(description);
        self.events.clear();
        for (index, event) in description.events().iter().enumerate() {
            let name = profile.add_string(&self.tracepoints.event_name(event));
            let period = match event.attr.sampling {
                Sampling::None => 0,
                Sampling::Period(period) | Sampling::Frequency(period) => period,
            };
            self.events.push(ProfiledEvent { id: profile.name_event(index, name), period });
        }
    }

    pub(super) fn get(&self, index: usize) -> Option<ProfiledEvent> {
        self.events.get(index).copied()
    }

    /// Returns the fields of a tracepoint's sample as text.
    pub(super) fn trace(
        &mut self,
        profile: &mut Profile,
        machine: &mut Machine,
        sample: &Replayed<'_, Sample<'_>>,
    ) -> Option<StringId> {
        let raw = sample.fields.raw?;
        let event = sample.description.events().get(sample.event?)?;
        let fields = self.tracepoints.fields(machine, event.attr.config, raw);
        (!fields.is_empty()).then(|| profile.add_string(fields))
    }
}
