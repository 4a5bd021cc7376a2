//! A store that is read.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::column_cursor::PageDecoder;
use crate::error::StoreError;
use crate::filter::Query;
use crate::folder::Folder;
use crate::listing::{FolderFile, list_current};
use crate::name::FileName;
use crate::progress::ScanProgress;
use crate::publication::encoding_error;
use crate::scan::{SampleBatch, may_match, scan_group};
use crate::schema::{SAMPLES, SampleColumn, TableDefinition};
use crate::table_file::TableFile;

/// How often a scan starts again because compaction removed a file that it had listed.
const ATTEMPTS: usize = 8;

/// A store, opened for reading. Other programs may write and compact it meanwhile.
pub struct StoreReader {
    folder: Folder,
    threads: usize,
    progress: Arc<ScanProgress>,
}

/// Rows that wait to be scanned.
#[derive(Default)]
struct ScanQueue {
    files: VecDeque<PathBuf>,
    groups: Vec<(Arc<TableFile>, usize)>,
    /// Number of threads that open a file, and may add row groups.
    opening: usize,
    error: Option<StoreError>,
}

enum ScanTask {
    File(PathBuf),
    Group(Arc<TableFile>, usize),
}

struct SharedQueue<'a> {
    queue: Mutex<ScanQueue>,
    changed: Condvar,
    progress: &'a ScanProgress,
}

impl SharedQueue<'_> {
    fn lock(&self) -> MutexGuard<'_, ScanQueue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a task. Returns `None` once there will be none.
    fn next_task(&self) -> Option<ScanTask> {
        let mut queue = self.lock();
        loop {
            if queue.error.is_some() {
                return None;
            }
            if self.progress.is_stopped() {
                queue.error = Some(StoreError::Stopped);
                self.changed.notify_all();
                return None;
            }
            if let Some((file, group)) = queue.groups.pop() {
                self.progress.count_read();
                return Some(ScanTask::Group(file, group));
            }
            if let Some(path) = queue.files.pop_front() {
                queue.opening += 1;
                self.progress.count_read();
                return Some(ScanTask::File(path));
            }
            if queue.opening == 0 {
                return None;
            }
            queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Ends a task for a file, which adds row groups or fails.
    fn opened(&self, result: Result<Vec<(Arc<TableFile>, usize)>, StoreError>) {
        let mut queue = self.lock();
        queue.opening -= 1;
        match result {
            Ok(groups) => {
                self.progress.add_parts(groups.len());
                queue.groups.extend(groups);
            }
            Err(error) => queue.error = Some(error),
        }
        self.changed.notify_all();
    }

    fn fail(&self, error: StoreError) {
        self.lock().error = Some(error);
        self.changed.notify_all();
    }
}

impl StoreReader {
    /// Opens a store, which is read by `threads` threads at a time.
    ///
    /// # Errors
    /// Fails if the folder doesn't exist.
    pub fn open(path: &Path, threads: usize) -> Result<Self, StoreError> {
        std::fs::read_dir(path).map_err(crate::folder::file_error(path))?;
        let folder = Folder::new(path.to_owned(), false, None);
        Ok(Self { folder, threads: threads.max(1), progress: Arc::default() })
    }

    /// Tells this how far scans of samples have come, and lets it stop them.
    #[must_use]
    pub fn with_progress(self, progress: Arc<ScanProgress>) -> Self {
        Self { progress, ..self }
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Returns the files that may have rows of the query's times.
    pub(crate) fn files(
        &self,
        table: &TableDefinition,
        query: &Query,
    ) -> Result<Vec<FolderFile>, StoreError> {
        let mut files = list_current(&self.folder, table)?;
        let may_have = |name: &FileName| {
            query.until_us.is_none_or(|until| name.start_us < until)
                && query.since_us.is_none_or(|since| {
                    if name.kind.is_compacted() {
                        name.end_us > since
                    } else {
                        name.start_us >= since
                    }
                })
        };
        files.retain(|file| may_have(&file.name));
        Ok(files)
    }

    /// Reads the wanted columns of all samples of the query, in no particular order. Each thread
    /// has a sink of its own, made by `sink`; `each` adds a batch to it. Returns the sinks.
    ///
    /// # Errors
    /// Fails if a folder or a file can't be read, and if the scan was stopped.
    pub fn scan<S: Send>(
        &self,
        query: &Query,
        wanted: &[SampleColumn],
        sink: impl Fn() -> S + Sync,
        each: impl Fn(&mut S, &SampleBatch<'_>) + Sync,
    ) -> Result<Vec<S>, StoreError> {
        again(|| {
            let files = self.files(&SAMPLES, query)?;
            self.scan_files(files, query, wanted, &sink, &each)
        })
    }

    fn scan_files<S: Send>(
        &self,
        files: Vec<FolderFile>,
        query: &Query,
        wanted: &[SampleColumn],
        sink: &(impl Fn() -> S + Sync),
        each: &(impl Fn(&mut S, &SampleBatch<'_>) + Sync),
    ) -> Result<Vec<S>, StoreError> {
        let files: VecDeque<PathBuf> = files.into_iter().map(|file| file.path).collect();
        self.progress.add_parts(files.len());
        let queue = ScanQueue { files, ..ScanQueue::default() };
        let shared =
            SharedQueue { queue: queue.into(), changed: Condvar::new(), progress: &self.progress };
        let work = || {
            let mut sink = sink();
            if let Err(error) = scan_tasks(&shared, query, wanted, |batch| each(&mut sink, batch)) {
                shared.fail(error);
            }
            sink
        };
        let mut sinks = Vec::new();
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..self.threads).map(|_| scope.spawn(work)).collect();
            sinks.push(work());
            for other in others {
                match other.join() {
                    Ok(sink) => sinks.push(sink),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        match shared.lock().error.take() {
            Some(error) => Err(error),
            None => Ok(sinks),
        }
    }
}

/// Reads until no file was removed meanwhile.
pub(crate) fn again<T>(mut read: impl FnMut() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 1..ATTEMPTS {
        match read() {
            Err(StoreError::File { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            other => return other,
        }
    }
    read()
}

/// Takes tasks until none is left.
fn scan_tasks(
    shared: &SharedQueue<'_>,
    query: &Query,
    wanted: &[SampleColumn],
    mut each: impl FnMut(&SampleBatch<'_>),
) -> Result<(), StoreError> {
    let decoder = PageDecoder::new();
    let mut decoder = decoder.map_err(|error| encoding_error(Path::new("zstd"), error))?;
    while let Some(task) = shared.next_task() {
        match task {
            ScanTask::File(path) => {
                shared.opened(TableFile::open(&path, &SAMPLES).map(|file| {
                    let groups = 0..file.groups();
                    let file = Arc::new(file);
                    let wanted = groups.filter(|group| may_match(&file, *group, query));
                    wanted.map(|group| (Arc::clone(&file), group)).collect()
                }));
            }
            ScanTask::Group(file, group) => {
                scan_group(&file, group, query, wanted, &mut decoder, &mut each)
                    .map_err(|error| encoding_error(file.path(), error))?;
            }
        }
    }
    Ok(())
}
