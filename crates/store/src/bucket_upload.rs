//! Sends a spool's segments to a bucket.

use std::path::PathBuf;

use crate::bucket::{Bucket, Transfer};
use crate::error::StoreError;
use crate::folder::Folder;
use crate::name::{FileKind, FileName};
use crate::publication::{FilePaths, ORDER};
use crate::spool::{Spool, SpoolTally};

/// Segments that are listed at a time.
const LISTED: usize = 256;

impl Bucket {
    /// Sends the spool's segments, oldest first, and removes each from the spool once the bucket has
    /// all of it; `sent` gets each. A segment that is being sent when the program dies is sent
    /// again. Windows that come meanwhile wait for the next call.
    ///
    /// # Errors
    /// Fails if the bucket can't be reached, or a file can't be read or removed. Segments that
    /// weren't sent stay in the spool.
    pub fn upload(
        &self,
        spool: &Spool,
        mut sent: impl FnMut(SpoolTally),
    ) -> Result<Transfer, StoreError> {
        let mut transfer = Transfer::default();
        loop {
            let names = spool.oldest(LISTED)?;
            if names.is_empty() {
                return Ok(transfer);
            }
            for name in names.iter().filter(|name| spool.begin(name)) {
                let done = self.send(spool.store().folder(), name, &mut transfer);
                let tally = spool.end(name, done.is_ok())?;
                done?;
                sent(tally);
            }
        }
    }

    /// Sends a segment's files in the order in which they are published.
    pub(crate) fn send(
        &self,
        folder: &Folder,
        name: &FileName,
        transfer: &mut Transfer,
    ) -> Result<(), StoreError> {
        for table in ORDER {
            let path: PathBuf = FilePaths::new(folder, name, table).last;
            // A gap has no samples and frames.
            if name.kind != FileKind::Gap || path.exists() {
                transfer.bytes += self.put(&path, &self.file_object(name, table))?;
                transfer.files += 1;
            }
        }
        Ok(())
    }
}
