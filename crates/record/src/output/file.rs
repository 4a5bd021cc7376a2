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
    /// Only when it has so many bytes it may go past the page cache.
    direct_at: u64,
    cuts: Cuts,
    /// What the file begins with.
    beginning: Beginning,
    /// Where the records begin that were appended.
    start: u64,
    /// Where what was written ended when the header last learned of it.
    known_end: u64,
    compressor: Option<Compressor>,
    sync: bool,
    /// Bytes of records that were handed over.
    records: u64,
    /// System calls for what is not written by the sink.
    calls: u64,
    /// Whether the file was looked at since the last flush.
    is_checked: bool,
    /// Whether a feature table lies behind what was written, which the next bytes replace.
    has_table: bool,
    /// How often the disk was too slow for being written past the page cache.
    spills: u64,
    /// Why the data end, and where.
    failed: Option<(OutputError, CutPoint)>,
}

impl OutputFile {
    /// Begins to write at a place.
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

    /// The file, where bytes can be written to a place of it.
    fn file(&self) -> Option<&Arc<dyn DiskFile>> {
        match &self.open {
            OpenOutput::File { file, .. } | OpenOutput::Null(file) => Some(file),
            OpenOutput::Stream => None,
        }
    }

    /// Adds to the figures what is known so far: of the path that the bytes take, and of what didn't
    /// find room.
    pub(super) fn so_far(&self, stats: &mut OutputStats) {
        self.sink.add_stats(stats);
        stats.system_calls += self.calls;
        stats.spills += self.spills;
        let cut = self.failed.as_ref().map(|(_, cut)| cut.records);
        stats.dropped_bytes += cut.map_or(0, |kept| self.records.saturating_sub(kept));
    }

    /// Bytes in the file, or that went into the stream.
    pub(super) fn written(&self) -> u64 {
        self.failed.as_ref().map_or(self.sink.end(), |(_, cut)| cut.end)
    }

    /// Writes what the recording begins with.
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

    /// What the description says of compression is this type's own affair.
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

    /// From here on through windows, where this is a file that is not mapped yet.
    pub(super) fn map(&mut self, window_thread: WindowThread, window_bytes: u64) {
        if let OpenOutput::File { file, .. } = &self.open {
            self.sink.map(Arc::clone(file), window_thread, window_bytes);
        }
    }

    /// Writes whole records, or what is left of them.
    pub(super) fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        self.append_up_to(records, true)
    }

    /// Writes bytes of records the last of which goes on with the next call.
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

    /// Writes bytes to the sink. Behind them the data may end, where the bytes of records before
    /// that place are given.
    fn write(&mut self, pieces: &[&[u8]], records: Option<u64>) -> Result<()> {
        // A write behind the end would fill what lies between with zeros.
        if self.sink.writes() {
            self.check()?;
            self.is_checked = true;
        }
        // What a flush would write behind them goes along.
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
            // Of two failures the first says why.
            let _ = self.make_cut_known(end);
            return self.still_going();
        }
        if let Some(records) = records {
            self.cuts.add(CutPoint { end: self.sink.end(), records });
        }
        Ok(())
    }

    /// Whether the file is still there, as long as it was written.
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

    /// Has everything that was written in the file.
    fn write_out(&mut self) -> Result<()> {
        match self.sink.write_out() {
            Err(Errno::STALE) => self.torn(),
            arrived => self.going_on_if(arrived),
        }
    }

    /// Ends the data where the sink found the file shorter than it had written it: also where
    /// somebody has made it long again meanwhile.
    fn torn(&mut self) -> Result<()> {
        self.check()?;
        self.gone(OutputError::Truncated, self.start)
    }

    /// Ends the data at most at `limit`, for this reason.
    fn gone(&mut self, why: OutputError, limit: u64) -> Result<()> {
        if why == OutputError::Truncated {
            self.sink.abandon();
        } else {
            self.go_plain();
        }
        let cut = self.cut(limit.min(self.sink.end()));
        self.failed = Some((why, cut));
        // Of two failures the first says why.
        let _ = self.restore_beginning().and_then(|()| Ok(self.make_cut_known(cut.end)?));
        self.still_going()
    }

    /// Writes again what a truncated file lacks of its beginning.
    fn restore_beginning(&mut self) -> Result<()> {
        if let OpenOutput::File { file, .. } = &self.open
            && file.state()?.bytes < self.start
        {
            write_at(&**file, &self.beginning.bytes, 0)?;
        }
        Ok(())
    }

    /// From here on by writes, so that the file may be cut. The data end before what finds no room.
    fn go_plain(&mut self) {
        let Err(error) = self.sink.go_plain() else { return };
        if self.failed.is_none() {
            self.end_here(error);
        } else {
            self.end_before(self.sink.end());
        }
    }

    /// Ends the data with what was written so far, for this reason. Returns where that is.
    fn end_here(&mut self, why: impl Into<OutputError>) -> u64 {
        let cut = self.cut(self.sink.end());
        self.failed = Some((why.into(), cut));
        cut.end
    }

    /// The last place up to `limit` at which the data may end.
    fn cut(&self, limit: u64) -> CutPoint {
        self.cuts.before(limit, self.file().map(|file| &**file))
    }

    /// Everything that was written can be read from now on, also if nobody finishes the file.
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

    /// A failure of what makes data known ends them: what is behind may not be found.
    fn going_on_if(&mut self, done: std::result::Result<(), Errno>) -> Result<()> {
        if let Err(error) = done {
            self.end_here(error);
        }
        self.still_going()
    }

    /// Writes what waits to be compressed.
    fn pack(&mut self) -> Result<()> {
        let Some(mut compressor) = self.compressor.take() else { return Ok(()) };
        let written = compressor.flush(|packed, records| self.write(&[packed], records));
        self.compressor = Some(compressor);
        written
    }

    /// Makes all that was written known: a feature table behind it, then the header.
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
        // Compressed records are cut between blocks alone, whose ends are known.
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

    /// Makes known what lies before a cut, behind which nothing is written any more but the file's
    /// end.
    fn make_cut_known(&mut self, end: u64) -> std::result::Result<(), Errno> {
        let Some(file) = self.file() else { return Ok(()) };
        write_at(&**file, &self.beginning.feature_table, end)?;
        write_at(&**file, &self.beginning.data_size(end), DATA_SIZE_OFFSET)?;
        self.calls += 2;
        Ok(())
    }

    /// Bytes that the file will have, or that will have gone into the stream, when it ends like
    /// this: where nothing fails before.
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
