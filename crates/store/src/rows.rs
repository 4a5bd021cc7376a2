//! Rows of any table, as columns.

use crate::schema::{ColumnKind, TableDefinition};

/// Stands for NULL in a column of numbers.
pub(crate) const NULL_INT: i64 = i64::MIN;

/// Values of a column.
#[derive(Debug)]
pub(crate) enum ColumnValues {
    Ints(Vec<i64>),
    /// Numbers of a [`TextTable`](crate::texts::TextTable); 0 is NULL.
    Codes(Vec<u32>),
}

/// Some rows of a table. Each row must get a value of each column.
#[derive(Debug)]
pub(crate) struct Rows {
    columns: Vec<ColumnValues>,
}

impl Rows {
    pub(crate) fn new(table: &TableDefinition) -> Self {
        let empty = |kind| match kind {
            ColumnKind::Text => ColumnValues::Codes(Vec::new()),
            ColumnKind::Time | ColumnKind::Int64 | ColumnKind::Int32 => {
                ColumnValues::Ints(Vec::new())
            }
        };
        Self { columns: table.columns.iter().map(|column| empty(column.kind)).collect() }
    }

    pub(crate) fn len(&self) -> usize {
        match self.columns.last() {
            Some(ColumnValues::Ints(values)) => values.len(),
            Some(ColumnValues::Codes(values)) => values.len(),
            None => 0,
        }
    }

    pub(crate) fn clear(&mut self) {
        for column in &mut self.columns {
            match column {
                ColumnValues::Ints(values) => values.clear(),
                ColumnValues::Codes(values) => values.clear(),
            }
        }
    }

    /// Removes a row and moves the last one to its place.
    pub(crate) fn swap_remove(&mut self, row: usize) {
        for column in &mut self.columns {
            match column {
                ColumnValues::Ints(values) => {
                    values.swap_remove(row);
                }
                ColumnValues::Codes(values) => {
                    values.swap_remove(row);
                }
            }
        }
    }

    /// Removes all rows from `count` on.
    pub(crate) fn truncate(&mut self, count: usize) {
        for column in &mut self.columns {
            match column {
                ColumnValues::Ints(values) => values.truncate(count),
                ColumnValues::Codes(values) => values.truncate(count),
            }
        }
    }

    /// Returns whether two rows have the same values.
    pub(crate) fn are_equal(&self, left: usize, right: usize) -> bool {
        self.columns.iter().all(|column| match column {
            ColumnValues::Ints(values) => values[left] == values[right],
            ColumnValues::Codes(values) => values[left] == values[right],
        })
    }

    pub(crate) fn push_int(&mut self, column: usize, value: i64) {
        if let ColumnValues::Ints(values) = &mut self.columns[column] {
            values.push(value);
        }
    }

    pub(crate) fn push_code(&mut self, column: usize, code: u32) {
        if let ColumnValues::Codes(values) = &mut self.columns[column] {
            values.push(code);
        }
    }

    pub(crate) fn set_int(&mut self, column: usize, row: usize, value: i64) {
        if let ColumnValues::Ints(values) = &mut self.columns[column] {
            values[row] = value;
        }
    }

    pub(crate) fn set_code(&mut self, column: usize, row: usize, code: u32) {
        if let ColumnValues::Codes(codes) = &mut self.columns[column] {
            codes[row] = code;
        }
    }

    pub(crate) fn column(&self, column: usize) -> &ColumnValues {
        &self.columns[column]
    }

    pub(crate) fn columns(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn column_mut(&mut self, column: usize) -> &mut ColumnValues {
        &mut self.columns[column]
    }

    /// Returns a number of a row.
    pub(crate) fn int(&self, column: usize, row: usize) -> i64 {
        match &self.columns[column] {
            ColumnValues::Ints(values) => values[row],
            ColumnValues::Codes(_) => NULL_INT,
        }
    }

    /// Returns the number that stands for a text of a row.
    pub(crate) fn code(&self, column: usize, row: usize) -> u32 {
        match &self.columns[column] {
            ColumnValues::Codes(codes) => codes[row],
            ColumnValues::Ints(_) => 0,
        }
    }
}
