//! Samples summed up by thread and call chain.

use indexmap::IndexMap;
use tare_profile::{EventId, FrameId, Profile, Row, StackId, StringId, ThreadId, Weight};

use crate::samples::LocatedSample;

/// The properties that sums distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SumKey {
    pub(super) event: EventId,
    pub(super) thread: Option<ThreadId>,
    pub(super) comm: Option<StringId>,
    leaf: Option<FrameId>,
    stack: Option<StackId>,
}

impl SumKey {
    /// Fills `frames` with the call chain, the innermost frame first.
    pub(super) fn frames(&self, profile: &Profile, frames: &mut Vec<FrameId>) {
        let Self { event, thread, comm, leaf, stack } = *self;
        let row = Row { event, thread, comm, cpu: None, leaf, stack, trace: None, details: None };
        profile.frames_of_row(&row, frames);
    }
}

/// Weights of samples, in the order in which their keys first occurred.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) rows: IndexMap<SumKey, Weight, foldhash::fast::RandomState>,
}

impl Sums {
    pub(super) fn add(&mut self, sample: &LocatedSample, by_thread: bool) {
        let Row { event, thread, comm, leaf, stack, .. } = sample.row;
        let key = SumKey { event, thread: thread.filter(|_| by_thread), comm, leaf, stack };
        self.rows.entry(key).or_default().add(sample.weight);
    }

    /// Returns the events with samples and their weights, the event with the most samples first.
    pub(super) fn events(&self) -> Vec<(EventId, Weight)> {
        let mut events: IndexMap<EventId, Weight> = IndexMap::new();
        for (key, weight) in &self.rows {
            events.entry(key.event).or_default().add(*weight);
        }
        let mut events: Vec<_> = events.into_iter().collect();
        events.sort_by_key(|(_, weight)| std::cmp::Reverse(weight.samples));
        events
    }
}

/// Returns the name of an event.
pub(super) fn event_name(profile: &Profile, event: EventId) -> String {
    let name = profile.event(event).map(|event| profile.string(event.name)).unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}
