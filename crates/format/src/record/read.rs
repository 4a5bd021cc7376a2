//! Counts in records: `PERF_RECORD_READ`, and samples with `PERF_SAMPLE_READ`.

use super::{DecodeError, Layout, RawRecord};
use crate::abi::ReadFormat;
use crate::bytes::{Cursor, Words};

/// The counts of an event or of its group.
///
/// ```text
/// without GROUP: value  [enabled] [running] [id] [lost]
/// with GROUP:    nr     [enabled] [running] nr x { value [id] [lost] }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadValues<'a> {
    /// Nanoseconds that the event was enabled, if the format includes them.
    pub enabled_ns: Option<u64>,
    /// Nanoseconds that the event was on a counter, if the format includes them.
    pub running_ns: Option<u64>,
    format: ReadFormat,
    /// The words of the members; of a single event, id and lost.
    members: Words<'a>,
    /// The value of a single event, which precedes the times.
    single: Option<u64>,
}

/// One event's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadValue {
    /// Occurrences (nanoseconds for clocks), unscaled.
    pub value: u64,
    /// The event's id, if the format includes it.
    pub id: Option<u64>,
    /// Samples lost because their ring was full, if the format includes them.
    pub lost: Option<u64>,
}

impl<'a> ReadValues<'a> {
    pub(super) fn decode(fields: &mut Cursor<'a>, format: ReadFormat) -> Option<Self> {
        let has = |flag| format.contains(flag);
        let first = fields.u64()?;
        let enabled_ns =
            if has(ReadFormat::TOTAL_TIME_ENABLED) { Some(fields.u64()?) } else { None };
        let running_ns =
            if has(ReadFormat::TOTAL_TIME_RUNNING) { Some(fields.u64()?) } else { None };
        let extras = u64::from(has(ReadFormat::ID)) + u64::from(has(ReadFormat::LOST));
        let (single, words) = if has(ReadFormat::GROUP) {
            (None, first.checked_mul(1 + extras)?)
        } else {
            (Some(first), extras)
        };
        Some(Self { enabled_ns, running_ns, format, members: fields.words(words)?, single })
    }

    /// Iterates over the counts of the event, or of the group's members, the leader first.
    pub fn values(&self) -> impl Iterator<Item = ReadValue> + 'a {
        let Self { format, members, single, .. } = *self;
        let has = |flag| usize::from(format.contains(flag));
        let own = usize::from(single.is_none());
        let id = has(ReadFormat::ID);
        let lost = has(ReadFormat::LOST);
        let step = own + id + lost;
        let count = if single.is_some() { 1 } else { members.len() / step };
        (0..count).map(move |member| {
            let at = member * step;
            let value = single.or_else(|| members.get(at)).unwrap_or_default();
            let extra = |present: usize, place: usize| {
                if present == 1 { members.get(at + place) } else { None }
            };
            ReadValue { value, id: extra(id, own), lost: extra(lost, own + id) }
        })
    }
}

/// `PERF_RECORD_READ`: the count of an inherited event, when its thread ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskRead<'a> {
    /// The process.
    pub pid: i32,
    /// The thread.
    pub tid: i32,
    /// The counts.
    pub values: ReadValues<'a>,
}

impl<'a> TaskRead<'a> {
    /// Decodes a `READ` record made by an event with this layout.
    ///
    /// # Errors
    /// Fails if the record is shorter than the layout says.
    pub fn decode(record: &RawRecord<'a>, layout: &Layout) -> Result<Self, DecodeError> {
        let mut fields = Cursor::new(record.body, record.endian);
        let mut all = || {
            Some(Self {
                pid: fields.i32()?,
                tid: fields.i32()?,
                values: ReadValues::decode(&mut fields, layout.read_format)?,
            })
        };
        all().ok_or(DecodeError::Truncated { kind: record.kind, len: record.body.len() })
    }
}
