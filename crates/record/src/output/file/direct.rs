//! Chooses between the page cache and `O_DIRECT` for a file.

use std::sync::Arc;

use super::{OpenOutput, OutputFile};

/// Bytes written through the page cache after the disk was too slow, before `O_DIRECT` is tried
/// again.
const SPILLED: u64 = 64 << 20;

impl OutputFile {
    /// See [`super::super::Output::keeps_nothing`].
    pub(in super::super) fn keeps_nothing(&self) -> bool {
        matches!(self.open, OpenOutput::Null(_))
    }

    /// Whether the file can go past the page cache, on a file system that benefits from it.
    pub(in super::super) fn may_be_direct(&self) -> bool {
        matches!(&self.open, OpenOutput::File { file, .. } if file.direct().is_ok())
    }

    /// Continues past the page cache.
    pub(in super::super) fn go_direct(&mut self) {
        if self.sink.end() < self.direct_at || self.sink.is_direct() || self.failed.is_some() {
            return;
        }
        // If the kernel refuses, it isn't tried again.
        self.direct_at = u64::MAX;
        let OpenOutput::File { file, .. } = &self.open else { return };
        let file = Arc::clone(file);
        // If that isn't possible, writes go on, which is also what was requested.
        let Ok(direct) = file.direct() else { return };
        self.calls += 4;
        // Starts writeback of the page cache; the end of the file drops it.
        file.forget(self.sink.end());
        // The buffer doesn't contain the table after the data, so it can't be overwritten there.
        self.has_table = false;
        self.sink.go_direct(file, direct);
    }

    /// Continues through the page cache.
    pub(in super::super) fn leave_direct(&mut self) {
        if self.failed.is_none() && self.sink.is_direct() {
            self.go_plain();
            self.direct_at = self.sink.end();
        }
    }

    /// Continues through the page cache for a while.
    pub(in super::super) fn spill(&mut self) {
        if self.failed.is_some() || !self.sink.is_direct() {
            return;
        }
        self.spills += 1;
        self.go_plain();
        self.direct_at = self.sink.end().saturating_add(SPILLED);
    }
}
