//! Counts over time, as `perf stat record` writes them. Source:
//! `tools/lib/perf/include/perf/event.h`, at `struct perf_record_stat`.

use crate::bytes::Cursor;

/// How counts were taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatConfig {
    /// `AGGR_*` of `tools/perf/util/stat.h`: which counts are added up when they are shown.
    pub aggregation: Option<u64>,
    /// Milliseconds between two rounds; 0 means one round at the end.
    pub interval_ms: Option<u64>,
    /// Whether counts are scaled by the time that their event was on a counter.
    pub is_scaled: Option<bool>,
}

impl StatConfig {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        let count = fields.u64()?;
        let words = fields.words(count.checked_mul(2)?)?;
        let mut config = Self::default();
        for entry in 0..words.len() / 2 {
            let tag = words.get(2 * entry)?;
            let value = words.get(2 * entry + 1)?;
            match tag {
                0 => config.aggregation = Some(value),
                1 => config.interval_ms = Some(value),
                2 => config.is_scaled = Some(value != 0),
                _ => {}
            }
        }
        Some(config)
    }
}

/// A count of one event on one CPU or of one thread, since the recording began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// The event's id.
    pub id: u64,
    /// The CPU, as an index into the recording's [`super::CpuMap`].
    pub cpu: u32,
    /// The thread, as an index into the recording's [`super::ThreadMap`].
    pub thread: u32,
    /// Occurrences (nanoseconds for clocks), unscaled.
    pub value: u64,
    /// Nanoseconds that the event was enabled.
    pub enabled_ns: u64,
    /// Nanoseconds that the event was on a counter.
    pub running_ns: u64,
}

impl Stat {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        Some(Self {
            id: fields.u64()?,
            cpu: fields.u32()?,
            thread: fields.u32()?,
            value: fields.u64()?,
            enabled_ns: fields.u64()?,
            running_ns: fields.u64()?,
        })
    }
}

/// The end of a round: the counts since the previous record of this kind belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatRound {
    /// Whether it ends the last round.
    pub is_final: bool,
    /// Nanoseconds since counting began.
    pub time_ns: u64,
}

impl StatRound {
    pub(super) fn decode(mut fields: Cursor<'_>) -> Option<Self> {
        Some(Self { is_final: fields.u64()? == 1, time_ns: fields.u64()? })
    }
}
