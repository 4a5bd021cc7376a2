//! Writing a recording so that a recorder that is killed leaves a file that can be read.
//!
//! ```text
//! while recording:  | header | HEADER_ATTR, EVENT_UPDATE, HEADER_FEATURE, ... | records ...        data.size moves on
//!                            |<------------------- data -------------------->|                    at ends of records only
//! at the end:       | header | (the same, no longer pointed at) | records ... | table | features | ids | attributes |
//!                                                               |<-- data -->|
//! ```
//! A reader that finds no attributes and no features in the header takes them from the records, as
//! it does in a pipe. Only when all is written does one write of the header change what it points
//! at. Of perf 6.1, `report` and `script` read a file that was not finished; `evlist` and `inject`
//! look for attributes in the header alone, and `report --stats` stops at the formats of
//! tracepoints, as it does in perf's own pipes.
//!
//! Everything here is bytes and the places that they belong at; who calls it writes them. Source:
//! `tools/perf/Documentation/perf.data-file-format.txt`, and where it is silent
//! `tools/perf/util/header.c`.

mod feature;
mod fields;
mod machine;
mod room;
mod stream;
#[cfg(test)]
mod tests;

use std::ops::Range;

use perf_event_open_sys::bindings::PERF_ATTR_SIZE_VER7;
use thiserror::Error;

pub use feature::{BuildId, Clock, Feature, Group};
pub use machine::{Cache, Caps, CpuPlace, CpuTopology, MemoryTopology, NumaNode};
pub use room::IdRoom;
pub use stream::{FINISHED_INIT, FINISHED_ROUND};

use super::features;
use super::header::{FILE_HEADER_SIZE, PIPE_HEADER_SIZE};
use crate::abi::{ATTR_SIZE, Attr};

/// The bytes of the header, which begins the file.
pub const HEADER_SIZE: usize = FILE_HEADER_SIZE;

/// Where the header says how many bytes of data there are.
pub const DATA_SIZE_OFFSET: u64 = 48;

/// `PERFILE2`, as a number in the byte order of the machine that writes it.
const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");

/// An event that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDescription {
    /// As the kernel was asked for it.
    pub attr: Attr,
    /// The ids of its counters, one for each CPU and thread.
    pub ids: Vec<u64>,
    /// What reports call it.
    pub name: String,
}

/// What a recording says about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The events.
    pub events: Vec<EventDescription>,
    /// What is known of the machine and the session, at most one of each kind. The events' own
    /// section is added here.
    pub features: Vec<Feature>,
    /// Formats of tracepoints, as perf's `trace-event-info.c` lays them out; without tracepoints
    /// `None`.
    pub tracing_data: Option<Vec<u8>>,
}

/// Why something can't be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// A record has at most 65535 bytes, and an event's ids must stand in one.
    #[error("event '{name}' has {ids} counters, more than one record can name")]
    TooManyIds {
        /// The event.
        name: String,
        /// Its counters.
        ids: usize,
    },
    /// An event's name is too long for a record.
    #[error("the name of an event has {len} bytes, more than a record can hold")]
    NameTooLong {
        /// Its bytes.
        len: usize,
    },
    /// The tracepoints' formats are 4 GiB or more.
    #[error("the formats of tracepoints have {len} bytes, more than a record can announce")]
    TracingDataTooLong {
        /// Their bytes.
        len: usize,
    },
    /// The data end before they begin, or beyond what a file can hold (8 EiB).
    #[error("data from {start} to {end} can't be in a file")]
    NotARange {
        /// Bytes from the beginning of the file.
        start: u64,
        /// Bytes from the beginning of the file.
        end: u64,
    },
}

/// What completes a recording: [`Ending::tail`] must be in the file before [`Ending::header`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Belongs behind the data.
    pub tail: Vec<u8>,
    /// Belongs at the beginning of the file, in one write.
    pub header: [u8; HEADER_SIZE],
}

impl Description {
    /// What a recording begins with. Records may follow right behind; [`data_size`] then makes them
    /// known.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn beginning(&self) -> Result<Vec<u8>, WriteError> {
        self.beginning_with_room(0).map(|(beginning, _)| beginning)
    }

    /// [`Description::beginning`] with room for `ids` more ids of each event, or for as many as a
    /// record can name: those of counters that are opened later, as when a CPU comes online.
    ///
    /// A recorder that opens a counter later writes its id at [`IdRoom::take`], and appends it to
    /// [`EventDescription::ids`], from where [`Description::ending`] takes it. Only a file that has
    /// no ending yet needs the room. Where none is left, the finished file is whole; in one that was
    /// not finished readers find the counter's event if it is the only one, and perf 6.1 stops at
    /// the first sample of an unknown id if there are several.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn beginning_with_room(&self, ids: usize) -> Result<(Vec<u8>, IdRoom), WriteError> {
        let mut room = IdRoom::default();
        let stream = self.records(ids, &mut room)?;
        let data = HEADER_SIZE as u64..(HEADER_SIZE + stream.len()) as u64;
        let header = header(self.attr_size(), 0..0, &data, 0);
        Ok(([&header[..], &stream].concat(), room))
    }

    /// What a recording begins with in a stream that is never sought in. Records follow right
    /// behind.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn stream_beginning(&self) -> Result<Vec<u8>, WriteError> {
        let header = [MAGIC, PIPE_HEADER_SIZE as u64].map(u64::to_ne_bytes);
        Ok([header.as_flattened(), &self.records(0, &mut IdRoom::default())?].concat())
    }

    /// What a stream says of a counter that was opened after its beginning was written, one for
    /// each event: `ids` in the order of [`Description::events`]. Belongs before the first record
    /// that carries one of them.
    ///
    /// perf shows these as events of their own, with the same names. The reader of this crate adds
    /// the ids to the events that they belong to.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn stream_ids(&self, ids: &[u64]) -> Result<Vec<u8>, WriteError> {
        let mut stream = Vec::new();
        let added = self.events.iter().zip(ids);
        let added: Vec<_> =
            added.map(|(event, id)| EventDescription { ids: vec![*id], ..event.clone() }).collect();
        for event in &added {
            stream::header_attr(&mut stream, event, self.attr_size(), 0)?;
        }
        for event in &added {
            stream::event_name(&mut stream, event)?;
        }
        Ok(stream)
    }

    /// What a stream ends with: what is known at the end only, build ids and the time of the
    /// samples, as records.
    #[must_use]
    pub fn stream_ending(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        for feature in &self.features {
            match feature {
                // The section is made of records.
                Feature::BuildIds(_) => stream.extend(feature.content()),
                Feature::SampleTime { .. } => {
                    stream::header_feature(&mut stream, feature.number(), &feature.content());
                }
                _ => {}
            }
        }
        stream
    }

    /// Everything that is known at the beginning, as records. Room for `ids` more ids of each event
    /// is added to `room`, as if the records began behind a file's header.
    fn records(&self, ids: usize, room: &mut IdRoom) -> Result<Vec<u8>, WriteError> {
        let mut stream = Vec::new();
        for event in &self.events {
            let kept = stream::header_attr(&mut stream, event, self.attr_size(), ids)?;
            room.add((HEADER_SIZE + stream.len() - 8 * kept) as u64, kept);
        }
        for event in &self.events {
            stream::event_name(&mut stream, event)?;
        }
        for (number, content) in self.sections() {
            stream::header_feature(&mut stream, number, &content);
        }
        if let Some(data) = &self.tracing_data {
            stream::tracing_data(&mut stream, data)?;
        }
        Ok(stream)
    }

    /// What a recording ends with. `data` are the places of its records in the file; what
    /// [`Description::beginning`] returned lies before them.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn ending(&self, data: &Range<u64>) -> Result<Ending, WriteError> {
        if data.start > data.end || i64::try_from(data.end).is_err() {
            return Err(WriteError::NotARange { start: data.start, end: data.end });
        }
        let mut sections = self.sections();
        sections.extend(self.tracing_data.clone().map(|data| (features::TRACING_DATA, data)));
        sections.sort_by_key(|&(number, _)| number);
        let mut contents = Vec::new();
        let mut table = Vec::new();
        let first = data.end + 16 * sections.len() as u64;
        for (_, content) in &sections {
            section(&mut table, first + contents.len() as u64, content.len() as u64);
            contents.extend(content);
        }
        let mut tail = [table, contents].concat();
        tail.resize(tail.len().next_multiple_of(8), 0);
        let attrs = self.attributes(&mut tail, data.end);
        let bits = sections.iter().fold(0, |bits, &(number, _)| bits | 1_u64 << number);
        Ok(Ending { tail, header: header(self.attr_size(), attrs, data, bits) })
    }

    /// Appends the ids and the attribute section to the bytes behind `data_end`, and returns the
    /// section's place.
    fn attributes(&self, tail: &mut Vec<u8>, data_end: u64) -> Range<u64> {
        let mut attributes = Vec::new();
        for event in &self.events {
            attributes.extend(&event.attr.to_bytes()[..self.attr_size()]);
            section(&mut attributes, data_end + tail.len() as u64, 8 * event.ids.len() as u64);
            tail.extend(event.ids.iter().flat_map(|id| id.to_ne_bytes()));
        }
        let start = data_end + tail.len() as u64;
        set_attr_sizes(&mut attributes, self.attr_size(), 16);
        tail.extend(&attributes);
        start..start + attributes.len() as u64
    }

    /// The feature sections but for the tracepoints' formats, by number.
    fn sections(&self) -> Vec<(u32, Vec<u8>)> {
        let mut sections: Vec<_> =
            self.features.iter().map(|feature| (feature.number(), feature.content())).collect();
        sections.push((
            features::EVENT_DESC,
            feature::event_descriptions(&self.events, self.attr_size()),
        ));
        sections.sort_by_key(|&(number, _)| number);
        sections.dedup_by_key(|&mut (number, _)| number);
        sections
    }

    /// The bytes of an attribute in this file: without the newest field where no event uses it, as
    /// perf before 6.4 doesn't read files that have it.
    fn attr_size(&self) -> usize {
        let newest = self.events.iter().any(|event| event.attr.config3 != 0);
        if newest { ATTR_SIZE } else { PERF_ATTR_SIZE_VER7 as usize }
    }
}

/// What belongs at [`DATA_SIZE_OFFSET`] once all records up to `end`, in bytes from the beginning
/// of the file, are written. For files that have no [`Ending`] yet.
#[must_use]
pub fn data_size(end: u64) -> [u8; 8] {
    end.saturating_sub(HEADER_SIZE as u64).to_ne_bytes()
}

/// Places of a section: offset and size.
fn section(into: &mut Vec<u8>, offset: u64, size: u64) {
    into.extend(offset.to_ne_bytes());
    into.extend(size.to_ne_bytes());
}

/// Makes the `size` fields of attributes that lie one after the other, `gap` bytes apart, say what
/// is written of them.
fn set_attr_sizes(attributes: &mut [u8], attr_size: usize, gap: usize) {
    for attr in attributes.chunks_mut(attr_size + gap) {
        // At most ATTR_SIZE.
        attr[4..8].copy_from_slice(&u32::try_from(attr_size).unwrap_or(0).to_ne_bytes());
    }
}

/// `struct perf_file_header`.
fn header(
    attr_size: usize,
    attrs: Range<u64>,
    data: &Range<u64>,
    features: u64,
) -> [u8; HEADER_SIZE] {
    let words = [
        MAGIC,
        HEADER_SIZE as u64,
        // With the 16 bytes that say where the ids are.
        attr_size as u64 + 16,
        attrs.start,
        attrs.end - attrs.start,
        data.start,
        data.end - data.start,
        0,
        0,
        features,
        0,
        0,
        0,
    ];
    let mut bytes = [0; HEADER_SIZE];
    for (place, word) in bytes.chunks_mut(8).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}
