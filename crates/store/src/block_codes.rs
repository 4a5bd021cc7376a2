//! Numbers of texts across files.

use crate::row_cursor::RowCursor;
use crate::rows::{ColumnValues, Rows};
use crate::texts::TextTable;

/// The numbers that a table gave to the texts of a row group, by column.
#[derive(Debug, Default)]
pub(crate) struct BlockCodes {
    columns: Vec<Vec<u32>>,
}

/// Stands for a text that has no number yet.
const UNKNOWN: u32 = u32::MAX;

impl BlockCodes {
    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
    }

    /// Returns the number of a row's text in `texts`, which gets it if it doesn't have it.
    pub(crate) fn get(
        &mut self,
        cursor: &RowCursor,
        column: usize,
        row: usize,
        texts: &mut TextTable,
    ) -> u32 {
        let code = cursor.rows().code(column, row) as usize;
        if code == 0 {
            return 0;
        }
        if self.columns.len() <= column {
            self.columns.resize_with(column + 1, Vec::new);
        }
        let known = &mut self.columns[column];
        if known.len() <= code {
            known.resize(code + 1, UNKNOWN);
        }
        if known[code] == UNKNOWN {
            let text = u32::try_from(code).ok().and_then(|code| cursor.texts(column)?.bytes(code));
            known[code] = text.map_or(0, |text| texts.intern_bytes(text).code());
        }
        known[code]
    }

    /// Appends a row of a file, whose texts get numbers in `texts`.
    pub(crate) fn push_row(
        &mut self,
        cursor: &RowCursor,
        row: usize,
        rows: &mut Rows,
        texts: &mut TextTable,
    ) {
        for column in 0..rows.columns() {
            match rows.column_mut(column) {
                ColumnValues::Ints(values) => values.push(cursor.rows().int(column, row)),
                ColumnValues::Codes(codes) => codes.push(self.get(cursor, column, row, texts)),
            }
        }
    }
}
