//! A record in its turn.

use tare_format::file::Description;
use tare_format::record::RawRecord;

/// A record in its turn, as the machine was at its time: a sample, or any other record,
/// which the machine has taken in already.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a, T> {
    /// When it was made, in nanoseconds of the recording's clock, where it says so.
    pub time_ns: Option<u64>,
    /// Events and features, as far as they are known.
    pub description: &'a Description,
    /// The event that it belongs to, an index into the description's events. Samples have one.
    pub event: Option<usize>,
    /// The record's bytes.
    pub raw: RawRecord<'a>,
    /// Its fields.
    pub fields: &'a T,
}
