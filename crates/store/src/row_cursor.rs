//! All columns of a table's file, block by block.

use parquet::errors::ParquetError;

use crate::column_cursor::{ColumnCursor, PageDecoder, TextDictionary};
use crate::rows::{ColumnValues, Rows};
use crate::schema::TableDefinition;
use crate::table_file::TableFile;

/// Position in a file. `rows` has a block of decoded rows.
pub(crate) struct RowCursor {
    file: TableFile,
    table: &'static TableDefinition,
    columns: Vec<ColumnCursor>,
    rows: Rows,
    next_group: usize,
    left_in_group: usize,
    has_new_dictionaries: bool,
}

impl RowCursor {
    pub(crate) fn new(file: TableFile, table: &'static TableDefinition) -> Self {
        Self {
            file,
            table,
            columns: Vec::new(),
            rows: Rows::new(table),
            next_group: 0,
            left_in_group: 0,
            has_new_dictionaries: false,
        }
    }

    pub(crate) fn file(&self) -> &TableFile {
        &self.file
    }

    /// Passes over the row groups for which `wants` is false, if none is being read.
    pub(crate) fn skip_groups(&mut self, wants: impl Fn(&TableFile, usize) -> bool) {
        while self.left_in_group == 0
            && self.next_group < self.file.groups()
            && !wants(&self.file, self.next_group)
        {
            self.next_group += 1;
        }
    }

    /// Decodes the next rows, `limit` at most. Returns false at the end of the file.
    pub(crate) fn next_block(
        &mut self,
        limit: usize,
        decoder: &mut PageDecoder,
    ) -> Result<bool, ParquetError> {
        self.rows.clear();
        self.has_new_dictionaries = false;
        while self.left_in_group == 0 {
            if self.next_group == self.file.groups() {
                self.columns.clear();
                return Ok(false);
            }
            self.open_group()?;
        }
        let count = self.left_in_group.min(limit);
        self.left_in_group -= count;
        for (at, cursor) in self.columns.iter_mut().enumerate() {
            match self.rows.column_mut(at) {
                ColumnValues::Ints(values) => cursor.read_ints(count, decoder, values)?,
                ColumnValues::Codes(codes) => cursor.read_codes(count, decoder, codes)?,
            }
        }
        Ok(true)
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let group = self.next_group;
        self.columns.clear();
        for (at, column) in self.table.columns.iter().enumerate() {
            self.columns.push(ColumnCursor::new(self.file.column(group, at)?, column.kind));
        }
        self.left_in_group = self.file.group_rows(group);
        self.next_group += 1;
        self.has_new_dictionaries = true;
        Ok(())
    }

    /// Returns the decoded rows.
    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }

    /// Returns whether the block's dictionaries aren't those of the block before.
    pub(crate) fn has_new_dictionaries(&self) -> bool {
        self.has_new_dictionaries
    }

    /// Returns the dictionary of a column of texts.
    pub(crate) fn texts(&self, column: usize) -> Option<&TextDictionary> {
        self.columns.get(column)?.texts()
    }

    /// Returns a text of the decoded rows.
    pub(crate) fn text(&self, column: usize, row: usize) -> Option<&str> {
        self.texts(column)?.get(self.rows.code(column, row))
    }
}
