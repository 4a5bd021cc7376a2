//! One file of a recording, or a stream: its beginning, its records, its end.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use rustix::io::Errno;
use tare_format::file::writer::{Beginning, DATA_SIZE_OFFSET, Description, Ending};

use super::compressor::Compressor;
use super::cuts::{CutPoint, Cuts};
use super::disk::{CutFile, DirectFile, DiskFile, FileState, OpenDestination, OutputBackend};
use super::later_ids;
use super::sink::Sink;
use super::window_thread::WindowThread;
use super::write::write_at;
use super::{Closing, OutputError, OutputOptions, OutputStats, PathChoice, Result};

/// Bytes written through the page cache after the disk was too slow, before `O_DIRECT` is tried
/// again.
const SPILLED: u64 = 64 << 20;

/// Limit on the number of times that the data are cut to make room for the file's end.
const ATTEMPTS: u64 = 4;

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
    direct: DirectUse,
    data: RecordedData,
    published: PublishedData,
    compressor: Option<Compressor>,
    sync: bool,
    /// System calls other than the sink's.
    calls: u64,
    /// Whether the file's state was checked since the last flush.
    is_checked: bool,
}

/// When the file goes past the page cache.
#[derive(Debug)]
struct DirectUse {
    /// The file past the page cache, until its beginning is written.
    file: Option<DirectFile>,
    /// Bytes that the file must have before it may go past the page cache.
    from: u64,
    /// Number of times that the disk was too slow for writing past the page cache.
    spills: u64,
}

/// The records in the file. Once `failed` is set, the data end at its cut, which only moves back.
/// The reason stays, unless the file is then found to be deleted.
#[derive(Debug)]
struct RecordedData {
    /// Offset of the first appended record.
    start: u64,
    /// Bytes of appended records.
    records: u64,
    cuts: Cuts,
    /// Why and where the data end, after a failure.
    failed: Option<(OutputError, CutPoint)>,
}

impl RecordedData {
    /// Fails with the reason if the data have ended.
    fn check_going(&self) -> Result<()> {
        self.failed.as_ref().map_or(Ok(()), |(error, _)| Err(error.clone()))
    }

    /// Offset of the end of data that have ended.
    fn end(&self) -> Option<u64> {
        self.failed.as_ref().map(|(_, cut)| cut.end)
    }

    /// Bytes of appended records after the end of data that have ended.
    fn dropped(&self) -> u64 {
        self.failed.as_ref().map_or(0, |(_, cut)| self.records.saturating_sub(cut.records))
    }

    /// Moves the end back to `cut`, and keeps the reason; `why` applies to data that have not
    /// ended.
    fn move_end(&mut self, cut: CutPoint, why: OutputError) {
        let why = self.failed.take().map_or(why, |(earlier, _)| earlier);
        self.failed = Some((why, cut));
    }
}

/// The data that the file's header makes known to readers.
#[derive(Debug, Default)]
struct PublishedData {
    /// The beginning of the file: header, events, features.
    beginning: Beginning,
    /// End of the feature table that follows the data according to the header.
    end: u64,
    /// Whether a feature table follows the data, which the next bytes overwrite.
    has_table: bool,
}

impl OutputFile {
    pub(super) fn new(place: OpenDestination, options: &OutputOptions) -> Result<Self> {
        let mut direct = None;
        let (open, sink) = match place {
            OpenDestination::File { file, path } => {
                let mut sink = Sink::file(Arc::clone(&file));
                if options.choice == PathChoice::Direct {
                    direct = file.direct().map_err(|why| sink.note_fallback(why)).ok();
                }
                (OpenOutput::File { file, path }, sink)
            }
            OpenDestination::Null(file) => (OpenOutput::Null(Arc::clone(&file)), Sink::file(file)),
            OpenDestination::Stream(file) => (OpenOutput::Stream, Sink::stream(file)),
        };
        let compressor = options.compress.map(Compressor::new).transpose()?;
        let from = if options.choice == PathChoice::Auto { 0 } else { u64::MAX };
        Ok(Self {
            open,
            sink,
            direct: DirectUse { file: direct, from, spills: 0 },
            data: RecordedData { start: 0, records: 0, cuts: Cuts::new(0, false), failed: None },
            published: PublishedData::default(),
            compressor,
            sync: options.sync,
            calls: 0,
            is_checked: false,
        })
    }

    /// The file, unless the destination is a stream.
    fn file(&self) -> Option<&Arc<dyn DiskFile>> {
        match &self.open {
            OpenOutput::File { file, .. } | OpenOutput::Null(file) => Some(file),
            OpenOutput::Stream => None,
        }
    }

    /// Adds the figures so far, except the bytes in the file and of records.
    pub(super) fn so_far(&self, stats: &mut OutputStats) {
        self.sink.add_stats(stats);
        stats.system_calls += self.calls;
        stats.spills += self.direct.spills;
        stats.dropped_bytes += self.data.dropped();
    }

    /// Bytes in the file, or sent to the stream.
    pub(super) fn written(&self) -> u64 {
        self.data.end().unwrap_or(self.sink.end())
    }

    pub(super) fn begin(&mut self, description: &Description) -> Result<()> {
        let description = self.with_compression(description);
        let beginning = if self.file().is_some() {
            let block = self.direct.file.as_ref().map_or(1, |direct| direct.block);
            description.beginning(later_ids::room, block)?
        } else {
            Beginning { bytes: description.stream_beginning()?, ..Beginning::default() }
        };
        if let Err(error) = self.sink.append(&[&beginning.bytes]) {
            self.data.failed = Some((error.into(), CutPoint::default()));
            return self.data.check_going();
        }
        self.data.start = self.sink.end();
        if let (Some(direct), OpenOutput::File { file, .. }) = (self.direct.file.take(), &self.open)
        {
            self.sink.go_direct(Arc::clone(file), direct);
        }
        self.published.end = self.data.start;
        self.published.beginning = beginning;
        self.data.cuts = Cuts::new(self.data.start, self.compressor.is_some());
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
        self.data.check_going()?;
        let Some(file) = self.file().cloned() else {
            return later_ids::stream_rounds(ids)
                .try_for_each(|ids| self.append(&[&description.stream_ids(&ids)?]));
        };
        self.calls += later_ids::write(&mut self.published.beginning, &*file, ids)?;
        Ok(())
    }

    /// Continues through mapped windows, if this is a file.
    pub(super) fn map(&mut self, window_thread: WindowThread, window_bytes: u64) {
        if let OpenOutput::File { file, .. } = &self.open {
            self.sink.map(Arc::clone(file), window_thread, window_bytes);
        }
    }

    /// Writes whole records, or the rest of them.
    pub(super) fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        self.append_up_to(records, true)
    }

    /// Writes bytes whose last record may continue with the next call.
    pub(super) fn append_part(&mut self, part: &[u8]) -> Result<()> {
        self.append_up_to(&[part], false)
    }

    fn append_up_to(&mut self, records: &[&[u8]], is_whole: bool) -> Result<()> {
        self.data.records += records.iter().map(|piece| piece.len() as u64).sum::<u64>();
        self.data.check_going()?;
        match self.compressor.take() {
            None => self.write(records, is_whole.then_some(self.data.records)),
            Some(mut compressor) => {
                let written = records.iter().try_for_each(|piece| {
                    compressor.add(piece, |packed, records| self.write(&[packed], records))
                });
                self.compressor = Some(compressor);
                written
            }
        }
    }

    /// Writes bytes to the sink. If `records` is given, the data may end after them, with that many
    /// bytes of records before.
    fn write(&mut self, pieces: &[&[u8]], records: Option<u64>) -> Result<()> {
        // A write past the file's end would fill the gap with zeros.
        if self.sink.is_by_writes() {
            self.check()?;
            self.is_checked = true;
        }
        // The feature table of the next flush is written along.
        let table =
            if records.is_some() { &self.published.beginning.feature_table[..] } else { &[] };
        let written = if table.is_empty() {
            self.sink.append(pieces).map(|()| false)
        } else {
            self.sink.append_before(pieces, table)
        };
        self.published.has_table = written == Ok(true);
        if written == Err(Errno::STALE) || self.sink.is_torn() {
            return self.end_truncated();
        }
        if let Err(error) = written {
            let end = self.end_here(error);
            // Of two failures the first is reported.
            let _ = self.make_cut_known(end);
            return self.data.check_going();
        }
        if let Some(records) = records {
            self.data.cuts.add(CutPoint { end: self.sink.end(), records });
        }
        Ok(())
    }

    /// Checks that the file still exists and has the length that was written; otherwise ends the
    /// data.
    fn check(&mut self) -> Result<()> {
        let OpenOutput::File { file, .. } = &self.open else { return Ok(()) };
        let FileState { bytes, is_deleted } = file.state()?;
        self.calls += 1;
        if bytes < self.sink.in_file() {
            self.end_at_most(OutputError::Truncated, bytes)
        } else if is_deleted {
            self.end_at_most(OutputError::Deleted, u64::MAX)
        } else {
            Ok(())
        }
    }

    /// Brings everything written into the file.
    fn write_out(&mut self) -> Result<()> {
        match self.sink.write_out() {
            Err(Errno::STALE) => self.end_truncated(),
            arrived => self.end_on_error(arrived),
        }
    }

    /// Ends the data after the sink found the file truncated: at the file's length, or before the
    /// first record if the file has been extended since.
    fn end_truncated(&mut self) -> Result<()> {
        self.check()?;
        self.end_at_most(OutputError::Truncated, self.data.start)
    }

    /// Ends the data for this reason, at `limit` or before.
    fn end_at_most(&mut self, why: OutputError, limit: u64) -> Result<()> {
        if why == OutputError::Truncated {
            self.sink.abandon();
        } else {
            self.go_plain();
        }
        let cut = self.cut(limit.min(self.sink.end()));
        self.data.failed = Some((why, cut));
        // Of two failures the first is reported.
        let _ = self.restore_beginning().and_then(|()| Ok(self.make_cut_known(cut.end)?));
        self.data.check_going()
    }

    /// Restores the beginning of a truncated file.
    fn restore_beginning(&mut self) -> Result<()> {
        if let OpenOutput::File { file, .. } = &self.open
            && file.state()?.bytes < self.data.start
        {
            write_at(&**file, &self.published.beginning.bytes, 0)?;
        }
        Ok(())
    }

    /// Continues by writes, so that the file may be truncated. If the disk is full, the data end
    /// before the first byte without room.
    fn go_plain(&mut self) {
        let Err(error) = self.sink.go_plain() else { return };
        if self.data.failed.is_none() {
            self.end_here(error);
        } else {
            self.end_before(self.sink.end());
        }
    }

    /// Ends the data after everything written so far, for this reason. Returns the offset.
    fn end_here(&mut self, why: impl Into<OutputError>) -> u64 {
        let cut = self.cut(self.sink.end());
        self.data.failed = Some((why.into(), cut));
        cut.end
    }

    /// The last place up to `limit` at which the data may end.
    fn cut(&self, limit: u64) -> CutPoint {
        self.data.cuts.before(limit, self.file().map(|file| &**file))
    }

    /// Makes everything written so far readable, even if the file is never finished.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.data.check_going()?;
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
            return self.end_on_error(synced);
        }
        Ok(())
    }

    /// Ends the data if an operation failed that makes them known: a reader might not find later
    /// data.
    fn end_on_error(&mut self, done: std::result::Result<(), Errno>) -> Result<()> {
        if let Err(error) = done {
            self.end_here(error);
        }
        self.data.check_going()
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
        let Some(file) = self.file().cloned().filter(|_| end != self.published.end) else {
            return Ok(());
        };
        if std::mem::take(&mut self.published.has_table) {
            self.sink.skip(self.published.beginning.feature_table.len() as u64);
        } else {
            let table = std::mem::take(&mut self.published.beginning.feature_table);
            let written = self.write(&[&table], None);
            self.published.beginning.feature_table = table;
            written?;
            self.is_checked = false;
        }
        // Compressed data are cut only between blocks, whose ends are known.
        if self.compressor.is_none() {
            self.data
                .cuts
                .add_after_table(CutPoint { end: self.sink.end(), records: self.data.records });
        }
        self.write_out()?;
        let told = write_at(&*file, &self.published.beginning.data_size(end), DATA_SIZE_OFFSET);
        self.end_on_error(told)?;
        self.published.end = self.sink.end();
        self.calls += 1;
        Ok(())
    }

    /// Makes the data before a cut known. Nothing but the file's end is written after the cut.
    fn make_cut_known(&mut self, end: u64) -> std::result::Result<(), Errno> {
        let Some(file) = self.file() else { return Ok(()) };
        write_at(&**file, &self.published.beginning.feature_table, end)?;
        write_at(&**file, &self.published.beginning.data_size(end), DATA_SIZE_OFFSET)?;
        self.calls += 2;
        Ok(())
    }

    /// Returns the bytes that the file, or the stream, will have when it ends this way; `None`
    /// after a failure.
    pub(super) fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        self.data.check_going().ok()?;
        self.pack().ok()?;
        let data_end = self.sink.end() + closing.records.len() as u64;
        let description = self.with_compression(closing.description);
        let tail = match self.file() {
            Some(_) => description.ending(&(self.data.start..data_end)).ok()?.tail.len(),
            None => description.stream_ending().len(),
        };
        Some(data_end + tail as u64)
    }

    /// See [`super::Output::is_discarding`].
    pub(super) fn is_discarding(&self) -> bool {
        matches!(self.open, OpenOutput::Null(_))
    }

    /// Whether the file can go past the page cache, on a file system that benefits from it.
    pub(super) fn may_be_direct(&self) -> bool {
        matches!(&self.open, OpenOutput::File { file, .. } if file.direct().is_ok())
    }

    /// Continues past the page cache.
    pub(super) fn go_direct(&mut self) {
        if self.sink.end() < self.direct.from || self.sink.is_direct() || self.data.failed.is_some()
        {
            return;
        }
        // If the kernel refuses, it isn't tried again.
        self.direct.from = u64::MAX;
        let OpenOutput::File { file, .. } = &self.open else { return };
        let file = Arc::clone(file);
        // If that isn't possible, writes continue through the page cache.
        let Ok(direct) = file.direct() else { return };
        self.calls += 4;
        // Starts writeback of the page cache; the end of the file drops it.
        file.forget(self.sink.end());
        // The buffer doesn't contain the table after the data, so it can't be overwritten there.
        self.published.has_table = false;
        self.sink.go_direct(file, direct);
    }

    /// Continues through the page cache.
    pub(super) fn leave_direct(&mut self) {
        if self.data.failed.is_none() && self.sink.is_direct() {
            self.go_plain();
            self.direct.from = self.sink.end();
        }
    }

    /// Continues through the page cache for a while.
    pub(super) fn spill(&mut self) {
        if self.data.failed.is_some() || !self.sink.is_direct() {
            return;
        }
        self.direct.spills += 1;
        self.go_plain();
        self.direct.from = self.sink.end().saturating_add(SPILLED);
    }

    /// Reserves `room` bytes after the data for the file's end. If the disk has no room, the data
    /// end as after a failed write.
    pub(super) fn reserve(&mut self, room: u64) -> Result<()> {
        self.data.check_going()?;
        self.pack()?;
        self.check()?;
        self.write_out()?;
        let OpenOutput::File { file, .. } = &self.open else { return Ok(()) };
        let zeros = vec![0; usize::try_from(room).unwrap_or(0)];
        self.published.has_table = false;
        self.calls += 1;
        match write_at(&**file, &zeros, self.sink.end()) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                self.end_here(error);
                self.data.check_going()
            }
            // Any other failure repeats when the end is written.
            _ => Ok(()),
        }
    }

    /// If the data had to end, cuts them until `room` bytes fit after them, and returns the rest as
    /// an unfinished recording.
    pub(super) fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        if self.data.failed.is_none() {
            // `failed` holds a failure too.
            let _ = self.pack().and_then(|()| self.check());
        }
        let OpenOutput::File { file, .. } = &self.open else { return None };
        let file = Arc::clone(file);
        self.data.failed.as_ref()?;
        self.go_plain();
        let room = room + self.published.beginning.feature_table.len() as u64;
        if self.lacks_room(room, &*file) {
            self.end_before(self.sink.end().saturating_sub(room).max(self.data.start));
        }
        let end = self.data.end()?;
        // A second attempt may succeed, and without it the rest can't be counted.
        self.make_cut_known(end).or_else(|_| self.make_cut_known(end)).ok()?;
        let end = end + self.published.beginning.feature_table.len() as u64;
        Some(CutFile { file, at: 0, end })
    }

    /// Whether the disk has no room for `room` bytes after data that have ended. It may be full
    /// even if the data ended for another reason.
    fn lacks_room(&self, room: u64, file: &dyn DiskFile) -> bool {
        match &self.data.failed {
            None => false,
            Some((OutputError::Full | OutputError::TooLong, _)) => true,
            Some((_, cut)) => {
                let zeros = vec![0; usize::try_from(room).unwrap_or(0)];
                let written = write_at(file, &zeros, cut.end);
                matches!(written, Err(Errno::NOSPC | Errno::DQUOT | Errno::FBIG))
            }
        }
    }

    /// Moves the end of data that have ended back to at most `limit`.
    fn end_before(&mut self, limit: u64) {
        if self.data.end().is_some_and(|end| limit < end) {
            let cut = self.cut(limit);
            self.data.failed = self.data.failed.take().map(|(why, _)| (why, cut));
        }
    }

    /// Completes the file, or the rest of it after a failure. Returns the window thread, for the
    /// next file, and the file's path.
    pub(super) fn finish(
        mut self,
        closing: &Closing<'_>,
        stats: &mut OutputStats,
        backend: &OutputBackend,
    ) -> (Option<WindowThread>, Option<PathBuf>) {
        if self.data.start > 0 {
            match self.complete(closing) {
                Ok(bytes) => stats.bytes += bytes,
                Err(error) => {
                    stats.bytes += self.sink.end();
                    stats.unfinished = true;
                    stats.stopped.get_or_insert(error);
                }
            }
        }
        stats.uncompressed_bytes += self.data.records;
        let mut new_path = None;
        stats.dropped_bytes += self.data.dropped();
        if let Some((mut error, _)) = self.data.failed {
            if let (OutputError::Deleted, OpenOutput::File { file, path }) = (&error, &self.open) {
                match backend.disk.write_anew(&**file, path, backend.clock.time_of_day()) {
                    Ok(path) => new_path = Some(path),
                    Err(errno) => error = OutputError::DeletedForGood(errno),
                }
            }
            stats.stopped.get_or_insert(error);
        }
        self.sink.abandon();
        self.sink.add_stats(stats);
        stats.system_calls += self.calls;
        stats.spills += self.direct.spills;
        let window_thread = self.sink.into_window_thread();
        match self.open {
            OpenOutput::File { path, .. } => (window_thread, Some(new_path.unwrap_or(path))),
            OpenOutput::Null(_) | OpenOutput::Stream => (window_thread, None),
        }
    }

    /// Writes the end; returns the length of the file.
    fn complete(&mut self, closing: &Closing<'_>) -> Result<u64> {
        if self.data.failed.is_none() {
            // `failed` holds a failure too, and the file is completed all the same.
            let _ = self.pack().and_then(|()| self.check());
        }
        self.go_plain();
        let description = self.with_compression(closing.description).into_owned();
        match self.file().cloned() {
            Some(file) => self.complete_file(&*file, closing.records, &description),
            None if self.data.failed.is_some() => Ok(self.sink.end()),
            None => {
                self.sink.append(&[closing.records, &description.stream_ending()])?;
                Ok(self.sink.end())
            }
        }
    }

    /// Writes the end of the file and then its header; returns the file's length.
    ///
    /// ```text
    /// enough room     | header | records ................ | last | tail |
    /// no room         | header | records ........ | last | tail |          cut at a record's end, as far back as necessary
    /// ```
    fn complete_file(
        &mut self,
        file: &dyn DiskFile,
        last: &[u8],
        description: &Description,
    ) -> Result<u64> {
        let room = self.sink.end();
        for attempt in 0..=ATTEMPTS {
            let end = self.data.end().unwrap_or(room);
            // Until the header is written, a reader finds the data up to here by the table after
            // them, so the table stays.
            let table = if end == self.published.end {
                0
            } else {
                self.published.beginning.feature_table.len()
            };
            let behind = end + table as u64;
            // The last records are part of the data; the tail follows them.
            let data_end = behind + last.len() as u64;
            let ending = description.ending(&(self.data.start..data_end))?;
            let bytes = [last, &ending.tail].concat();
            let known = if table == 0 { Ok(()) } else { self.make_cut_known(end) };
            match known.and_then(|()| write_at(file, &bytes, behind)) {
                Ok(()) => return self.close(file, &ending, data_end),
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    // Copy-on-write file systems need some extra room.
                    let tail = (table + bytes.len()) as u64 + attempt * (256 << 10);
                    let limit = room.saturating_sub(tail).max(self.data.start).min(end);
                    // The room was reserved, so a failure now may not repeat.
                    if self.data.failed.is_some() || attempt > 0 {
                        self.data.move_end(self.cut(limit), error.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(OutputError::Full)
    }

    /// Points the header at the tail, which is already in the file, and truncates the rest.
    fn close(&self, file: &dyn DiskFile, ending: &Ending, data_end: u64) -> Result<u64> {
        write_at(file, &ending.header, 0)?;
        let length = data_end + ending.tail.len() as u64;
        if matches!(self.open, OpenOutput::File { .. }) {
            file.set_len(length)?;
            if self.sink.was_direct() {
                file.forget(length);
            }
        }
        if self.sync {
            file.sync()?;
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_keep_the_first_reason_when_their_end_moves_back() {
        let cuts = Cuts::new(100, false);
        let mut data = RecordedData { start: 100, records: 80, cuts, failed: None };
        assert_eq!((data.check_going(), data.end(), data.dropped()), (Ok(()), None, 0));
        data.move_end(CutPoint { end: 160, records: 60 }, OutputError::Deleted);
        data.move_end(CutPoint { end: 140, records: 40 }, OutputError::Full);
        assert_eq!(data.check_going(), Err(OutputError::Deleted));
        assert_eq!((data.end(), data.dropped()), (Some(140), 40));
    }
}
