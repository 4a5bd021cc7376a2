//! The kernel's records about the recording itself: losses and throttling.

use crate::bytes::Cursor;

/// Records lost because their ring was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The id of the event whose record was the first to fit again. The losses are those of all of
    /// the ring's events.
    pub id: u64,
    /// Number of records.
    pub lost: u64,
}

/// An event was stopped or restarted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Throttle {
    /// Time in nanoseconds of the recording's clock.
    pub time_ns: u64,
    /// The event's id.
    pub id: u64,
    /// The id of the counter, which differs from `id` in inherited events.
    pub stream_id: u64,
}

impl Throttle {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        Some(Self { time_ns: fields.u64()?, id: fields.u64()?, stream_id: fields.u64()? })
    }
}
