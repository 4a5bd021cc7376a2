//! Encodes the beginning and the end of a recording: of a stream, and of a file so that a killed
//! recorder leaves a readable one.
//!
//! ```text
//! while recording: | header | ids | attributes | sections | features | table | records | table |
//!                                                         |<------------ data -------->|
//! at the end:      | header | (unused) ............................. | records, tables | (end) |
//!                                                                    |<----- data ---->|
//! (end):           | table | sections | ids | attributes |
//! ```
//! A reader looks for the table of feature sections directly after the data, wherever the header
//! says that the data ends. To publish records, a recorder therefore writes a table after them
//! ([`Beginning::feature_table`]), then the data's size in the header ([`Beginning::data_size`]),
//! and continues after the table. That table then lies inside the data, where it must be a valid
//! record:
//!
//! ```text
//! as a record:  | FINISHED_INIT, size | body ...                                              |
//! as a table:   | offset      | size  | offset, size of TRACING_DATA | ... of EVENT_DESC | ... |
//!               |<- feature bit 0 --->|
//! ```
//! Bit 0 is `HEADER_RESERVED`: perf has no section of that number and skips its entry, whose offset
//! lies beyond any file. FINISHED_INIT is a mark that readers skip with its body: see
//! [`super::note`]. The sections that perf needs to read records at all come first; the others
//! follow as records (`features`), except empty ones and those that don't fit in a record. The
//! final table has all. Once everything is written, one write of the header switches to the final
//! layout.
//!
//! perf 6.1 reads an unfinished file like a finished one: `report`, `script`, `evlist`,
//! `buildid-list`, `inject`.
//!
//! This module produces bytes and their positions; the caller writes them. Source:
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
use crate::record::{RecordHeader, kind};

/// Number of bytes of the header, which begins the file.
pub const HEADER_SIZE: usize = FILE_HEADER_SIZE;

/// Offset of the data's size in the header.
pub const DATA_SIZE_OFFSET: u64 = 48;

/// `PERFILE2` as a little-endian number. It is written in this machine's byte order, by which
/// readers recognize that order.
const MAGIC: u64 = u64::from_le_bytes(*b"PERFILE2");

/// A recorded event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventDescription {
    /// As passed to the kernel. Of off-CPU time, which the recorder measures itself: as it would be
    /// passed.
    pub attr: Attr,
    /// The ids of its counters, one for each CPU or thread that it is opened on.
    pub ids: Vec<u64>,
    /// Its name in reports.
    pub name: String,
}

/// A recording's description.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Description {
    /// The events.
    pub events: Vec<EventDescription>,
    /// Facts about the machine and the session, at most one of each kind. The writer adds the
    /// sections of the events and of `tracing_data`.
    pub features: Vec<Feature>,
    /// Formats of tracepoints, as perf's `trace-event-info.c` lays them out; `None` without
    /// tracepoints.
    pub tracing_data: Option<Vec<u8>>,
}

/// Why a description can't be written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WriteError {
    /// In a stream, the ids of an event don't fit in a record of at most 65535 bytes.
    #[error("event '{name}' has {ids} counters, more than one record can name")]
    TooManyIds {
        /// The event.
        name: String,
        /// The number of its counters.
        ids: usize,
    },
    /// In a stream, the name of an event doesn't fit in a record.
    #[error("the name of an event has {len} bytes, more than a record can hold")]
    NameTooLong {
        /// Its length in bytes.
        len: usize,
    },
    /// In a stream, the tracepoints' formats padded to a multiple of 8 bytes are 4 GiB or more.
    #[error("the formats of tracepoints have {len} bytes, more than a record can announce")]
    TracingDataTooLong {
        /// Their length in bytes.
        len: usize,
    },
    /// The data ends before it starts, or beyond the largest file (8 EiB).
    #[error("data from {start} to {end} can't be in a file")]
    NotARange {
        /// Start of the data, in bytes from the start of the file.
        start: u64,
        /// End of the data, in bytes from the start of the file.
        end: u64,
    },
}

/// The bytes that complete a file. Write [`Ending::tail`] before [`Ending::header`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// Bytes to write after the data.
    pub tail: Vec<u8>,
    /// The new header, to write at the start of the file in one write.
    pub header: [u8; HEADER_SIZE],
}

/// The beginning of a file, and the bytes that publish records until an [`Ending`] is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beginning {
    /// Bytes for the start of the file. Records follow directly.
    pub bytes: Vec<u8>,
    /// Positions for the ids of later counters.
    pub room: IdRoom,
    /// Bytes to write after the records that are to be published, before the header is updated: see
    /// the [module](self). Further records follow them.
    pub feature_table: Vec<u8>,
    /// Offset of the data in the file.
    pub data_start: u64,
}

impl Beginning {
    /// Returns the bytes for [`DATA_SIZE_OFFSET`] once all records up to `end` (an offset in the
    /// file) and [`Beginning::feature_table`] after them are written.
    #[must_use]
    pub fn data_size(&self, end: u64) -> [u8; 8] {
        end.saturating_sub(self.data_start).to_ne_bytes()
    }
}

impl Description {
    /// Returns the beginning of a file. Records may follow directly; [`Beginning::data_size`]
    /// publishes them. `room` maps the number of an event's ids to the number of further ids to
    /// leave room for: those of counters that are opened later, such as on a CPU that comes online.
    ///
    /// A recorder that opens a counter later writes its id at [`IdRoom::take`], and appends it to
    /// [`EventDescription::ids`], which [`Description::ending`] uses. Only an unfinished file needs
    /// the room. If none is left, the finished file is still complete; in an unfinished one,
    /// readers find the counter's event only if it is the only one, and perf 6.1 stops at the first
    /// unknown id otherwise.
    ///
    /// The beginning ends at a multiple of `align` bytes, a power of two, for writers of whole
    /// blocks.
    ///
    /// # Errors
    /// Never fails so far: only records of a stream limit the number of ids and the length of
    /// names.
    pub fn beginning(
        &self,
        room: impl Fn(usize) -> usize,
        align: usize,
    ) -> Result<Beginning, WriteError> {
        let mut front = Vec::new();
        let mut places = IdRoom::default();
        let attrs = self.write_attributes(&mut front, HEADER_SIZE as u64, room, &mut places);
        let (needed, others): (Vec<_>, Vec<_>) = self
            .encode_all_sections()
            .into_iter()
            .partition(|&(number, _)| is_needed_to_read(number));
        // Bit 0's entry: in place of an offset the header of a record, then a size of 0.
        let mut table = vec![0; 16];
        for (_, content) in &needed {
            write_section(&mut table, (HEADER_SIZE + front.len()) as u64, content.len() as u64);
            front.extend(content);
        }
        let body = table.len() - RecordHeader::SIZE;
        // At most three sections are needed, so the record isn't too long.
        let mark = RecordHeader::new(kind::FINISHED_INIT, 0, body).unwrap_or_default();
        table[..RecordHeader::SIZE].copy_from_slice(&mark.encode());
        let mut records = Vec::new();
        for (number, content) in others {
            stream::write_feature(&mut records, number, &content);
        }
        // perf takes empty data for a recorder that was killed before it wrote any.
        if records.is_empty() {
            records.extend(&table);
        }
        let behind = records.len() + table.len();
        let end = (HEADER_SIZE + front.len() + behind).next_multiple_of(align.max(8));
        front.resize(end - behind - HEADER_SIZE, 0);
        let data_start = (HEADER_SIZE + front.len()) as u64;
        let data = data_start..data_start + records.len() as u64;
        let bits = needed.iter().fold(1, |bits, &(number, _)| bits | 1_u64 << number);
        let header = encode_header(self.attr_size(), attrs, &data, bits);
        let bytes = [&header[..], &front, &records, &table].concat();
        Ok(Beginning { bytes, room: places, feature_table: table, data_start })
    }

    /// Returns the beginning of a stream. Records follow directly.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn stream_beginning(&self) -> Result<Vec<u8>, WriteError> {
        let header = [MAGIC, PIPE_HEADER_SIZE as u64].map(u64::to_ne_bytes);
        Ok([header.as_flattened(), &self.encode_records()?].concat())
    }

    /// Returns the records for counters opened after the stream's beginning, one per event: `ids`
    /// in the order of [`Description::events`]. Write them before the first record that carries one
    /// of these ids.
    ///
    /// perf shows these as separate events with the same names. This crate's reader adds the ids to
    /// their events.
    ///
    /// # Errors
    /// See [`WriteError`].
    pub fn stream_ids(&self, ids: &[u64]) -> Result<Vec<u8>, WriteError> {
        let mut stream = Vec::new();
        let added = self.events.iter().zip(ids);
        let added: Vec<_> =
            added.map(|(event, id)| EventDescription { ids: vec![*id], ..event.clone() }).collect();
        for event in &added {
            stream::write_attr(&mut stream, event, self.attr_size())?;
        }
        for event in &added {
            stream::write_event_name(&mut stream, event)?;
        }
        Ok(stream)
    }

    /// Returns the end of a stream: records of the build ids and of the samples' time range, which
    /// are known only then.
    #[must_use]
    pub fn stream_ending(&self) -> Vec<u8> {
        let mut stream = Vec::new();
        for feature in &self.features {
            match feature {
                // The section is made of records.
                Feature::BuildIds(_) => stream.extend(feature.content()),
                Feature::SampleTime { .. } => {
                    stream::write_feature(&mut stream, feature.number(), &feature.content());
                }
                _ => {}
            }
        }
        stream
    }

    /// Encodes the whole description as records.
    fn encode_records(&self) -> Result<Vec<u8>, WriteError> {
        let mut stream = Vec::new();
        for event in &self.events {
            stream::write_attr(&mut stream, event, self.attr_size())?;
        }
        for event in &self.events {
            stream::write_event_name(&mut stream, event)?;
        }
        for (number, content) in self.encode_sections() {
            stream::write_feature(&mut stream, number, &content);
        }
        if let Some(data) = &self.tracing_data {
            stream::write_tracing_data(&mut stream, data)?;
        }
        Ok(stream)
    }

    /// Returns the bytes that complete a file: those after its records, and its new header. `data`
    /// is the range of the records, which follow the bytes of [`Description::beginning`].
    ///
    /// # Errors
    /// Fails with [`WriteError::NotARange`] if `data` ends before it starts, or beyond 8 EiB.
    pub fn ending(&self, data: &Range<u64>) -> Result<Ending, WriteError> {
        if data.start > data.end || i64::try_from(data.end).is_err() {
            return Err(WriteError::NotARange { start: data.start, end: data.end });
        }
        let sections = self.encode_all_sections();
        let mut contents = Vec::new();
        let mut table = Vec::new();
        let first = data.end + 16 * sections.len() as u64;
        for (_, content) in &sections {
            write_section(&mut table, first + contents.len() as u64, content.len() as u64);
            contents.extend(content);
        }
        let mut tail = [table, contents].concat();
        tail.resize(tail.len().next_multiple_of(8), 0);
        let attrs = self.write_attributes(&mut tail, data.end, |_| 0, &mut IdRoom::default());
        let bits = sections.iter().fold(0, |bits, &(number, _)| bits | 1_u64 << number);
        Ok(Ending { tail, header: encode_header(self.attr_size(), attrs, data, bits) })
    }

    /// Appends the ids and the attribute section to bytes that start at `offset` in the file, and
    /// returns the section's range. Each event gets room for as many more ids as `room` returns;
    /// the range of that room is added to `places`.
    fn write_attributes(
        &self,
        bytes: &mut Vec<u8>,
        offset: u64,
        room: impl Fn(usize) -> usize,
        places: &mut IdRoom,
    ) -> Range<u64> {
        let mut attributes = Vec::new();
        for event in &self.events {
            let start = offset + bytes.len() as u64;
            let ids = room(event.ids.len());
            let filling = std::iter::repeat_n(event.ids.first().unwrap_or(&0), ids);
            bytes.extend(event.ids.iter().chain(filling).flat_map(|id| id.to_ne_bytes()));
            let end = offset + bytes.len() as u64;
            places.add(end - 8 * ids as u64..end);
            attributes.extend(&event.attr.to_bytes()[..self.attr_size()]);
            write_section(&mut attributes, start, end - start);
        }
        let start = offset + bytes.len() as u64;
        set_attr_sizes(&mut attributes, self.attr_size(), 16);
        bytes.extend(&attributes);
        start..start + attributes.len() as u64
    }

    /// Encodes all feature sections, sorted by number.
    fn encode_all_sections(&self) -> Vec<(u32, Vec<u8>)> {
        let mut sections = self.encode_sections();
        sections.extend(self.tracing_data.clone().map(|data| (features::TRACING_DATA, data)));
        sections.sort_by_key(|&(number, _)| number);
        sections
    }

    /// Encodes all feature sections except the tracepoints' formats, sorted by number.
    fn encode_sections(&self) -> Vec<(u32, Vec<u8>)> {
        let mut sections: Vec<_> =
            self.features.iter().map(|feature| (feature.number(), feature.content())).collect();
        sections.push((
            features::EVENT_DESC,
            feature::encode_event_descriptions(&self.events, self.attr_size()),
        ));
        sections.sort_by_key(|&(number, _)| number);
        sections.dedup_by_key(|&mut (number, _)| number);
        sections
    }

    /// Returns the number of bytes of an attribute in this file. The newest field is left out if no
    /// event uses it, because perf before 6.4 can't read files that have it.
    fn attr_size(&self) -> usize {
        let newest = self.events.iter().any(|event| event.attr.config3 != 0);
        if newest { ATTR_SIZE } else { PERF_ATTR_SIZE_VER7 as usize }
    }
}

/// Whether perf needs a section to read records: it does for the tracepoints' formats, the events'
/// names, and the size of decompressed records.
fn is_needed_to_read(number: u32) -> bool {
    matches!(number, features::TRACING_DATA | features::EVENT_DESC | features::COMPRESSED)
}

/// Appends offset and size of a section.
fn write_section(into: &mut Vec<u8>, offset: u64, size: u64) {
    into.extend(offset.to_ne_bytes());
    into.extend(size.to_ne_bytes());
}

/// Sets the `size` fields of attributes, each of `attr_size` bytes and followed by `gap` other
/// bytes.
fn set_attr_sizes(attributes: &mut [u8], attr_size: usize, gap: usize) {
    for attr in attributes.chunks_mut(attr_size + gap) {
        // At most ATTR_SIZE.
        attr[4..8].copy_from_slice(&u32::try_from(attr_size).unwrap_or(0).to_ne_bytes());
    }
}

/// Encodes a `struct perf_file_header`.
fn encode_header(
    attr_size: usize,
    attrs: Range<u64>,
    data: &Range<u64>,
    features: u64,
) -> [u8; HEADER_SIZE] {
    let words = [
        MAGIC,
        HEADER_SIZE as u64,
        // Each attribute is followed by the 16 bytes of its ids' range.
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
