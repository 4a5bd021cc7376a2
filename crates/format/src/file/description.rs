//! A recording's description: events, features and notes. In a pipe they arrive as records, and the
//! description grows. A file has events and features in sections, and records can add to them.

use std::sync::Arc;

use super::features::{self, Features};
use super::loss::{LossReason, Losses};
use super::note::Notes;
use crate::abi::Attr;
use crate::bytes::Endian;
use crate::limits;
use crate::record::{Events, HeaderAttr, Layout, RawRecord, Record, Update};

/// A recorded event.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// As passed to the kernel. Of off-CPU time, which the recorder measures itself: as it would be
    /// passed.
    pub attr: Attr,
    /// The ids of its counters.
    pub ids: Vec<u64>,
    /// The event's name, if recorded.
    pub name: Option<Vec<u8>>,
}

/// The events, features and notes of a recording.
#[derive(Clone, Debug)]
pub struct Description {
    events: Vec<RecordedEvent>,
    /// Shared by clones.
    by_id: Arc<Events>,
    ids: usize,
    features: Features,
    notes: Notes,
    /// Whether the recorder has marked that it described everything that existed before the
    /// recording (`FINISHED_INIT`).
    has_begun: bool,
}

impl Description {
    pub(super) fn new(endian: Endian) -> Self {
        Self {
            events: Vec::new(),
            by_id: Arc::default(),
            ids: 0,
            features: Features::new(endian),
            notes: Notes::default(),
            has_begun: false,
        }
    }

    /// Creates the description of events in this process's rings, which no file describes.
    #[must_use]
    pub fn from_events(endian: Endian, events: impl IntoIterator<Item = RecordedEvent>) -> Self {
        let mut description = Self::new(endian);
        for RecordedEvent { attr, ids, name } in events {
            let before = description.events.len();
            description.add_event(attr, ids);
            if let Some(event) = description.events.get_mut(before) {
                event.name = name;
            }
        }
        description
    }

    /// Returns the events, in the order in which the recording describes them.
    #[must_use]
    pub fn events(&self) -> &[RecordedEvent] {
        &self.events
    }

    /// Returns a table that finds a record's event, as an index into [`Description::events`].
    #[must_use]
    pub fn lookup(&self) -> &Events {
        &self.by_id
    }

    /// Returns the feature sections.
    #[must_use]
    pub fn features(&self) -> &Features {
        &self.features
    }

    /// Returns the complete notes so far, as they were passed to [`super::note::encode`].
    #[must_use]
    pub fn notes(&self) -> &[Vec<u8>] {
        self.notes.whole()
    }

    /// Adds an event, unless it is known. Returns `false` if a limit is exceeded.
    pub(super) fn add_event(&mut self, attr: Attr, ids: Vec<u64>) -> bool {
        let known = |event: &RecordedEvent| event.attr == attr && event.ids == ids;
        let is_known = ids
            .first()
            .map_or_else(|| self.events.iter().any(known), |id| self.by_id.with_id(*id).is_some());
        if is_known {
            return true;
        }
        if self.events.len() >= limits::EVENTS || self.ids + ids.len() > limits::IDS {
            return false;
        }
        let ids = strip_placeholders(ids);
        self.ids += ids.len();
        Arc::make_mut(&mut self.by_id).add(Layout::from(&attr), ids.iter().copied());
        self.events.push(RecordedEvent { attr, ids, name: None });
        true
    }

    /// Adds an event described by a record. After `FINISHED_INIT`, attributes equal to a known
    /// event's mean that it was opened again, for example for a CPU that came online. Events with
    /// equal attributes are reopened in turn, so the one with the fewest ids is meant. Returns
    /// `false` if a limit is exceeded.
    fn absorb_event(&mut self, attr: Attr, ids: Vec<u64>) -> bool {
        let equal = self.events.iter_mut().enumerate().filter(|(_, event)| event.attr == attr);
        let meant = equal.min_by_key(|(_, event)| event.ids.len()).filter(|_| self.has_begun);
        let Some((at, event)) = meant else { return self.add_event(attr, ids) };
        if self.ids + ids.len() > limits::IDS {
            return false;
        }
        let before = event.ids.len();
        let by_id = Arc::make_mut(&mut self.by_id);
        event.ids.extend(ids.into_iter().filter(|id| by_id.add_id(at, *id)));
        self.ids += event.ids.len() - before;
        true
    }

    /// Adds a feature section. Returns `false` if a limit is exceeded.
    pub(super) fn add_feature(&mut self, feature: u32, data: Vec<u8>) -> bool {
        let added = self.features.add(feature, data);
        if added && feature == features::EVENT_DESC {
            self.name_events();
        }
        added
    }

    /// Takes names from the section `EVENT_DESC` for events that have none yet.
    pub(super) fn name_events(&mut self) {
        let Ok(described) = self.features.event_desc() else { return };
        let names: Vec<_> = described
            .iter()
            .map(|event| (event.ids.get(0), event.attr.clone(), event.name.to_vec()))
            .collect();
        for (id, attr, name) in names {
            let by_id = id.and_then(|id| self.by_id.with_id(id));
            let at = by_id.or_else(|| self.events.iter().position(|event| event.attr == attr));
            if let Some(event) =
                at.and_then(|at| self.events.get_mut(at)).filter(|event| event.name.is_none())
            {
                event.name = Some(name);
            }
        }
    }

    /// Applies a record at `offset` if it describes the recording. A record that exceeds a limit,
    /// and a damaged note, count as a loss.
    pub(super) fn absorb(&mut self, record: &RawRecord<'_>, offset: u64, losses: &mut Losses) {
        let fits = match record.decode() {
            Ok(Record::HeaderAttr(HeaderAttr { attr, ids })) => {
                self.absorb_event(attr, ids.iter().collect())
            }
            Ok(Record::HeaderFeature { feature, data }) => match u32::try_from(feature) {
                Ok(feature) if feature < 256 => self.add_feature(feature, data.to_vec()),
                _ => true,
            },
            Ok(Record::EventUpdate(update)) => {
                let event = self.by_id.with_id(update.id).and_then(|at| self.events.get_mut(at));
                if let (Some(event), Update::Name(name)) = (event, update.update) {
                    event.name = Some(name.to_vec());
                }
                true
            }
            Ok(Record::BuildId(_)) => self.features.add_build_id(record),
            Ok(Record::FinishedInit) => {
                self.has_begun |= record.body.is_empty();
                self.notes.absorb(record)
            }
            _ => true,
        };
        if !fits {
            losses.add(offset, record.size() as u64, LossReason::OverLimit);
        }
    }
}

/// Removes the repetitions of the first id at the end, which are placeholders for later ids: see
/// [`super::writer::IdRoom`].
fn strip_placeholders(mut ids: Vec<u64>) -> Vec<u64> {
    let Some(&first) = ids.first() else { return ids };
    let last = ids.iter().rposition(|id| *id != first).unwrap_or(0);
    ids.truncate(last + 1);
    ids
}
