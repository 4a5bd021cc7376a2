//! Samples summed up by call chain, thread and slice of time.

use std::io;

use indexmap::IndexMap;
use tare_profile::{EventId, FrameId, Profile, Row, SliceRow, StackId, StringId, ThreadId, Weight};

use crate::samples::{LocatedSample, SampleSink};

/// Maximum number of time slices.
const MAX_SLICES: u64 = 512;

/// Width of a slice at first, in nanoseconds.
const FIRST_WIDTH_NS: u64 = 1 << 16;

/// The properties that rows of a flame graph distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct StackKey {
    pub(super) event: EventId,
    pub(super) thread: Option<ThreadId>,
    pub(super) comm: Option<StringId>,
    pub(super) leaf: Option<FrameId>,
    pub(super) stack: Option<StackId>,
    pub(super) slice: u32,
}

/// Sums samples up. Time is divided into slices of equal width, which doubles when there are too
/// many slices. Memory therefore depends on call chains and threads, not on the length of the
/// recording.
#[derive(Clone, Debug)]
pub struct Collector {
    pub(super) rows: IndexMap<StackKey, Weight, foldhash::fast::RandomState>,
    pub(super) slices: TimeSlices,
}

/// The division of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeSlices {
    /// Time of the first sample.
    pub(super) first_ns: Option<u64>,
    pub(super) width_ns: u64,
    /// Number of slices up to the last sample.
    pub(super) count: u32,
}

impl Default for Collector {
    fn default() -> Self {
        let slices = TimeSlices { first_ns: None, width_ns: FIRST_WIDTH_NS, count: 0 };
        Self { rows: IndexMap::default(), slices }
    }
}

impl SampleSink for Collector {
    fn sample(&mut self, _profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        let slice = sample.time_ns.map_or(0, |time_ns| self.slice(time_ns));
        let row = &sample.row;
        let key = StackKey {
            event: row.event,
            thread: row.thread,
            comm: row.comm,
            leaf: row.leaf,
            stack: row.stack,
            slice,
        };
        self.rows.entry(key).or_default().add(sample.weight);
        Ok(())
    }
}

impl Collector {
    /// Whether no sample was taken.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the time of the first sample, the length of a slice, both in nanoseconds, and the
    /// number of slices; `None` without times.
    #[must_use]
    pub fn times(&self) -> Option<(u64, u64, u32)> {
        self.slices.first_ns.map(|first_ns| (first_ns, self.slices.width_ns, self.slices.count))
    }

    /// Returns the samples of some rows.
    #[must_use]
    pub fn filtered(&self, is_kept: impl Fn(&SliceRow) -> bool) -> Self {
        let rows = self.sliced().zip(&self.rows).filter(|(row, _)| is_kept(row));
        Self { rows: rows.map(|(_, (key, weight))| (*key, *weight)).collect(), ..self.clone() }
    }

    /// Iterates over the sums as rows of a profile, with their slices.
    pub fn sliced(&self) -> impl Iterator<Item = SliceRow> {
        self.rows.iter().map(|(key, weight)| {
            let StackKey { event, thread, comm, leaf, stack, slice } = *key;
            let row =
                Row { event, thread, comm, cpu: None, leaf, stack, trace: None, details: None };
            SliceRow { row, slice, weight: *weight }
        })
    }

    /// Returns the slice of a time. Times before the first sample's belong to the first slice.
    fn slice(&mut self, time_ns: u64) -> u32 {
        let first_ns = *self.slices.first_ns.get_or_insert(time_ns);
        let since_ns = time_ns.saturating_sub(first_ns);
        while since_ns / self.slices.width_ns >= MAX_SLICES {
            self.widen();
        }
        let slice = u32::try_from(since_ns / self.slices.width_ns).unwrap_or(0);
        self.slices.count = self.slices.count.max(slice + 1);
        slice
    }

    /// Doubles the width of slices, and merges each two.
    pub(super) fn widen(&mut self) {
        self.slices.width_ns = self.slices.width_ns.saturating_mul(2);
        self.slices.count = self.slices.count.div_ceil(2);
        for (key, weight) in std::mem::take(&mut self.rows) {
            let key = StackKey { slice: key.slice / 2, ..key };
            self.rows.entry(key).or_default().add(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_slices_and_keeps_every_sample() {
        let mut collector = Collector::default();
        let mut profile = Profile::default();
        let name = profile.add_string(b"cycles");
        let event = profile.name_event(0, name);
        let row = Row {
            event,
            thread: None,
            comm: None,
            cpu: None,
            leaf: None,
            stack: None,
            trace: None,
            details: None,
        };
        for second in 0..1000 {
            let weight = Weight { period: 3, samples: 1 };
            let time_ns = Some(5_000_000_000 + second * 1_000_000_000);
            collector
                .sample(&profile, &LocatedSample { row, weight, time_ns, switch: None })
                .unwrap();
        }
        assert!((256..=512).contains(&collector.slices.count), "{:?}", collector.slices);
        let all = collector.rows.values().fold(Weight::default(), |mut all, weight| {
            all.add(*weight);
            all
        });
        assert_eq!(all, Weight { period: 3000, samples: 1000 });
        let last = collector.rows.keys().map(|key| key.slice).max();
        assert_eq!(last, Some(collector.slices.count - 1));
    }
}
