//! A delivered record.

use tare_format::file::Description;
use tare_format::record::RawRecord;

/// A delivered record: a sample, or another record, which the machine has already applied.
#[derive(Clone, Copy, Debug)]
pub struct Replayed<'a, T> {
    /// Nanoseconds of the recording's clock, if the record has a time.
    pub time_ns: Option<u64>,
    /// Events, features and notes, as described so far.
    pub description: &'a Description,
    /// Index of its event in the description. Samples always have one.
    pub event: Option<usize>,
    /// The record's bytes.
    pub raw: RawRecord<'a>,
    /// Its fields.
    pub fields: &'a T,
}
