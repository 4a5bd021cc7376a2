//! A recording: a file, a stream, or several files in sequence.

use std::path::PathBuf;
use std::time::Instant;

use rustix::io::Errno;
use tare_format::file::writer::Description;

use super::disk::{CutFile, OpenDestination, OutputBackend};
use super::file::OutputFile;
use super::names::KeptFiles;
use super::pace::Pace;
use super::window_thread::WindowThread;
use super::{
    Closing, FileSwitch, OutputError, OutputOptions, OutputStats, PathChoice, RecordWriter, Result,
};

/// A recording that is being written.
#[derive(Debug)]
pub(super) struct FileSeries {
    options: OutputOptions,
    backend: OutputBackend,
    /// The current file; `None` if the next file could not be created.
    file: Option<OutputFile>,
    window_thread: Option<WindowThread>,
    /// Whether the queue's thread writes, which may wait for a disk.
    is_apart: bool,
    /// Growth rate, if the path of files depends on it.
    pace: Option<Pace>,
    beginning: FileBeginning,
    stats: OutputStats,
    kept: KeptFiles,
    failed: Option<OutputError>,
}

/// The beginning of the current file.
#[derive(Clone, Copy, Debug)]
struct FileBeginning {
    at: Instant,
    /// Bytes that describe what existed before the file's first record.
    bytes: u64,
}

impl FileSeries {
    /// Prepares to write to an open destination.
    pub(super) fn new(
        place: OpenDestination,
        options: &OutputOptions,
        backend: OutputBackend,
    ) -> Result<Self> {
        let is_file = matches!(place, OpenDestination::File { .. });
        if !is_file && (options.switch.is_some() || options.timestamp) {
            return Err(OutputError::NotSwitchable);
        }
        let fallback = match options.choice {
            PathChoice::Mmap if !is_file => Some("only a regular file can be mapped".to_owned()),
            PathChoice::Direct if !is_file => {
                Some("only a regular file supports O_DIRECT".to_owned())
            }
            _ => None,
        };
        let stats = OutputStats { fallback, ..OutputStats::default() };
        let window_thread = (is_file && options.choice == PathChoice::Mmap)
            .then(WindowThread::start)
            .transpose()?;
        if let OpenDestination::File { path, .. } = &place
            && options.sync
        {
            backend.disk.sync_folder(path)?;
        }
        let file = Some(OutputFile::new(place, options)?);
        let kept = KeptFiles::default();
        Ok(Self {
            options: options.clone(),
            file,
            window_thread,
            is_apart: false,
            pace: (is_file && options.choice == PathChoice::Auto)
                .then(|| Pace::new(options.direct_at)),
            beginning: FileBeginning { at: backend.clock.now(), bytes: 0 },
            backend,
            stats,
            kept,
            failed: None,
        })
    }

    /// Thread id of the window thread, unless a file has it.
    pub(super) fn thread(&self) -> Option<i32> {
        self.window_thread.as_ref().map(WindowThread::tid)
    }

    /// Whether the file may be written past the page cache when it grows fast.
    pub(super) fn may_be_direct(&self) -> bool {
        self.pace.is_some() && self.file.as_ref().is_some_and(OutputFile::may_be_direct)
    }

    pub(super) fn is_limited(&self) -> bool {
        self.options.step().is_some()
    }

    /// Whether bytes may go past the page cache from where they lie: uncompressed, on a path that
    /// allows it.
    pub(super) fn is_written_as_it_comes(&self) -> bool {
        let may_be_direct = matches!(self.options.choice, PathChoice::Auto | PathChoice::Direct);
        may_be_direct && self.options.compress.is_none()
    }

    /// Whether the file grows fast, if its path depends on that.
    pub(super) fn is_fast(&self) -> bool {
        self.pace.as_ref().is_some_and(Pace::is_fast)
    }

    /// Notes whether the queue's thread writes, which may wait for a disk.
    pub(super) fn set_apart(&mut self, is_apart: bool) {
        self.is_apart = is_apart;
        self.choose_path();
    }

    /// Goes past the page cache on the queue's thread: if requested, or while a file whose path
    /// depends on its growth grows fast.
    fn choose_path(&mut self) {
        let wants_direct = match &self.pace {
            Some(pace) => pace.is_fast(),
            None => self.options.choice == PathChoice::Direct,
        };
        let Some(file) = &mut self.file else { return };
        if wants_direct && self.is_apart {
            file.go_direct();
        } else if self.pace.is_some() {
            file.leave_direct();
        }
    }

    /// Updates the growth rate; the file had `before` bytes before the last append.
    fn update_pace(&mut self, before: u64) {
        let bytes = self.written().saturating_sub(before);
        if let Some(pace) = &mut self.pace {
            pace.add(bytes, self.backend.clock.now());
        }
        if self.is_apart {
            self.choose_path();
        }
    }

    /// Uses the page cache for a while, because records arrive faster than the disk takes them past
    /// it.
    pub(super) fn spill(&mut self) {
        if let Some(file) = &mut self.file {
            file.spill();
        }
    }

    fn check_going(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// See [`OutputFile::append_part`].
    pub(super) fn append_part(&mut self, part: &[u8]) -> Result<()> {
        let before = self.written();
        let Some(file) = &mut self.file else { return self.drop_bytes(&[part]) };
        file.append_part(part)?;
        self.update_pace(before);
        Ok(())
    }

    fn drop_bytes(&mut self, records: &[&[u8]]) -> Result<()> {
        let bytes = records.iter().map(|bytes| bytes.len() as u64).sum::<u64>();
        self.stats.uncompressed_bytes += bytes;
        self.stats.dropped_bytes += bytes;
        self.check_going()
    }

    /// Completes the current file, and returns its path.
    fn finish_file(&mut self, closing: &Closing<'_>) -> Option<PathBuf> {
        let (window_thread, path) =
            self.file.take()?.finish(closing, &mut self.stats, &self.backend);
        self.window_thread = window_thread.or(self.window_thread.take());
        self.failed = self.stats.stopped.clone();
        path
    }

    /// Gives a finished file its final name, and removes the oldest files above the limit. If the
    /// file can't be renamed it keeps its name, and the recording ends with it.
    fn rename(&mut self, path: PathBuf) -> Result<Option<PathBuf>> {
        if self.options.switch.is_none() && !self.options.timestamp {
            self.kept.add(path, None, |_| Ok(()))?;
            return Ok(None);
        }
        let failed =
            |error: Errno| OutputError::Open { path: path.clone(), reason: error.to_string() };
        let stamped =
            self.backend.disk.stamp(&path, self.backend.clock.time_of_day()).map_err(failed);
        let name = stamped.clone().unwrap_or_else(|_| path.clone());
        let Self { kept, backend, options, .. } = self;
        let kept = kept
            .add(name, options.max_files, |path| backend.disk.remove(path))
            .map_err(OutputError::from);
        let synced = if options.sync { backend.disk.sync_folder(&path) } else { Ok(()) };
        let kept = kept.and(synced.map_err(OutputError::from));
        let renamed = kept.and(stamped);
        self.failed = self.failed.take().or(renamed.clone().err());
        renamed.map(Some)
    }
}

impl RecordWriter for FileSeries {
    fn threads(&self) -> Vec<i32> {
        self.thread().into_iter().collect()
    }

    fn is_discarding(&self) -> bool {
        self.file.as_ref().is_some_and(OutputFile::is_discarding)
    }

    fn begin(&mut self, description: &Description) -> Result<()> {
        let Some(file) = &mut self.file else { return self.check_going() };
        file.begin(description)?;
        if let Some(window_thread) = self.window_thread.take() {
            file.map(window_thread, self.options.window_bytes);
        }
        self.beginning.at = self.backend.clock.now();
        Ok(())
    }

    fn append(&mut self, records: &[&[u8]]) -> Result<()> {
        let before = self.written();
        let Some(file) = &mut self.file else { return self.drop_bytes(records) };
        file.append(records)?;
        self.update_pace(before);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), OutputFile::flush)?;
        self.update_pace(self.written());
        self.check_going()
    }

    fn written(&self) -> u64 {
        self.file.as_ref().map_or(0, OutputFile::written)
    }

    fn end_beginning(&mut self) -> Result<()> {
        let beginning = self.written();
        self.beginning.bytes = beginning;
        match self.options.switch {
            Some(FileSwitch::Size(limit)) if limit < beginning => {
                Err(OutputError::SmallFiles { limit, beginning })
            }
            _ => Ok(()),
        }
    }

    /// Whether the current file has reached its size, without its beginning, or its age.
    fn is_switch_due(&self) -> bool {
        match self.options.switch {
            Some(FileSwitch::Size(bytes)) => {
                self.written() >= bytes.saturating_add(self.beginning.bytes)
            }
            Some(FileSwitch::Time(age)) => {
                self.backend.clock.now().saturating_duration_since(self.beginning.at) >= age
            }
            Some(FileSwitch::Signal) | None => false,
        }
    }

    fn size_when_finished(&mut self, closing: &Closing<'_>) -> Option<u64> {
        self.file.as_mut()?.size_when_finished(closing)
    }

    fn switch(
        &mut self,
        closing: &Closing<'_>,
        beginning: &Description,
        records: &[&[u8]],
    ) -> Result<Option<PathBuf>> {
        let Some(path) = self.finish_file(closing) else { return Err(OutputError::NotSwitchable) };
        self.check_going()?;
        let finished = self.rename(path.clone())?;
        let begun =
            self.backend.disk.create(&path).and_then(|file| {
                OutputFile::new(OpenDestination::File { file, path }, &self.options)
            });
        match begun {
            Ok(file) => self.file = Some(file),
            Err(error) => {
                self.failed = Some(error.clone());
                return Err(error);
            }
        }
        self.begin(beginning)?;
        self.append(records)?;
        self.beginning.bytes = self.written();
        Ok(finished)
    }

    fn add_ids(&mut self, description: &Description, ids: &[Vec<u64>]) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.add_ids(description, ids))
    }

    fn reserve(&mut self, room: u64) -> Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.reserve(room))
    }

    fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        self.file.as_mut()?.cut_back(room)
    }

    fn so_far(&self) -> OutputStats {
        let mut stats = self.stats.clone();
        if let Some(file) = &self.file {
            file.so_far(&mut stats);
        }
        stats
    }

    fn finish(mut self: Box<Self>, closing: &Closing<'_>) -> OutputStats {
        if let Some(path) = self.finish_file(closing)
            && let Err(error) = self.rename(path)
        {
            self.stats.stopped.get_or_insert(error);
        }
        self.stats.stopped = self.stats.stopped.take().or(self.failed);
        self.stats.files = self.kept.into_files();
        self.stats
    }
}
