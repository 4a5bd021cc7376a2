//! One file of a recording, or a stream: its beginning, its records, its end.

mod direct;
mod early_end;
mod ending;

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use tare_format::file::writer::{Beginning, DATA_SIZE_OFFSET, Description};

use super::compressor::Compressor;
use super::cuts::{CutPoint, Cuts};
use super::disk::{DirectFile, DiskFile, FileState, OpenDestination};
use super::later_ids;
use super::sink::Sink;
use super::window_thread::WindowThread;
use super::write::write_at;
use super::{Closing, Options, OutputError, OutputStats, PathChoice, Result};

/// The open file or stream.
#[derive(Debug)]
enum OpenOutput {
    File { file: Arc<dyn DiskFile>, path: PathBuf },
    Null(Arc<dyn DiskFile>),
    Stream,
}

/// One file of a recording, or a stream.
#[derive(Debug)]
pub(super) struct OutputFile {
    open: OpenOutput,
    sink: Sink,
    /// The file past the page cache, until its beginning is written.
    direct: Option<DirectFile>,
    /// Bytes that the file must have before it may go past the page cache.
    direct_at: u64,
    cuts: Cuts,
    /// What the file begins with.
    beginning: Beginning,
    /// Offset of the first appended record.
    start: u64,
    /// End of the data according to the header.
    known_end: u64,
    compressor: Option<Compressor>,
    sync: bool,
    /// Bytes of appended records.
    records: u64,
    /// System calls other than the sink's.
    calls: u64,
    /// Whether the file's state was checked since the last flush.
    is_checked: bool,
    /// Whether a feature table follows the data, which the next bytes overwrite.
    has_table: bool,
    /// Number of times that the disk was too slow for writing past the page cache.
    spills: u64,
    /// Why and where the data end, after a failure.
    failed: Option<(OutputError, CutPoint)>,
}

impl OutputFile {
    /// Prepares to write to a destination.
    pub(super) fn new(place: OpenDestination, options: &Options) -> Result<Self> {
        let mut direct = None;
        let (open, sink) = match place {
            OpenDestination::File { file, path } => {
                let mut sink = Sink::file(Arc::clone(&file));
                if options.choice == PathChoice::Direct {
                    direct = file.direct().map_err(|why| sink.stay(why)).ok();
                }
                (OpenOutput::File { file, path }, sink)
            }
            OpenDestination::Null(file) => (OpenOutput::Null(Arc::clone(&file)), Sink::file(file)),
            OpenDestination::Stream(file) => (OpenOutput::Stream, Sink::stream(file)),
        };
        let compressor = options.compress.map(Compressor::new).transpose()?;
        let cuts = Cuts::new(0, false);
        Ok(Self {
            open,
            sink,
            direct,
            direct_at: if options.choice == PathChoice::Auto { 0 } else { u64::MAX },
            cuts,
            beginning: Beginning::default(),
            start: 0,
            known_end: 0,
            compressor,
            sync: options.sync,
            records: 0,
            calls: 0,
            is_checked: false,
            has_table: false,
            spills: 0,
            failed: None,
        })
    }

    /// The file, unless the destination is a stream.
    fn file(&self) -> Option<&Arc<dyn DiskFile>> {
        match &self.open {
            OpenOutput::File { file, .. } | OpenOutput::Null(file) => Some(file),
            OpenOutput::Stream => None,
        }
    }

    /// Adds the figures so far: the path of the bytes, and the dropped bytes.
    pub(super) fn so_far(&self, stats: &mut OutputStats) {
        self.sink.add_stats(stats);
        stats.system_calls += self.calls;
        stats.spills += self.spills;
        let cut = self.failed.as_ref().map(|(_, cut)| cut.records);
        stats.dropped_bytes += cut.map_or(0, |kept| self.records.saturating_sub(kept));
    }

    /// Bytes in the file, or sent to the stream.
    pub(super) fn written(&self) -> u64 {
        self.failed.as_ref().map_or(self.sink.end(), |(_, cut)| cut.end)
    }

    /// Writes the beginning of the recording.
    pub(super) fn begin(&mut self, description: &Description) -> Result<()> {
        let description = self.with_compression(description);
        let beginning = if self.file().is_some() {
            let block = self.direct.as_ref().map_or(1, |direct| direct.block);
            description.beginning(later_ids::room, block)?
        } else {
            Beginning { bytes: description.stream_beginning()?, ..Beginning::default() }
        };
        if let Err(error) = self.sink.append(&[&beginning.bytes]) {
            self.failed = Some((error.into(), CutPoint::default()));
            return self.still_going();
        }
        self.start = self.sink.end();
        if let (Some(direct), OpenOutput::File { file, .. }) = (self.direct.take(), &self.open) {
            self.sink.go_direct(Arc::clone(file), direct);
        }
        self.known_end = self.start;
        self.beginning = beginning;
        self.cuts = Cuts::new(self.start, self.compressor.is_some());
        Ok(())
    }

    /// Compression is decided here, so the feature is added here.
    fn with_compression<'a>(&self, description: &'a Description) -> Cow<'a, Description> {
        match &self.compressor {
            None => Cow::Borrowed(description),
            Some(compressor) => {
                let mut description = description.clone();
                description.features.push(compressor.feature());
                Cow::Owned(description)
            }
        }
    }

    /// See [`super::Output::add_ids`].
    pub(super) fn add_ids(&mut self, description: &Description, ids: &[Vec<u64>]) -> Result<()> {
        self.still_going()?;
        let Some(file) = self.file().cloned() else {
            return later_ids::each(ids)
                .try_for_each(|ids| self.append(&[&description.stream_ids(&ids)?]));
        };
        self.calls += later_ids::write(&mut self.beginning, &*file, ids)?;
        Ok(())
    }

    /// Continues through mapped windows, if this is a file that isn't mapped yet.
    pub(super) fn map(&mut self, window_thread: WindowThread, window_bytes: u64) {
        if let OpenOutput::File { file, .. } = &self.open {
            self.sink.map(Arc::clone(file), window_thread, window_bytes);
        }
    }

    /// Writes whole records, or the rest of them.
    pub(super) fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        self.append_up_to(records, true)
    }

    /// Writes bytes whose last record continues with the next call.
    pub(super) fn append_part(&mut self, part: &[u8]) -> Result<()> {
        self.append_up_to(&[part], false)
    }

    fn append_up_to(&mut self, records: &[&[u8]], is_whole: bool) -> Result<()> {
        self.records += records.iter().map(|piece| piece.len() as u64).sum::<u64>();
        self.still_going()?;
        match self.compressor.take() {
            None => self.write(records, is_whole.then_some(self.records)),
            Some(mut compressor) => {
                let written = records.iter().try_for_each(|piece| {
                    compressor.add(piece, |packed, records| self.write(&[packed], records))
                });
                self.compressor = Some(compressor);
                written
            }
        }
    }

    fn still_going(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |(error, _)| Err(error.clone()))
    }

    /// Writes bytes to the sink. If `records` is given, the data may end after them, with that many
    /// bytes of records before.
    fn write(&mut self, pieces: &[&[u8]], records: Option<u64>) -> Result<()> {
        // A write past the file's end would fill the gap with zeros.
        if self.sink.writes() {
            self.check()?;
            self.is_checked = true;
        }
        // The feature table of the next flush is written along.
        let table = if records.is_some() { &self.beginning.feature_table[..] } else { &[] };
        let written = if table.is_empty() {
            self.sink.append(pieces).map(|()| false)
        } else {
            self.sink.append_before(pieces, table)
        };
        self.has_table = written == Ok(true);
        if written == Err(Errno::STALE) || self.sink.is_torn() {
            return self.torn();
        }
        if let Err(error) = written {
            let end = self.end_here(error);
            // Of two failures the first is reported.
            let _ = self.make_cut_known(end);
            return self.still_going();
        }
        if let Some(records) = records {
            self.cuts.add(CutPoint { end: self.sink.end(), records });
        }
        Ok(())
    }

    /// Checks that the file still exists and has the length that was written.
    fn check(&mut self) -> Result<()> {
        let OpenOutput::File { file, .. } = &self.open else { return Ok(()) };
        let FileState { bytes, is_deleted } = file.state()?;
        self.calls += 1;
        if bytes < self.sink.in_file() {
            self.gone(OutputError::Truncated, bytes)
        } else if is_deleted {
            self.gone(OutputError::Deleted, u64::MAX)
        } else {
            Ok(())
        }
    }

    /// Brings everything written into the file.
    fn write_out(&mut self) -> Result<()> {
        match self.sink.write_out() {
            Err(Errno::STALE) => self.torn(),
            arrived => self.going_on_if(arrived),
        }
    }

    /// Ends the data where the sink found the file truncated, even if the file has been extended
    /// since.
    fn torn(&mut self) -> Result<()> {
        self.check()?;
        self.gone(OutputError::Truncated, self.start)
    }

    /// Ends the data for this reason, at most at `limit`.
    fn gone(&mut self, why: OutputError, limit: u64) -> Result<()> {
        if why == OutputError::Truncated {
            self.sink.abandon();
        } else {
            self.go_plain();
        }
        let cut = self.cut(limit.min(self.sink.end()));
        self.failed = Some((why, cut));
        // Of two failures the first is reported.
        let _ = self.restore_beginning().and_then(|()| Ok(self.make_cut_known(cut.end)?));
        self.still_going()
    }

    /// Restores the beginning of a truncated file.
    fn restore_beginning(&mut self) -> Result<()> {
        if let OpenOutput::File { file, .. } = &self.open
            && file.state()?.bytes < self.start
        {
            write_at(&**file, &self.beginning.bytes, 0)?;
        }
        Ok(())
    }

    /// Continues by writes, so that the file may be truncated. The data end before the first byte
    /// that finds no room.
    fn go_plain(&mut self) {
        let Err(error) = self.sink.go_plain() else { return };
        if self.failed.is_none() {
            self.end_here(error);
        } else {
            self.end_before(self.sink.end());
        }
    }

    /// Ends the data after everything written so far, for this reason. Returns the offset.
    fn end_here(&mut self, why: impl Into<OutputError>) -> u64 {
        let cut = self.cut(self.sink.end());
        self.failed = Some((why.into(), cut));
        cut.end
    }

    /// The last place up to `limit` at which the data may end.
    fn cut(&self, limit: u64) -> CutPoint {
        self.cuts.before(limit, self.file().map(|file| &**file))
    }

    /// Makes everything written so far readable, even if the file is never finished.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.still_going()?;
        self.pack()?;
        if !std::mem::take(&mut self.is_checked) {
            self.check()?;
        }
        self.make_known()?;
        if self.sync
            && let Some(file) = self.file()
        {
            let synced = file.sync();
            self.calls += 1;
            return self.going_on_if(synced);
        }
        Ok(())
    }

    /// Ends the data if making them known has failed: a reader might not find later data.
    fn going_on_if(&mut self, done: std::result::Result<(), Errno>) -> Result<()> {
        if let Err(error) = done {
            self.end_here(error);
        }
        self.still_going()
    }

    /// Writes the data that wait for compression.
    fn pack(&mut self) -> Result<()> {
        let Some(mut compressor) = self.compressor.take() else { return Ok(()) };
        let written = compressor.flush(|packed, records| self.write(&[packed], records));
        self.compressor = Some(compressor);
        written
    }

    /// Makes everything written known: writes a feature table after it, then the header.
    fn make_known(&mut self) -> Result<()> {
        let end = self.sink.end();
        let Some(file) = self.file().cloned().filter(|_| end != self.known_end) else {
            return Ok(());
        };
        if std::mem::take(&mut self.has_table) {
            self.sink.skip(self.beginning.feature_table.len() as u64);
        } else {
            let table = std::mem::take(&mut self.beginning.feature_table);
            let written = self.write(&[&table], None);
            self.beginning.feature_table = table;
            written?;
            self.is_checked = false;
        }
        // Compressed data are cut only between blocks, whose ends are known.
        if self.compressor.is_none() {
            self.cuts.add_behind_table(CutPoint { end: self.sink.end(), records: self.records });
        }
        self.write_out()?;
        let told = write_at(&*file, &self.beginning.data_size(end), DATA_SIZE_OFFSET);
        self.going_on_if(told)?;
        self.known_end = self.sink.end();
        self.calls += 1;
        Ok(())
    }

    /// Makes the data before a cut known. Nothing but the file's end is written after the cut.
    fn make_cut_known(&mut self, end: u64) -> std::result::Result<(), Errno> {
        let Some(file) = self.file() else { return Ok(()) };
        write_at(&**file, &self.beginning.feature_table, end)?;
        write_at(&**file, &self.beginning.data_size(end), DATA_SIZE_OFFSET)?;
        self.calls += 2;
        Ok(())
    }

    /// Returns the bytes that the file, or the stream, will have when it ends this way; `None`
    /// after a failure.
    pub(super) fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        self.still_going().ok()?;
        self.pack().ok()?;
        let data_end = self.sink.end() + closing.records.len() as u64;
        let description = self.with_compression(closing.description);
        let tail = match self.file() {
            Some(_) => description.ending(&(self.start..data_end)).ok()?.tail.len(),
            None => description.stream_ending().len(),
        };
        Some(data_end + tail as u64)
    }
}
