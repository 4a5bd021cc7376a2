//! Data that end early: room for what a file ends with.

use std::sync::Arc;

use rustix::io::Errno;

use super::super::disk::{CutFile, DiskFile};
use super::super::write::write_at;
use super::super::{OutputError, Result};
use super::{OpenOutput, OutputFile};

impl OutputFile {
    /// Has `room` bytes behind the data, for the file's end: where the disk has no room for them, the
    /// data end as with a write that failed.
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
            // What else fails does so when the end is written.
            _ => Ok(()),
        }
    }

    /// Where the data had to end: cuts them so far back that `room` bytes find place behind them,
    /// and hands out what is left, as a recording that was not finished.
    pub(in super::super) fn cut_back(&mut self, room: u64) -> Option<CutFile> {
        if self.failed.is_none() {
            // A failure is in `failed` too.
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
        // What fails once may not the next time, and what isn't counted is not known.
        self.make_cut_known(end).or_else(|_| self.make_cut_known(end)).ok()?;
        let end = end + self.beginning.feature_table.len() as u64;
        Some(CutFile { file, at: 0, end })
    }

    /// Whether so many bytes find no room behind data that have ended. Where they ended for another
    /// reason than a full disk, the disk may be full besides.
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

    /// Has data that have ended end at most at `limit`.
    pub(super) fn end_before(&mut self, limit: u64) {
        if self.failed.as_ref().is_some_and(|(_, cut)| limit < cut.end) {
            let cut = self.cut(limit);
            self.failed = self.failed.take().map(|(why, _)| (why, cut));
        }
    }
}
