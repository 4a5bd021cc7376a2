//! Encodes records that describe the recording, and marks between records.

use super::{EventDescription, WriteError, set_attr_sizes};
use crate::file::features;
use crate::record::{RecordHeader, TooLong, kind};

/// `PERF_RECORD_FINISHED_ROUND`: all rings were drained, so no following record is older than those
/// before the previous mark.
pub const FINISHED_ROUND: [u8; 8] = mark(kind::FINISHED_ROUND);

/// `PERF_RECORD_FINISHED_INIT`: everything that existed before the recording began (processes,
/// mappings) has been described.
pub const FINISHED_INIT: [u8; 8] = mark(kind::FINISHED_INIT);

/// `PERF_EVENT_UPDATE__NAME` of `tools/lib/perf/include/perf/event.h`.
const UPDATE_NAME: u64 = 2;

/// Encodes a record without a body.
const fn mark(kind: u32) -> [u8; 8] {
    RecordHeader { kind, misc: 0, size: 8 }.encode()
}

/// Appends a record, padded with zeros to a multiple of 8 bytes.
///
/// # Errors
/// Fails if the record would be too long; nothing is appended then.
pub(super) fn write_record(
    into: &mut Vec<u8>,
    kind: u32,
    misc: u16,
    body: &[&[u8]],
) -> Result<(), TooLong> {
    let len: usize = body.iter().map(|part| part.len()).sum();
    let header = RecordHeader::new(kind, misc, len.next_multiple_of(8))?;
    let end = into.len() + header.record_size();
    into.extend(header.encode());
    body.iter().for_each(|part| into.extend_from_slice(part));
    into.resize(end, 0);
    Ok(())
}

/// Appends a record with the first `attr_size` bytes of an event's attributes, and its ids.
pub(super) fn write_attr(
    into: &mut Vec<u8>,
    event: &EventDescription,
    attr_size: usize,
) -> Result<(), WriteError> {
    let mut attr = event.attr.to_bytes();
    set_attr_sizes(&mut attr[..attr_size], attr_size, 0);
    let ids: Vec<u8> = event.ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    let too_many = || WriteError::TooManyIds { name: event.name.clone(), ids: event.ids.len() };
    write_record(into, kind::HEADER_ATTR, 0, &[&attr[..attr_size], &ids]).map_err(|_| too_many())
}

/// Appends a record with an event's name, identified by its first id; nothing for an event without
/// ids.
pub(super) fn write_event_name(
    into: &mut Vec<u8>,
    event: &EventDescription,
) -> Result<(), WriteError> {
    let Some(id) = event.ids.first() else { return Ok(()) };
    let body = [&UPDATE_NAME.to_ne_bytes()[..], &id.to_ne_bytes(), event.name.as_bytes(), b"\0"];
    let too_long = || WriteError::NameTooLong { len: event.name.len() };
    write_record(into, kind::EVENT_UPDATE, 0, &body).map_err(|_| too_long())
}

/// Appends a feature section as a record. A section that doesn't fit in a record is left out; a
/// finished file has it in its table. Build ids are records already. The section of branch stacks
/// is empty and repeats what the events' attributes state, so it is left out.
pub(super) fn write_feature(into: &mut Vec<u8>, number: u32, content: &[u8]) {
    match number {
        features::BUILD_ID => into.extend_from_slice(content),
        features::BRANCH_STACK => {}
        _ => {
            _ = write_record(
                into,
                kind::HEADER_FEATURE,
                0,
                &[&u64::from(number).to_ne_bytes(), content],
            );
        }
    }
}

/// Appends the tracepoint formats, after a record with their length. That record has 16 bytes, as
/// in perf since Linux 6.18 and in stable releases with the same fix (`struct
/// perf_record_header_tracing_data`). Earlier versions and the format's document have 12.
pub(super) fn write_tracing_data(into: &mut Vec<u8>, data: &[u8]) -> Result<(), WriteError> {
    let padded = data.len().next_multiple_of(8);
    let size =
        u32::try_from(padded).map_err(|_| WriteError::TracingDataTooLong { len: data.len() })?;
    write_record(into, kind::HEADER_TRACING_DATA, 0, &[&size.to_ne_bytes()])
        .map_err(|_| WriteError::TracingDataTooLong { len: data.len() })?;
    let end = into.len() + padded;
    into.extend(data);
    into.resize(end, 0);
    Ok(())
}
