//! Copies the samples of a query into a new store.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use foldhash::fast::RandomState;

use crate::error::StoreError;
use crate::filter::Query;
use crate::name::{FileKind, FileName};
use crate::new_store::NewStore;
use crate::publication::{FilePaths, Publication, encoding_error};
use crate::reader::{StoreReader, again};
use crate::row_cursor::RowCursor;
use crate::rows::Rows;
use crate::schema::{
    FRAMES, FrameColumn, SAMPLES, SEGMENTS, SampleColumn, SegmentColumn, TableDefinition,
};
use crate::store::Store;
use crate::table_copy::TableCopy;
use crate::table_file::TableFile;
use crate::table_writer::Effort;
use crate::texts::TextTable;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extraction {
    /// Segments with such samples.
    pub segments: u64,
    /// Samples.
    pub samples: u64,
    /// Length of the new files together.
    pub bytes: u64,
}

/// Samples that were kept of a segment.
#[derive(Default)]
struct KeptSamples {
    /// Numbers by host and start of the window.
    sums: BTreeMap<(String, i64), i64>,
    stacks: HashSet<i64, RandomState>,
}

impl StoreReader {
    /// Copies the samples of a query, with their frames and segments, into a new store. The folder
    /// appears once it is whole, and doesn't without samples. It must not exist, or be empty. Rows of segments get the number of
    /// the copied samples; their other figures stay.
    ///
    /// # Errors
    /// Fails if the folder has files, or a file can't be read or written.
    pub fn extract(&self, query: &Query, to: &Path) -> Result<Extraction, StoreError> {
        let mut new = NewStore::begin(to)?;
        let extraction = again(|| {
            new.clear()?;
            self.extract_into(query, new.store())
        })?;
        if extraction.samples > 0 {
            new.publish()?;
        }
        Ok(extraction)
    }

    fn extract_into(&self, query: &Query, to: &Store) -> Result<Extraction, StoreError> {
        let mut extraction = Extraction::default();
        for file in self.files(&SAMPLES, query)? {
            self.extract_segment(query, &file.name, to, &mut extraction)?;
        }
        for file in self.files(&SEGMENTS, query)? {
            if file.name.kind == FileKind::Gap {
                let tables = [&SEGMENTS];
                let mut files = Publication::new(to.folder(), file.name.clone(), &tables)?;
                let kept = KeptSamples::default();
                if self.copy_segments(query, &file.name, &mut files, &kept)? > 0 {
                    extraction.bytes += files.publish()?;
                }
            }
        }
        Ok(extraction)
    }

    fn extract_segment(
        &self,
        query: &Query,
        name: &FileName,
        to: &Store,
        extraction: &mut Extraction,
    ) -> Result<(), StoreError> {
        let mut files = Publication::new(to.folder(), name.clone(), &crate::publication::ORDER)?;
        let mut kept = KeptSamples::default();
        let keeps = |cursor: &RowCursor, row: usize| kept.take(query, cursor, row);
        self.copy_table(name, &SAMPLES, &mut files, keeps, |_, _| {})?;
        if kept.sums.is_empty() {
            return Ok(());
        }
        let has_stack = |cursor: &RowCursor, row: usize| {
            kept.stacks.contains(&cursor.rows().int(FrameColumn::StackId as usize, row))
        };
        self.copy_table(name, &FRAMES, &mut files, has_stack, |_, _| {})?;
        self.copy_segments(query, name, &mut files, &kept)?;
        extraction.bytes += files.publish()?;
        extraction.segments += 1;
        let samples = kept.sums.values().sum::<i64>();
        extraction.samples += u64::try_from(samples).unwrap_or(0);
        Ok(())
    }

    /// Copies the rows of segments that the query wants. Returns their number.
    fn copy_segments(
        &self,
        query: &Query,
        name: &FileName,
        files: &mut Publication<'_>,
        kept: &KeptSamples,
    ) -> Result<u64, StoreError> {
        let mut count = 0;
        let keeps = |cursor: &RowCursor, row: usize| {
            let host = cursor.text(SegmentColumn::Host as usize, row).unwrap_or_default();
            let start_us = cursor.rows().int(SegmentColumn::Start as usize, row);
            let is_gap = cursor.text(SegmentColumn::Kind as usize, row) == Some("gap");
            let is_kept = match is_gap {
                true => query.has_window(start_us) && query.has_host(host),
                false => kept.sums.contains_key(&(host.to_owned(), start_us)),
            };
            count += u64::from(is_kept);
            is_kept
        };
        self.copy_table(name, &SEGMENTS, files, keeps, |rows, texts| {
            let row = rows.len() - 1;
            let text = |column: SegmentColumn| {
                let text = texts.get(rows.code(column as usize, row));
                text.and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default().to_owned()
            };
            let window = (text(SegmentColumn::Host), rows.int(SegmentColumn::Start as usize, row));
            if text(SegmentColumn::Kind) == "window"
                && let Some(samples) = kept.sums.get(&window)
            {
                rows.set_int(SegmentColumn::Samples as usize, row, *samples);
            }
        })?;
        Ok(count)
    }

    fn copy_table(
        &self,
        name: &FileName,
        table: &'static TableDefinition,
        files: &mut Publication<'_>,
        keeps: impl FnMut(&RowCursor, usize) -> bool,
        change: impl FnMut(&mut Rows, &mut TextTable),
    ) -> Result<(), StoreError> {
        let path = FilePaths::new(self.folder(), name, table).last;
        let mut copy = TableCopy::new(TableFile::open(&path, table)?, table);
        let mut out = files.create(table, Effort::More)?;
        copy.run(&mut out, keeps, change).map_err(|error| encoding_error(&path, error))?;
        files.finish(out)
    }
}

impl KeptSamples {
    /// Adds a row if the query wants it. Returns whether it does.
    fn take(&mut self, query: &Query, cursor: &RowCursor, row: usize) -> bool {
        let int = |column: SampleColumn| cursor.rows().int(column as usize, row);
        let text = |column: SampleColumn| cursor.text(column as usize, row);
        let window = int(SampleColumn::Window);
        if !query.has_window(window)
            || !query.filters.iter().all(|filter| filter.keeps(text(filter.column())))
        {
            return false;
        }
        let host = text(SampleColumn::Host).unwrap_or_default().to_owned();
        let sum = self.sums.entry((host, window)).or_default();
        *sum = sum.saturating_add(int(SampleColumn::Samples));
        self.stacks.insert(int(SampleColumn::StackId));
        true
    }
}
