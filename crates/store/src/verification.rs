//! Checks a store: every file can be read, and its tables agree.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};

use foldhash::fast::RandomState;
use parquet::errors::ParquetError;

use crate::column_cursor::PageDecoder;
use crate::error::StoreError;
use crate::filter::Query;
use crate::folder::Folder;
use crate::listing::{list, list_current};
use crate::name::{FileKind, FileName};
use crate::publication::{FilePaths, ORDER, encoding_error};
use crate::reader::{StoreReader, again};
use crate::row_cursor::RowCursor;
use crate::schema::{FRAMES, FrameColumn, SAMPLES, SEGMENTS, SampleColumn, TableDefinition};
use crate::segment_scan::for_segments;
use crate::table_file::TableFile;

const BLOCK_ROWS: usize = 1 << 12;

/// Problems that are listed.
const MAX_PROBLEMS: usize = 100;

/// How often a store with problems is checked.
const ATTEMPTS: usize = 3;

/// What a check of a store found.
#[derive(Debug, Default)]
pub struct Verification {
    /// Segments: windows, gaps, and compacted hours and days.
    pub segments: u64,
    /// Files of these that were read.
    pub files: u64,
    /// Sum of the samples in the table of samples.
    pub samples: u64,
    /// Files that a program writes, or was writing when it died. They aren't part of the store.
    pub unfinished: u64,
    /// Problems, at most 100 of them.
    pub problems: Vec<StoreProblem>,
}

/// What is wrong with a file.
#[derive(Debug)]
pub struct StoreProblem {
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub kind: ProblemKind,
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum ProblemKind {
    /// It can't be read.
    #[error("{0}")]
    Unreadable(StoreError),
    /// Another table has a file of this name, and this one doesn't.
    #[error("the file is missing")]
    Missing,
    /// The samples of a host's window aren't as many as its row of segments says.
    #[error("host {host:?}, window {start_us}: {found} samples, but segments has {expected}")]
    Samples {
        /// Name of the host.
        host: String,
        /// Start of the window, in microseconds since 1970.
        start_us: i64,
        /// Sum of the table of samples.
        found: u64,
        /// Sum of the table of segments.
        expected: u64,
    },
    /// Stacks of samples have no frames.
    #[error("{0} stacks have no frames")]
    Frames(u64),
}

/// Sums of samples by host and start of the window.
type WindowSums = BTreeMap<(String, i64), u64>;

impl StoreReader {
    /// Reads all files, and compares the tables: each stack has frames, and the sums of samples are
    /// those in segments. Other programs may write and compact meanwhile.
    ///
    /// # Errors
    /// Fails if a folder can't be read. Files that can't be read are problems.
    pub fn verify(&self) -> Result<Verification, StoreError> {
        let mut verification = again(|| verify(self.folder()))?;
        // A file may be renamed or removed between two looks at the folder.
        for _ in 1..ATTEMPTS {
            if verification.problems.is_empty() {
                break;
            }
            verification = again(|| verify(self.folder()))?;
        }
        Ok(verification)
    }
}

fn verify(folder: &Folder) -> Result<Verification, StoreError> {
    let mut verification = Verification::default();
    let mut names = BTreeSet::new();
    for table in [&SAMPLES, &SEGMENTS] {
        names.extend(list_current(folder, table)?.into_iter().map(|file| file.name));
    }
    for table in ORDER {
        // Frames have their name first.
        let is_unfinished = |name: &FileName| *table == FRAMES && !names.contains(name);
        let all = list_current(folder, table)?.into_iter().map(|file| file.name);
        verification.unfinished += all.filter(is_unfinished).count() as u64;
        let all = list(folder, table)?;
        verification.unfinished += all.iter().filter(|file| file.is_temporary).count() as u64;
    }
    for name in names {
        verification.segments += 1;
        verification.check(folder, &name)?;
    }
    Ok(verification)
}

impl Verification {
    /// Checks a segment.
    ///
    /// # Errors
    /// Fails if all of its files are gone: it was compacted meanwhile.
    fn check(&mut self, folder: &Folder, name: &FileName) -> Result<(), StoreError> {
        let path = |table: &TableDefinition| FilePaths::new(folder, name, table).last;
        let tables: Vec<&TableDefinition> = match name.kind {
            FileKind::Gap => vec![&SEGMENTS],
            _ => ORDER.to_vec(),
        };
        let is_missing = |table: &&&TableDefinition| !path(table).exists();
        let missing: Vec<_> = tables.iter().filter(is_missing).collect();
        if missing.len() == tables.len() {
            let source = std::io::ErrorKind::NotFound.into();
            return Err(StoreError::File { path: path(&SEGMENTS), source });
        }
        self.files += (tables.len() - missing.len()) as u64;
        for table in &missing {
            self.add(path(table), ProblemKind::Missing);
        }
        let is_whole = missing.is_empty();
        drop(missing);
        let expected = self.read(&path(&SEGMENTS), expected_sums);
        if name.kind == FileKind::Gap || !is_whole {
            return Ok(());
        }
        let stacks = self.read(&path(&FRAMES), stacks);
        let found = self.read(&path(&SAMPLES), |path| found_sums(path, stacks.as_ref()));
        let Some((found, without_frames)) = found else { return Ok(()) };
        self.samples += found.values().sum::<u64>();
        if without_frames > 0 {
            self.add(path(&FRAMES), ProblemKind::Frames(without_frames));
        }
        let Some(expected) = expected else { return Ok(()) };
        let windows: BTreeSet<_> = expected.keys().chain(found.keys()).cloned().collect();
        for window in windows {
            let sum = |sums: &WindowSums| sums.get(&window).copied().unwrap_or(0);
            let found = sum(&found);
            let expected = sum(&expected);
            if found != expected {
                let (host, start_us) = window;
                let kind = ProblemKind::Samples { host, start_us, found, expected };
                self.add(path(&SAMPLES), kind);
            }
        }
        Ok(())
    }

    fn read<T>(
        &mut self,
        path: &Path,
        read: impl FnOnce(&Path) -> Result<T, StoreError>,
    ) -> Option<T> {
        if !path.exists() {
            return None;
        }
        match read(path) {
            Ok(value) => Some(value),
            Err(error) => {
                self.add(path.to_owned(), ProblemKind::Unreadable(error));
                None
            }
        }
    }

    fn add(&mut self, path: PathBuf, kind: ProblemKind) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(StoreProblem { path, kind });
        }
    }
}

fn expected_sums(path: &Path) -> Result<WindowSums, StoreError> {
    let mut sums = WindowSums::new();
    for_segments(path, &Query::default(), |segment| {
        if !segment.is_gap {
            let key = (segment.host.to_owned(), segment.start_us);
            *sums.entry(key).or_default() += segment.figures.samples;
        }
    })?;
    Ok(sums)
}

/// Returns the stacks that have frames.
fn stacks(path: &Path) -> Result<HashSet<i64, RandomState>, StoreError> {
    let mut stacks = HashSet::default();
    for_rows(path, &FRAMES, |cursor, row| {
        stacks.insert(cursor.rows().int(FrameColumn::StackId as usize, row));
    })?;
    Ok(stacks)
}

/// Returns the sums of samples, and the number of stacks that `known` doesn't have.
fn found_sums(
    path: &Path,
    known: Option<&HashSet<i64, RandomState>>,
) -> Result<(WindowSums, u64), StoreError> {
    let mut sums = WindowSums::new();
    let mut last: Option<((String, i64), u64)> = None;
    let mut without_frames: HashSet<i64, RandomState> = HashSet::default();
    for_rows(path, &SAMPLES, |cursor, row| {
        let int = |column: SampleColumn| cursor.rows().int(column as usize, row);
        let host = cursor.text(SampleColumn::Host as usize, row).unwrap_or_default();
        let window = int(SampleColumn::Window);
        let samples = u64::try_from(int(SampleColumn::Samples)).unwrap_or(0);
        match &mut last {
            Some(((name, start), sum)) if name == host && *start == window => *sum += samples,
            _ => {
                let next = ((host.to_owned(), window), samples);
                if let Some((key, sum)) = last.replace(next) {
                    *sums.entry(key).or_default() += sum;
                }
            }
        }
        let stack = int(SampleColumn::StackId);
        if stack != 0 && known.is_some_and(|known| !known.contains(&stack)) {
            without_frames.insert(stack);
        }
    })?;
    if let Some((key, sum)) = last {
        *sums.entry(key).or_default() += sum;
    }
    Ok((sums, without_frames.len() as u64))
}

/// Reads all columns of a file, and calls `each` with every row.
fn for_rows(
    path: &Path,
    table: &'static TableDefinition,
    mut each: impl FnMut(&RowCursor, usize),
) -> Result<(), StoreError> {
    let mut cursor = RowCursor::new(TableFile::open(path, table)?, table);
    let mut read = || -> Result<(), ParquetError> {
        let mut decoder = PageDecoder::new()?;
        while cursor.next_block(BLOCK_ROWS, &mut decoder)? {
            (0..cursor.rows().len()).for_each(|row| each(&cursor, row));
        }
        Ok(())
    };
    read().map_err(|error| encoding_error(path, error))
}
