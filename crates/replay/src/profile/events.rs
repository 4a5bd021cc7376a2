//! Adds the events of a recording to a profile.

use tare_format::abi::Sampling;
use tare_format::file::Description;
use tare_format::record::Sample;
use tare_profile::{EventId, Profile, StringId};

use crate::machine::Machine;
use crate::replayed::Replayed;
use crate::tracepoints::Tracepoints;

/// An event's id in the profile, and its period.
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
    /// Makes an empty table. `raw_trace`: see [`Tracepoints::new`].
    pub(super) fn new(raw_trace: bool) -> Self {
        Self { tracepoints: Tracepoints::new(raw_trace), events: Vec::new() }
    }

    /// Adds the events that a stream described since the last call.
    pub(super) fn learn(&mut self, profile: &mut Profile, description: &Description) {
        if self.events.len() < description.events().len() {
            self.tracepoints.learn(description);
            self.add_new(profile, description);
        }
    }

    /// Names all events again: a stream may name an event after it described it.
    pub(super) fn learn_names(&mut self, profile: &mut Profile, description: &Description) {
        self.tracepoints.learn(description);
        self.events.clear();
        self.add_new(profile, description);
    }

    /// Names an event again, by one of its ids.
    pub(super) fn learn_name(&self, profile: &mut Profile, description: &Description, id: u64) {
        let index = description.lookup().with_id(id).filter(|index| *index < self.events.len());
        let event = index.and_then(|index| Some((index, description.events().get(index)?)));
        if let Some((index, event)) = event {
            let name = profile.add_string(&self.tracepoints.event_name(event));
            profile.name_event(index, name);
        }
    }

    /// Adds the events after the known ones, so that each of a stream's events is added once.
    fn add_new(&mut self, profile: &mut Profile, description: &Description) {
        for (index, event) in description.events().iter().enumerate().skip(self.events.len()) {
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

    /// Adds the fields of a tracepoint's sample to the profile, as text.
    pub(super) fn add_trace(
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

#[cfg(test)]
mod tests {
    use tare_format::Endian;
    use tare_format::abi::Attr;
    use tare_format::file::RecordedEvent;

    use super::*;

    /// Describes events by their names, with periods 1, 2 and so on.
    fn describe(names: &[&str]) -> Description {
        let events = names.iter().zip(1..).map(|(name, number)| RecordedEvent {
            attr: Attr { config: number, sampling: Sampling::Period(number), ..Attr::default() },
            ids: vec![number],
            name: Some(name.as_bytes().to_vec()),
        });
        Description::from_events(Endian::NATIVE, events)
    }

    fn names(profile: &Profile) -> Vec<&[u8]> {
        profile.events().map(|(_, event)| profile.string(event.name)).collect()
    }

    #[test]
    fn adds_only_new_events() {
        let mut profile = Profile::default();
        let mut events = EventTable::new(false);
        events.learn(&mut profile, &describe(&["a", "b"]));
        let first = events.get(0).unwrap().id;
        events.learn(&mut profile, &describe(&["renamed", "b", "c"]));
        assert_eq!(names(&profile), [b"a", b"b", b"c"], "known events aren't named again");
        assert_eq!(events.get(0).map(|event| event.id), Some(first));
        assert_eq!(events.get(2).map(|event| event.period), Some(3));
        assert!(events.get(3).is_none());
    }

    #[test]
    fn names_events_again_on_demand() {
        let mut profile = Profile::default();
        let mut events = EventTable::new(false);
        events.learn(&mut profile, &describe(&["a", "b"]));
        events.learn_name(&mut profile, &describe(&["other", "late", "c"]), 2);
        events.learn_name(&mut profile, &describe(&["a", "b", "unknown"]), 3);
        assert_eq!(names(&profile), [&b"a"[..], b"late"]);
        events.learn_names(&mut profile, &describe(&["x", "y"]));
        assert_eq!(names(&profile), [b"x", b"y"]);
    }
}
