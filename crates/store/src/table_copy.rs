//! Copies a table's file row by row.

use parquet::errors::ParquetError;

use crate::block_codes::BlockCodes;
use crate::column_cursor::PageDecoder;
use crate::publication::FileWriter;
use crate::row_cursor::RowCursor;
use crate::rows::Rows;
use crate::schema::TableDefinition;
use crate::table_file::TableFile;
use crate::table_writer::GROUP_ROWS;
use crate::texts::TextTable;

const BLOCK_ROWS: usize = 1 << 12;

/// Memory of texts, in bytes, from which on they are forgotten after a row group.
const MAX_TEXT_MEMORY: usize = 8 << 20;

/// Copies a file row by row.
pub(crate) struct TableCopy {
    cursor: RowCursor,
    codes: BlockCodes,
    texts: TextTable,
    rows: Rows,
}

impl TableCopy {
    pub(crate) fn new(file: TableFile, table: &'static TableDefinition) -> Self {
        let cursor = RowCursor::new(file, table);
        let codes = BlockCodes::default();
        Self { cursor, codes, texts: TextTable::default(), rows: Rows::new(table) }
    }

    /// Writes the rows that `keeps` is true of; `change` may change the last row.
    pub(crate) fn run(
        &mut self,
        out: &mut FileWriter<'_>,
        mut keeps: impl FnMut(&RowCursor, usize) -> bool,
        mut change: impl FnMut(&mut Rows, &mut TextTable),
    ) -> Result<(), ParquetError> {
        let mut decoder = PageDecoder::new()?;
        while self.cursor.next_block(BLOCK_ROWS, &mut decoder)? {
            if self.cursor.has_new_dictionaries() {
                self.codes.clear();
            }
            for row in 0..self.cursor.rows().len() {
                if !keeps(&self.cursor, row) {
                    continue;
                }
                self.codes.push_row(&self.cursor, row, &mut self.rows, &mut self.texts);
                change(&mut self.rows, &mut self.texts);
                if self.rows.len() == GROUP_ROWS {
                    self.write_group(out)?;
                }
            }
        }
        if self.rows.len() > 0 { self.write_group(out) } else { Ok(()) }
    }

    fn write_group(&mut self, out: &mut FileWriter<'_>) -> Result<(), ParquetError> {
        out.write_group(&self.rows, &self.texts)?;
        self.rows.clear();
        if self.texts.memory() > MAX_TEXT_MEMORY {
            self.texts.clear();
            self.codes.clear();
        }
        Ok(())
    }
}
