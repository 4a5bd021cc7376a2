//! Data that end early: makes room for the file's end.

use std::sync::Arc;

use rustix::io::Errno;

use super::super::disk::{CutFile, DiskFile};
use super::super::write::write_at;
use super::super::{OutputError, Result};
use super::{OpenOutput, OutputFile};

impl OutputFile {
    /// Reserves `room` bytes after the data for the file's end. If the disk has no room, the data
    /// end as after a failed write.
    pub(in super::super) fn reserve(&mut self, room: u64) -> Result<()> {
        self.still_going()?;
        self.pack()?;
        self.check()?;
        self.write_out()?;
        let OpenOutput::File { file, .. } = &self.open else { return Ok(()) };
        let zeros = vec![0; usize::try_from(room).unwrap_or(0)];
        self.has_table = false;
        self.calls += 1;
        match write_at(&**file, &zeros, self.sink.end()) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => {
                self.end_here(error);
                self.still_going()
            }
            // Any other failure shows again when the end is written.
            _ => Ok(()),
        }
    }

    /// If the data had to end, cuts them until `room` bytes fit after them, and returns the rest as
    /// an unfinished recording.
    pub(in super::super) fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        if self.failed.is_none() {
            // A failure is also in `failed`.
            let _ = self.pack().and_then(|()| self.check());
        }
        let OpenOutput::File { file, .. } = &self.open else { return None };
        let file = Arc::clone(file);
        self.failed.as_ref()?;
        self.go_plain();
        let room = room + self.beginning.feature_table.len() as u64;
        if self.lacks(room, &*file) {
            self.end_before(self.sink.end().saturating_sub(room).max(self.start));
        }
        let (_, cut) = self.failed.as_ref()?;
        let end = cut.end;
        // A second attempt may succeed, and without it the rest can't be counted.
        self.make_cut_known(end).or_else(|_| self.make_cut_known(end)).ok()?;
        let end = end + self.beginning.feature_table.len() as u64;
        Some(CutFile { file, at: 0, end })
    }

    /// Whether `room` bytes don't fit after data that have ended. Even if they ended for another
    /// reason, the disk may be full.
    fn lacks(&self, room: u64, file: &dyn DiskFile) -> bool {
        match &self.failed {
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
    pub(super) fn end_before(&mut self, limit: u64) {
        if self.failed.as_ref().is_some_and(|(_, cut)| limit < cut.end) {
            let cut = self.cut(limit);
            self.failed = self.failed.take().map(|(why, _)| (why, cut));
        }
    }
}
