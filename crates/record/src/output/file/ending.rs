//! The end of a file.

use std::path::PathBuf;

use rustix::io::Errno;
use tare_format::file::writer::{Description, Ending};

use super::super::disk::{DiskFile, OutputBackend};
use super::super::window_thread::WindowThread;
use super::super::write::write_at;
use super::super::{Closing, OutputError, OutputStats, Result};
use super::{OpenOutput, OutputFile};

/// Number of times that the data are cut to make room for the file's end.
const ATTEMPTS: u64 = 4;

impl OutputFile {
    /// Completes the file, or the rest of it after a failure. Returns the window thread, for the
    /// next file.
    pub(in super::super) fn finish(
        mut self,
        closing: &Closing<'_>,
        stats: &mut OutputStats,
        backend: &OutputBackend,
    ) -> (Option<WindowThread>, Option<PathBuf>) {
        if self.start > 0 {
            match self.complete(closing) {
                Ok(bytes) => stats.bytes += bytes,
                Err(error) => {
                    stats.bytes += self.sink.end();
                    stats.unfinished = true;
                    stats.stopped.get_or_insert(error);
                }
            }
        }
        stats.uncompressed_bytes += self.records;
        let mut new_path = None;
        if let Some((mut error, cut)) = self.failed {
            stats.dropped_bytes += self.records.saturating_sub(cut.records);
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
        stats.spills += self.spills;
        let window_thread = self.sink.into_window_thread();
        match self.open {
            OpenOutput::File { path, .. } => (window_thread, Some(new_path.unwrap_or(path))),
            OpenOutput::Null(_) | OpenOutput::Stream => (window_thread, None),
        }
    }

    /// Writes the end; returns the length of the file.
    fn complete(&mut self, closing: &Closing<'_>) -> Result<u64> {
        if self.failed.is_none() {
            // A failure is also in `failed`, and the file is completed all the same.
            let _ = self.pack().and_then(|()| self.check());
        }
        self.go_plain();
        let description = self.with_compression(closing.description).into_owned();
        match self.file().cloned() {
            Some(file) => self.complete_file(&*file, closing.records, &description),
            None if self.failed.is_some() => Ok(self.sink.end()),
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
            let end = self.failed.as_ref().map_or(room, |(_, cut)| cut.end);
            // Until the header is written, a reader finds the data up to here by their own table,
            // which therefore stays.
            let table = if end == self.known_end { 0 } else { self.beginning.feature_table.len() };
            let behind = end + table as u64;
            // The description is part of the data; the header points after it.
            let data_end = behind + last.len() as u64;
            let ending = description.ending(&(self.start..data_end))?;
            let bytes = [last, &ending.tail].concat();
            let known = if table == 0 { Ok(()) } else { self.make_cut_known(end) };
            match known.and_then(|()| write_at(file, &bytes, behind)) {
                Ok(()) => return self.close(file, &ending, data_end),
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                    // Copy-on-write file systems need some extra room.
                    let tail = (table + bytes.len()) as u64 + attempt * (256 << 10);
                    let limit = room.saturating_sub(tail).max(self.start).min(end);
                    // The room was reserved, so a failure now may not repeat.
                    if self.failed.is_some() || attempt > 0 {
                        let why = self.failed.take().map_or(error.into(), |(why, _)| why);
                        self.failed = Some((why, self.cut(limit)));
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
