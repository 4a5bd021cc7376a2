//! A store that is written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::error::StoreError;
use crate::folder::{Folder, Hook};
use crate::name::{FileKind, FileName, is_window};
use crate::publication::{ORDER, Publication, encoding_error};
use crate::recovery::{self, Recovery};
use crate::schema::{FRAMES, SAMPLES, SEGMENTS};
use crate::segment::{Segment, SegmentInfo, gap_row};
use crate::table_writer::{Effort, GROUP_ROWS};

/// How long [`Store::recover`] waits for programs that write.
const LOCK_WAIT: Duration = Duration::from_secs(2);
const LOCK_RETRY: Duration = Duration::from_millis(20);

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreOptions {
    /// Lets the group of the store's files read them. By default only their owner may.
    pub group_reads: bool,
}

/// How much a write added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteSize {
    /// Length of the new files together.
    pub bytes: u64,
}

/// A folder of segments, opened for writing. Several programs may write into one store.
pub struct Store {
    folder: Folder,
}

impl Store {
    /// Opens a store. A folder that doesn't exist is created.
    ///
    /// # Errors
    /// Fails if the folder can't be created.
    pub fn open(path: &Path, options: StoreOptions) -> Result<Self, StoreError> {
        Self::open_with_hook(path, options, None)
    }

    pub(crate) fn open_with_hook(
        path: &Path,
        options: StoreOptions,
        hook: Option<Hook>,
    ) -> Result<Self, StoreError> {
        let folder = Folder::new(path.to_owned(), options.group_reads, hook);
        folder.create_folder(folder.root())?;
        Ok(Self { folder })
    }

    /// Returns the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.root()
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Writes a window: the store has all of it or, after an error, none.
    ///
    /// Exception: after an error from the last steps of an otherwise complete write, the window
    /// may be in the store without its row of the table of segments, until [`Store::recover`].
    ///
    /// # Errors
    /// Fails if the window's times aren't valid, the store has the window, or a file can't be
    /// written.
    pub fn write(&self, segment: &Segment) -> Result<WriteSize, StoreError> {
        let name = window_name(FileKind::Window, segment.info())?;
        let _lock = self.share()?;
        let mut files = Publication::new(&self.folder, name, &ORDER)?;
        let mut out = files.create(&FRAMES, Effort::Little)?;
        segment
            .for_frames(GROUP_ROWS, |rows| out.write_group(rows, segment.texts()))
            .map_err(|error| encoding_error(self.path(), error))?;
        files.finish(out)?;
        let mut out = files.create(&SAMPLES, Effort::Little)?;
        segment
            .for_samples(GROUP_ROWS, |rows| out.write_group(rows, segment.texts()))
            .map_err(|error| encoding_error(self.path(), error))?;
        files.finish(out)?;
        let (rows, texts) = segment.summary();
        let mut out = files.create(&SEGMENTS, Effort::Little)?;
        out.write_group(&rows, &texts).map_err(|error| encoding_error(self.path(), error))?;
        files.finish(out)?;
        Ok(WriteSize { bytes: files.publish()? })
    }

    /// Writes that nothing was recorded from the start to the end of `info`, and that the program
    /// that should have recorded had at least `samples` samples when it died.
    ///
    /// # Errors
    /// As [`Store::write`].
    pub fn write_gap(&self, info: &SegmentInfo, samples: u64) -> Result<WriteSize, StoreError> {
        self.write_gap_for(info, samples, None)
    }

    /// Writes a gap, with an entry of its metadata.
    pub(crate) fn write_gap_for(
        &self,
        info: &SegmentInfo,
        samples: u64,
        entry: Option<(&str, String)>,
    ) -> Result<WriteSize, StoreError> {
        let name = window_name(FileKind::Gap, info)?;
        let _lock = self.share()?;
        let tables = [&SEGMENTS];
        let mut files = Publication::new(&self.folder, name, &tables)?;
        let (rows, texts) = gap_row(info, samples);
        let mut out = files.create(&SEGMENTS, Effort::Little)?;
        if let Some((key, value)) = entry {
            out.annotate(key, value);
        }
        out.write_group(&rows, &texts).map_err(|error| encoding_error(self.path(), error))?;
        files.finish(out)?;
        Ok(WriteSize { bytes: files.publish()? })
    }

    /// Removes or completes files of a program that died while it wrote. Call it once after
    /// [`Store::open`].
    ///
    /// Does nothing if other programs keep writing; [`Recovery::is_complete`] is then false.
    ///
    /// # Errors
    /// Fails if a folder can't be read, or a file can't be renamed or removed.
    pub fn recover(&self) -> Result<Recovery, StoreError> {
        let begin = Instant::now();
        loop {
            if let Some(_lock) = self.folder.lock(FlockOperation::NonBlockingLockExclusive)? {
                return recovery::recover(&self.folder);
            }
            if begin.elapsed() >= LOCK_WAIT {
                return Ok(Recovery::default());
            }
            std::thread::sleep(LOCK_RETRY);
        }
    }

    /// Removes folders that are empty, unless a program writes, which may be about to use one.
    pub(crate) fn remove_empty_folders(&self, mut paths: Vec<PathBuf>) -> Result<(), StoreError> {
        paths.sort_unstable();
        paths.dedup();
        if let Some(_lock) = self.folder.lock(FlockOperation::NonBlockingLockExclusive)? {
            self.folder.remove_empty_folders(&paths);
        }
        Ok(())
    }

    /// Keeps recovery of other programs away. Waits while one recovers.
    pub(crate) fn share(&self) -> Result<File, StoreError> {
        let locked = self.folder.lock(FlockOperation::LockShared)?;
        locked.ok_or_else(|| StoreError::Locked(self.path().to_owned()))
    }
}

fn window_name(kind: FileKind, info: &SegmentInfo) -> Result<FileName, StoreError> {
    let SegmentInfo { start_us, end_us, .. } = *info;
    if is_window(start_us, end_us) {
        Ok(FileName::for_segment(kind, info))
    } else {
        Err(StoreError::Window { start_us, end_us })
    }
}
