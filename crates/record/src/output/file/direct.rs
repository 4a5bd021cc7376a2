//! Where bytes of a file go: past the page cache or through it, or nowhere.

use std::sync::Arc;

use super::{OpenOutput, OutputFile};

/// Through the page cache go so many bytes after the disk was too slow, before it is tried again.
const SPILLED: u64 = 64 << 20;

impl OutputFile {
    /// See [`super::super::Output::keeps_nothing`].
    pub(in super::super) fn keeps_nothing(&self) -> bool {
        matches!(self.open, OpenOutput::Null(_))
    }

    /// Whether the file can go past the page cache: where the file system makes that worth the while.
    pub(in super::super) fn may_be_direct(&self) -> bool {
        matches!(&self.open, OpenOutput::File { file, .. } if file.direct().is_ok())
    }

    /// Goes past the page cache from here on, unless it does.
    pub(in super::super) fn go_direct(&mut self) {
        if self.sink.end() < self.direct_at || self.sink.is_direct() || self.failed.is_some() {
            return;
        }
        // Where the kernel refuses it, it is not tried again.
        self.direct_at = u64::MAX;
        let OpenOutput::File { file, .. } = &self.open else { return };
        let file = Arc::clone(file);
        // Where that can't be done it goes on by writes, which is what was asked for as well.
        let Ok(direct) = file.direct() else { return };
        self.calls += 4;
        // Begins to write what is in the page cache; the end of the file forgets it.
        file.forget(self.sink.end());
        // The table behind the data is no part of what the next bytes are written over in memory.
        self.has_table = false;
        self.sink.go_direct(file, direct);
    }

    /// Goes through the page cache from here on, unless it does.
    pub(in super::super) fn leave_direct(&mut self) {
        if self.failed.is_none() && self.sink.is_direct() {
            self.go_plain();
            self.direct_at = self.sink.end();
        }
    }

    /// Goes on through the page cache, for a while.
    pub(in super::super) fn spill(&mut self) {
        if self.failed.is_some() || !self.sink.is_direct() {
            return;
        }
        self.spills += 1;
        self.go_plain();
        self.direct_at = self.sink.end().saturating_add(SPILLED);
    }
}
