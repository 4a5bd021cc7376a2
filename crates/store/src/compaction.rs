//! Compaction: files of an hour become one, and files of a day.

use std::collections::BTreeMap;

use parquet::errors::ParquetError;

use crate::error::StoreError;
use crate::filter::Query;
use crate::listing::{INPUTS, list, replaced};
use crate::merge::Merge;
use crate::name::{FileKind, FileName};
use crate::publication::{FilePaths, ORDER, Publication, encoding_error};
use crate::schema::{FRAMES, SAMPLES, SEGMENTS, TableDefinition};
use crate::store::Store;
use crate::table_file::TableFile;
use crate::table_writer::Effort;

/// The order in which a replaced segment is removed. Frames are last: recovery removes frames that
/// are alone.
pub(crate) const INPUT_ORDER: [&TableDefinition; 3] = [&SAMPLES, &SEGMENTS, &FRAMES];

/// Most inputs of a merge. Each takes a descriptor.
const MAX_INPUTS: usize = 256;

/// Memory of a merge's inputs, in bytes.
const MAX_INPUT_MEMORY: u64 = 40 << 20;

/// Memory of an input's metadata, dictionaries and decoded rows, in bytes.
const INPUT_MEMORY: u64 = 96 << 10;

/// Largest part of an input that is in memory: a row group and its open pages.
const MAX_GROUP_MEMORY: u64 = 2 << 20;

/// Time after the end of an hour or day before which its last windows may be missing.
const HOUR_GRACE_US: i64 = 15 * 60 * 1_000_000;
const DAY_GRACE_US: i64 = 60 * 60 * 1_000_000;

/// Files of a compacted day that came later, from which on the day is compacted again.
const LATE_FILES: usize = 12;

/// What compaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compaction {
    /// Segments that were merged. A window may be merged into its hour, and the hour into its day.
    pub inputs: u64,
    /// Segments that replace them.
    pub outputs: u64,
    /// Length of the inputs' files.
    pub bytes_read: u64,
    /// Length of the outputs' files.
    pub bytes_written: u64,
}

/// Segments of one hour or day.
type Period = Vec<FileName>;

impl Store {
    /// Merges the windows of each hour that has ended into one file, and the files of each day that
    /// has ended. Takes less than 100 MB of memory, whatever the store has.
    ///
    /// Readers of this crate count each row once at any time. For others, rows count twice between
    /// the appearance of a compacted file and the removal of its inputs.
    ///
    /// # Errors
    /// Fails if another program compacts, a file can't be read, or one can't be written. What was
    /// compacted before the error stays so. After an error of a damaged file, the hours and days
    /// without it were compacted.
    pub fn compact(&self, now_us: i64) -> Result<Compaction, StoreError> {
        let _rewriting = self.folder().lock_rewriting()?;
        let mut compaction = Compaction::default();
        let mut folders = Vec::new();
        let mut damaged = None;
        {
            let _writing = self.share()?;
            self.remove_replaced(&mut folders)?;
            for kind in [FileKind::Hour, FileKind::Day] {
                for period in self.periods(kind, now_us)? {
                    match self.compact_period(kind, period, &mut compaction, &mut folders) {
                        // A damaged file must not keep the other hours from being compacted.
                        Err(error @ StoreError::Parquet { .. }) => damaged = Some(error),
                        other => other?,
                    }
                }
            }
        }
        self.remove_empty_folders(folders)?;
        damaged.map_or(Ok(compaction), Err)
    }

    /// Removes inputs of compactions that died before they did.
    pub(crate) fn remove_replaced(
        &self,
        folders: &mut Vec<std::path::PathBuf>,
    ) -> Result<(), StoreError> {
        for table in INPUT_ORDER {
            let mut files = list(self.folder(), table)?;
            files.retain(|file| !file.is_temporary);
            let replaced = replaced(&files, table)?;
            for file in files.iter().filter(|file| replaced.contains(&file.name.digest)) {
                self.folder().remove_file(&file.path)?;
                folders.extend(file.path.parent().map(ToOwned::to_owned));
            }
        }
        Ok(())
    }

    /// Returns the segments of each hour or day that should become one.
    fn periods(&self, kind: FileKind, now_us: i64) -> Result<Vec<Period>, StoreError> {
        let mut periods: BTreeMap<i64, Period> = BTreeMap::new();
        for table in [&SAMPLES, &SEGMENTS] {
            for file in list(self.folder(), table)? {
                let is_input = kind == FileKind::Day || file.name.kind != FileKind::Day;
                if is_input && !file.is_temporary {
                    periods.entry(file.name.period_end_us(kind)).or_default().push(file.name);
                }
            }
        }
        let grace = if kind == FileKind::Day { DAY_GRACE_US } else { HOUR_GRACE_US };
        periods.retain(|end_us, _| end_us.saturating_add(grace) <= now_us);
        let mut periods: Vec<Period> = periods.into_values().collect();
        for period in &mut periods {
            period.sort_unstable();
            period.dedup();
        }
        periods.retain(|period| {
            let late = period.iter().filter(|name| name.kind != FileKind::Day).count();
            let has_day = late < period.len();
            period.len() > 1 && (!has_day || late >= LATE_FILES || late == 0)
        });
        Ok(periods)
    }

    /// Merges segments, in several passes if they are too many for the memory.
    fn compact_period(
        &self,
        kind: FileKind,
        period: Period,
        compaction: &mut Compaction,
        folders: &mut Vec<std::path::PathBuf>,
    ) -> Result<(), StoreError> {
        let mut inputs = period;
        while inputs.len() > 1 {
            let mut outputs = Vec::new();
            let mut rest = &inputs[..];
            while !rest.is_empty() {
                let (batch, others) = rest.split_at(self.batch_length(rest));
                rest = others;
                match batch {
                    [single] => outputs.push(single.clone()),
                    _ => outputs.push(self.merge(kind, batch, compaction, folders)?),
                }
            }
            inputs = outputs;
        }
        Ok(())
    }

    /// Returns how many of the inputs fit into the memory of a merge, but at least two.
    fn batch_length(&self, inputs: &[FileName]) -> usize {
        let mut memory = [0; 2];
        let fits = inputs.iter().take(MAX_INPUTS).take_while(|input| {
            for (memory, table) in memory.iter_mut().zip([&SAMPLES, &FRAMES]) {
                let path = FilePaths::new(self.folder(), input, table).last;
                let bytes = path.metadata().map_or(0, |metadata| metadata.len());
                *memory += INPUT_MEMORY + (3 * bytes).min(MAX_GROUP_MEMORY);
            }
            memory.iter().all(|memory| *memory <= MAX_INPUT_MEMORY)
        });
        fits.count().max(2).min(inputs.len())
    }

    /// Writes one segment with the rows of `inputs`, and removes these.
    fn merge(
        &self,
        kind: FileKind,
        inputs: &[FileName],
        compaction: &mut Compaction,
        folders: &mut Vec<std::path::PathBuf>,
    ) -> Result<FileName, StoreError> {
        let name = FileName::for_compaction(kind, inputs);
        let mut files = Publication::new(self.folder(), name.clone(), &ORDER)?;
        for table in ORDER {
            let digests = inputs.iter().map(|input| format!("{:016x}", input.digest));
            let mut out = files.create(table, Effort::More)?;
            out.annotate(INPUTS, digests.collect::<Vec<_>>().join(","));
            let merged = self.open_inputs(table, inputs, compaction)?;
            let path = FilePaths::new(self.folder(), &name, table).temporary;
            let mut merge = |merged: Vec<TableFile>| -> Result<u64, ParquetError> {
                let mut merge = Merge::new(table)?;
                merged.into_iter().try_for_each(|file| merge.add(file))?;
                merge.run(&mut out)
            };
            merge(merged).map_err(|error| encoding_error(&path, error))?;
            files.finish(out)?;
        }
        compaction.bytes_written += files.publish()?;
        compaction.inputs += inputs.len() as u64;
        compaction.outputs += 1;
        for table in INPUT_ORDER {
            for input in inputs {
                let paths = FilePaths::new(self.folder(), input, table);
                self.folder().remove_file(&paths.last)?;
                folders.push(paths.folder);
            }
        }
        Ok(name)
    }

    /// Opens the inputs' files of a table; a gap has none but of segments.
    fn open_inputs(
        &self,
        table: &TableDefinition,
        inputs: &[FileName],
        compaction: &mut Compaction,
    ) -> Result<Vec<TableFile>, StoreError> {
        let paths = inputs.iter().map(|input| FilePaths::new(self.folder(), input, table).last);
        let mut files = Vec::new();
        for path in paths.filter(|path| path.exists()) {
            compaction.bytes_read += path.metadata().map_or(0, |metadata| metadata.len());
            files.push(TableFile::open(&path, table)?);
        }
        Ok(files)
    }
}

impl crate::reader::StoreReader {
    /// Returns the files of a table that have the query's rows, each row once: for other engines,
    /// which would count rows twice that are being compacted.
    ///
    /// # Errors
    /// Fails if a folder can't be read.
    pub fn paths(
        &self,
        table: &TableDefinition,
        query: &Query,
    ) -> Result<Vec<std::path::PathBuf>, StoreError> {
        Ok(self.files(table, query)?.into_iter().map(|file| file.path).collect())
    }
}
