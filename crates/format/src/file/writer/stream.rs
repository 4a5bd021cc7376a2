//! Records that describe the recording, and marks between records.

use super::{EventDescription, WriteError, set_attr_sizes};
use crate::file::features;
use crate::record::kind;

/// `PERF_RECORD_FINISHED_ROUND`: all rings were drained, so that no record that follows is older
/// than those before the previous mark.
pub const FINISHED_ROUND: [u8; 8] = mark(kind::FINISHED_ROUND, 8);

/// `PERF_RECORD_FINISHED_INIT`: what there was before the recording began (processes, mappings) has
/// been described.
pub const FINISHED_INIT: [u8; 8] = mark(kind::FINISHED_INIT, 8);

/// `PERF_EVENT_UPDATE__NAME` of `tools/lib/perf/include/perf/event.h`.
const UPDATE_NAME: u64 = 2;

/// A record's header.
const fn mark(record_kind: u32, size: u16) -> [u8; 8] {
    let ([a, b, c, d], [e, f]) = (record_kind.to_ne_bytes(), size.to_ne_bytes());
    [a, b, c, d, 0, 0, e, f]
}

/// Appends a record, filled up with zeros to a multiple of 8 bytes. `false`: it would be too long,
/// and nothing was appended.
pub(super) fn record(into: &mut Vec<u8>, record_kind: u32, misc: u16, body: &[&[u8]]) -> bool {
    let len: usize = body.iter().map(|piece| piece.len()).sum();
    let Ok(size) = u16::try_from((8 + len).next_multiple_of(8)) else { return false };
    let end = into.len() + usize::from(size);
    into.extend(mark(record_kind, size));
    into[end - usize::from(size) + 4..][..2].copy_from_slice(&misc.to_ne_bytes());
    body.iter().for_each(|piece| into.extend_from_slice(piece));
    into.resize(end, 0);
    true
}

/// An event and its ids.
pub(super) fn header_attr(
    into: &mut Vec<u8>,
    event: &EventDescription,
    attr_size: usize,
) -> Result<(), WriteError> {
    let mut attr = event.attr.to_bytes();
    set_attr_sizes(&mut attr[..attr_size], attr_size, 0);
    let ids: Vec<u8> = event.ids.iter().flat_map(|id| id.to_ne_bytes()).collect();
    let too_many = || WriteError::TooManyIds { name: event.name.clone(), ids: event.ids.len() };
    record(into, kind::HEADER_ATTR, 0, &[&attr[..attr_size], &ids])
        .then_some(())
        .ok_or_else(too_many)
}

/// The name of an event, which is found by its first id.
pub(super) fn event_name(into: &mut Vec<u8>, event: &EventDescription) -> Result<(), WriteError> {
    let Some(id) = event.ids.first() else { return Ok(()) };
    let body = [&UPDATE_NAME.to_ne_bytes()[..], &id.to_ne_bytes(), event.name.as_bytes(), b"\0"];
    let too_long = || WriteError::NameTooLong { len: event.name.len() };
    record(into, kind::EVENT_UPDATE, 0, &body).then_some(()).ok_or_else(too_long)
}

/// A feature section. One that is too long for a record is left to the end of the recording. That
/// of build ids is records already, and the one that is nothing but its bit says less than the
/// events' attributes.
pub(super) fn header_feature(into: &mut Vec<u8>, number: u32, content: &[u8]) {
    match number {
        features::BUILD_ID => into.extend_from_slice(content),
        features::BRANCH_STACK => {}
        _ => {
            _ = record(into, kind::HEADER_FEATURE, 0, &[&u64::from(number).to_ne_bytes(), content]);
        }
    }
}

/// The formats of tracepoints, behind a record that says how many bytes of them there are. The
/// format's document shows that record with 12 bytes; perf writes and reads it with 16.
pub(super) fn tracing_data(into: &mut Vec<u8>, data: &[u8]) -> Result<(), WriteError> {
    let padded = data.len().next_multiple_of(8);
    let size =
        u32::try_from(padded).map_err(|_| WriteError::TracingDataTooLong { len: data.len() })?;
    record(into, kind::HEADER_TRACING_DATA, 0, &[&size.to_ne_bytes()]);
    let end = into.len() + padded;
    into.extend(data);
    into.resize(end, 0);
    Ok(())
}
