//! Sorts records by time.

use tare_format::abi::Flags;
use tare_format::file::{Description, Entry};
use tare_format::order::{OrderedRecord, Sorter};
use tare_format::record::{Layout, RawRecord, kind};

use crate::due::DueRecord;
use crate::options::SampleDetail;
use crate::sink::EventFilter;

/// Number of records that are read at a time. After these, records of a folder are delivered as far
/// as all its files were read.
pub(crate) const BATCH: u32 = 1 << 10;

/// Records that haven't been delivered, and the choice of those that are needed.
#[derive(Debug)]
pub(crate) struct Waiting {
    detail: SampleDetail,
    filter: Option<EventFilter>,
    pub(crate) sorter: Sorter,
    /// Offset of the last pushed record in its file, in bytes.
    pub(crate) offset: u64,
    /// Skipped bytes of AUX data.
    pub(crate) aux_bytes: u64,
}

impl Waiting {
    pub(crate) fn new(detail: SampleDetail) -> Self {
        Self { detail, filter: None, sorter: Sorter::default(), offset: 0, aux_bytes: 0 }
    }

    /// Drops samples of events that the filter rejects.
    pub(crate) fn set_filter(&mut self, filter: Option<EventFilter>) {
        self.filter = filter;
    }

    /// Pushes a record, unless it isn't needed. Returns a record without a time instead, for the
    /// caller to deliver at once.
    pub(crate) fn push<'a>(&mut self, entry: &Entry<'a>) -> Option<DueRecord<'a>> {
        let Entry { offset, record, description, payload } = *entry;
        self.offset = offset;
        if let Some(payload) = payload {
            self.aux_bytes = self.aux_bytes.saturating_add(payload.size);
        }
        let event = description.lookup().index_of(&record);
        if record.kind == kind::PERF_RECORD_SAMPLE
            && let Some(filter) = &mut self.filter
            && !event.is_some_and(|event| filter.wants(description, event))
        {
            return None;
        }
        let layout = event.and_then(|event| description.lookup().layouts().get(event));
        let raw = self.needed_part(record, layout)?;
        let Some(time_ns) = layout.and_then(|layout| layout.time_ns(&raw)) else {
            return Some(DueRecord { time_ns: None, event, raw });
        };
        self.sorter.push(time_ns, event.map_or(0, |event| event as u64 + 1), &raw);
        None
    }

    /// Ends a round: see [`Sorter::round`]. With overwritten ring buffers it does nothing.
    pub(crate) fn end_round(&mut self, description: &Description) {
        if !has_backward_rings(description) {
            self.sorter.round();
        }
    }

    pub(crate) fn pop(&mut self) -> Option<DueRecord<'_>> {
        let OrderedRecord { time_ns, tag, record } = self.sorter.pop()?;
        let event = tag.checked_sub(1).and_then(|event| usize::try_from(event).ok());
        Some(DueRecord { time_ns: Some(time_ns), event, raw: record })
    }

    /// Returns the part of a record that is needed, or `None` if the record isn't.
    fn needed_part<'a>(
        &self,
        record: RawRecord<'a>,
        layout: Option<&Layout>,
    ) -> Option<RawRecord<'a>> {
        let detail = self.detail;
        if detail == SampleDetail::Full {
            return Some(record);
        }
        match record.kind {
            kind::PERF_RECORD_MMAP | kind::PERF_RECORD_MMAP2 if detail != SampleDetail::Leaf => {
                None
            }
            kind::PERF_RECORD_SAMPLE if detail != SampleDetail::Samples => {
                let size = layout.and_then(Layout::front_size);
                let front = size.and_then(|size| record.body.get(..size));
                Some(RawRecord { body: front.unwrap_or(record.body), ..record })
            }
            _ => Some(record),
        }
    }
}

/// Whether the recording has overwritten ring buffers (`--overwrite`). They are read only at the
/// end, so the ends of rounds don't cover them.
fn has_backward_rings(description: &Description) -> bool {
    description.events().iter().any(|event| event.attr.flags.contains(Flags::WRITE_BACKWARD))
}

#[cfg(test)]
mod tests {
    use tare_format::Endian;

    use super::*;

    const TIME_AND_CALLCHAIN: u64 = 1 << 2 | 1 << 5;

    #[test]
    fn less_detail_needs_fewer_records_and_bytes() {
        let layout = Layout { sample_type: TIME_AND_CALLCHAIN, ..Layout::default() };
        let needed = |detail, kind| {
            let record = RawRecord { kind, misc: 0, body: &[0; 24], endian: Endian::NATIVE };
            let part = Waiting::new(detail).needed_part(record, Some(&layout));
            part.map(|part| part.body.len())
        };
        let sample = kind::PERF_RECORD_SAMPLE;
        let mmap = kind::PERF_RECORD_MMAP2;
        for (detail, of_sample, of_mapping) in [
            (SampleDetail::Full, Some(24), Some(24)),
            (SampleDetail::Samples, Some(24), None),
            (SampleDetail::Leaf, Some(8), Some(24)),
            (SampleDetail::Front, Some(8), None),
        ] {
            assert_eq!(needed(detail, sample), of_sample, "{detail:?}");
            assert_eq!(needed(detail, mmap), of_mapping, "{detail:?}");
        }
    }
}
