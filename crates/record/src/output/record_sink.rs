//! Records for a callback in the same process.

use std::ops::ControlFlow;

use tare_format::Endian;
use tare_format::file::writer::Description;
use tare_format::record::RecordHeader;

use super::{Closing, OutputError, OutputStats, Path, RecordWriter, Result};

/// The sink takes no more records: the recording ends as if a stream's reader had closed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SinkClosed;

/// Receives records in the recording process, on the threads that read ring buffers: the caller's,
/// and further ones if there are more readers (by default one per 32 CPUs). The ring buffers' space
/// isn't returned to the kernel during a call.
pub trait RecordSink: Send {
    /// Receives the events with their attributes and ids, which are needed to decode records.
    fn begin(&mut self, description: &Description) -> ControlFlow<SinkClosed>;

    /// Receives further ids of events, as when a CPU came back online. `description` contains them.
    /// Records with these ids follow.
    fn add_ids(&mut self, description: &Description) -> ControlFlow<SinkClosed> {
        let _ = description;
        ControlFlow::Continue(())
    }

    /// Receives whole records, concatenated, in this machine's byte order. Records of different
    /// ring buffers are not in time order; a `FINISHED_ROUND` among them promises, as in a file,
    /// that no later record is older than the records before the previous one.
    fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed>;

    /// Reports that all records that the caller's ring buffers held at this time were handed over;
    /// other readers' may follow.
    fn flush(&mut self) -> ControlFlow<SinkClosed> {
        ControlFlow::Continue(())
    }

    /// Ends the recording. `description` contains the facts that are only known at the end.
    fn finish(&mut self, description: &Description) {
        let _ = description;
    }
}

/// Hands whole records to a sink.
pub(super) struct SinkWriter {
    sink: Box<dyn RecordSink>,
    /// The beginning of a record that continues in the next piece.
    partial: Vec<u8>,
    stats: OutputStats,
}

impl std::fmt::Debug for SinkWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SinkWriter").field("stats", &self.stats).finish_non_exhaustive()
    }
}

impl SinkWriter {
    pub(super) fn new(sink: Box<dyn RecordSink>) -> Self {
        let stats = OutputStats { path: Path::Sink, ..OutputStats::default() };
        Self { sink, partial: Vec::new(), stats }
    }

    fn append_piece(&mut self, mut piece: &[u8]) -> Result<()> {
        if !self.partial.is_empty() {
            let missing = missing(&self.partial, piece).min(piece.len());
            let (rest, behind) = piece.split_at(missing);
            self.partial.extend_from_slice(rest);
            piece = behind;
            if !is_whole(&self.partial) {
                return Ok(());
            }
            let flow = self.sink.records(&self.partial);
            self.partial.clear();
            self.check_flow(flow)?;
        }
        let (whole, begun) = piece.split_at(whole_records(piece));
        self.partial.extend_from_slice(begun);
        if whole.is_empty() {
            return Ok(());
        }
        let flow = self.sink.records(whole);
        self.check_flow(flow)
    }

    fn check_flow(&mut self, flow: ControlFlow<SinkClosed>) -> Result<()> {
        if flow.is_continue() {
            return Ok(());
        }
        self.stats.stopped = Some(OutputError::Closed);
        Err(OutputError::Closed)
    }
}

impl RecordWriter for SinkWriter {
    fn begin(&mut self, description: &Description) -> Result<()> {
        let flow = self.sink.begin(description);
        self.check_flow(flow)
    }

    fn append(&mut self, pieces: &[&[u8]]) -> Result<()> {
        let bytes: u64 = pieces.iter().map(|piece| piece.len() as u64).sum();
        self.stats.uncompressed_bytes += bytes;
        if let Some(why) = &self.stats.stopped {
            self.stats.dropped_bytes += bytes;
            return Err(why.clone());
        }
        self.stats.bytes += bytes;
        pieces.iter().try_for_each(|piece| self.append_piece(piece))
    }

    fn flush(&mut self) -> Result<()> {
        if let Some(why) = &self.stats.stopped {
            return Err(why.clone());
        }
        let flow = self.sink.flush();
        self.check_flow(flow)
    }

    fn add_ids(&mut self, description: &Description, _ids: &[Vec<u64>]) -> Result<()> {
        let flow = self.sink.add_ids(description);
        self.check_flow(flow)
    }

    fn finish(mut self: Box<Self>, closing: &Closing<'_>) -> OutputStats {
        if self.stats.stopped.is_none() {
            // A sink that refuses the last records has ended anyway.
            let _ = self.append(&[closing.records]);
        }
        self.sink.finish(closing.description);
        self.stats
    }

    fn written(&self) -> u64 {
        self.stats.bytes
    }

    fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        Some(self.stats.bytes + closing.records.len() as u64)
    }

    fn so_far(&self) -> OutputStats {
        self.stats.clone()
    }
}

fn size(record: &[u8]) -> Option<usize> {
    let header = RecordHeader::first(record, Endian::NATIVE)?;
    Some(header.record_size().max(RecordHeader::SIZE))
}

/// Returns the length of the whole records at the front of `bytes`.
fn whole_records(bytes: &[u8]) -> usize {
    let mut end = 0;
    while let Some(next) =
        size(&bytes[end..]).map(|size| end + size).filter(|next| *next <= bytes.len())
    {
        end = next;
    }
    end
}

fn is_whole(record: &[u8]) -> bool {
    size(record).is_some_and(|size| size <= record.len())
}

/// Returns the number of bytes that a partial record lacks; `next` continues it.
fn missing(partial: &[u8], next: &[u8]) -> usize {
    let header: Vec<u8> = partial.iter().chain(next).take(RecordHeader::SIZE).copied().collect();
    size(&header).map_or(next.len(), |size| size.saturating_sub(partial.len()))
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct CollectingSink(Arc<Mutex<Vec<Vec<u8>>>>);

    impl RecordSink for CollectingSink {
        fn begin(&mut self, _: &Description) -> ControlFlow<SinkClosed> {
            ControlFlow::Continue(())
        }

        fn records(&mut self, records: &[u8]) -> ControlFlow<SinkClosed> {
            let mut all = self.0.lock().unwrap();
            all.push(records.to_vec());
            if all.len() < 100 { ControlFlow::Continue(()) } else { ControlFlow::Break(SinkClosed) }
        }
    }

    fn record(size: u16, byte: u8) -> Vec<u8> {
        let mut record = vec![byte; usize::from(size)];
        record[..6].copy_from_slice(&[9, 0, 0, 0, 0, 0]);
        record[6..8].copy_from_slice(&size.to_ne_bytes());
        record
    }

    #[test]
    fn records_are_whole_wherever_pieces_end() {
        let all = [record(24, 1), record(8, 2), record(40, 3)].concat();
        for first in 0..=all.len() {
            for second in first..=all.len() {
                let sink = CollectingSink::default();
                let mut writer = SinkWriter::new(Box::new(sink.clone()));
                writer.append(&[&all[..first], &all[first..second], &all[second..]]).unwrap();
                let got = sink.0.lock().unwrap().clone();
                assert_eq!(got.concat(), all, "{first} {second}");
                assert!(got.iter().all(|records| whole_records(records) == records.len()));
            }
        }
    }

    #[test]
    fn a_closed_sink_ends_the_recording() {
        let mut writer = SinkWriter::new(Box::new(CollectingSink::default()));
        let one = record(8, 0);
        let taken = (0..200).take_while(|_| writer.append(&[&one]).is_ok()).count();
        assert_eq!((taken, writer.so_far().dropped_bytes), (99, 0));
        assert_eq!(writer.append(&[&one]), Err(OutputError::Closed));
        assert_eq!(writer.so_far().dropped_bytes, 8);
    }
}
