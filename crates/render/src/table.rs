//! The lines of a table: cells, their widths and separators.

use std::fmt::Write as _;
use std::io::{self, Write};

use tare_format::printable;
use tare_profile::{Entry, FunctionKey, Profile, ProfileTable, SortKey};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{Column, Layout, TableView};

/// Writes the lines of a table. The buffers are reused for each line.
pub(crate) struct TableLines<'a> {
    view: &'a TableView,
    widths: Vec<usize>,
    text: String,
    cell: String,
}

impl<'a> TableLines<'a> {
    /// Determines the columns' widths. `widest` returns the width of a column's widest cell, by the
    /// column's index.
    pub(crate) fn new(view: &'a TableView, mut widest: impl FnMut(usize, Column) -> usize) -> Self {
        let width = |(at, column): (usize, &Column)| {
            let title = column.title(view.children).width();
            let wanted = view.layout.widths.get(at).copied().filter(|width| *width > 0);
            match (wanted, column.figure_width()) {
                (Some(wanted), None) => wanted,
                (Some(wanted), Some(_)) => wanted.max(title).max(widest(at, *column)),
                (None, figure) => {
                    title.max(figure.unwrap_or(column.name_width())).max(widest(at, *column))
                }
            }
        };
        let widths = view.columns.iter().enumerate().map(width).collect();
        Self { view, widths, text: String::new(), cell: String::new() }
    }

    /// Writes the columns' titles, and dots below them unless there is a separator.
    pub(crate) fn titles(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let children = self.view.children;
        self.line(out, "# ", |cell, _, column| cell.push_str(column.title(children)))?;
        if self.view.layout.separator.is_some() {
            return Ok(());
        }
        let dots: Vec<_> = self.widths.iter().map(|width| ".".repeat(*width)).collect();
        writeln!(out, "# {}\n#", dots.join("  "))
    }

    /// Writes a row. `fill` fills an empty cell, by its column's index.
    pub(crate) fn row(
        &mut self,
        out: &mut dyn Write,
        fill: impl FnMut(&mut String, usize, Column),
    ) -> io::Result<()> {
        let front = if self.view.layout.separator.is_some() { "" } else { "  " };
        self.line(out, front, fill)
    }

    /// Writes a line of cells, without blanks at its end.
    fn line(
        &mut self,
        out: &mut dyn Write,
        front: &str,
        mut fill: impl FnMut(&mut String, usize, Column),
    ) -> io::Result<()> {
        self.text.clear();
        self.text.push_str(front);
        for (at, (column, width)) in self.view.columns.iter().zip(&self.widths).enumerate() {
            self.cell.clear();
            fill(&mut self.cell, at, *column);
            if let Some(separator) = &self.view.layout.separator {
                self.text.push_str(if at > 0 { separator } else { "" });
                self.text.push_str(self.cell.replace(separator, ".").trim_start());
                continue;
            }
            let filled = text_width(&self.cell);
            let blanks = std::iter::repeat_n(' ', width.saturating_sub(filled));
            self.text.push_str(if at > 0 { "  " } else { "" });
            if column.figure_width().is_some() {
                self.text.extend(blanks);
                self.text.push_str(&self.cell);
            } else {
                self.text.push_str(if filled > *width {
                    cut(&self.cell, *width)
                } else {
                    &self.cell
                });
                self.text.extend(blanks);
            }
        }
        let end = self.text.trim_end().len().max(front.len());
        self.text.truncate(end);
        self.text.push('\n');
        out.write_all(self.text.as_bytes())
    }
}

/// The cells of a table's entries.
pub(crate) struct Cells<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) table: &'a ProfileTable,
    pub(crate) layout: &'a Layout,
}

impl Cells<'_> {
    /// Fills an empty cell.
    pub(crate) fn fill(&self, cell: &mut String, column: Column, entry: &Entry) {
        if self.layout.verbose {
            write_verbose(cell, column, self.profile, entry);
        }
        if self.layout.full_source_paths {
            write_source_path(cell, column, self.profile, entry);
        }
        if cell.is_empty() || column == Column::Key(SortKey::Symbol) {
            column.write_cell(cell, self.profile, self.table, entry);
        }
    }

    /// Returns the width of a column's widest cell.
    pub(crate) fn widest(&self, column: Column) -> usize {
        let mut cell = String::new();
        let width = |entry: &Entry| {
            cell.clear();
            self.fill(&mut cell, column, entry);
            text_width(&cell)
        };
        self.table.entries.iter().map(width).max().unwrap_or(0)
    }
}

/// Returns the number of cells that a text takes.
fn text_width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Writes what `-v` shows: the address in front of a function's name, or a file's whole path
/// instead of its name.
fn write_verbose(cell: &mut String, column: Column, profile: &Profile, entry: &Entry) {
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    match column {
        Column::Key(SortKey::Dso) => {
            let dso = frame.and_then(|frame| profile.dso(frame.dso?));
            cell.push_str(
                &dso.map_or(Default::default(), |dso| printable(profile.string(dso.path))),
            );
        }
        Column::Key(SortKey::Symbol) => {
            let address = match entry.function(profile) {
                FunctionKey::Named(symbol) => profile.symbol(symbol).map(|symbol| symbol.start),
                FunctionKey::Address(_, address) => Some(address),
                FunctionKey::Unknown => None,
            };
            // Writing to a string can't fail.
            let _ = write!(cell, "{:<18} ", format!("{:#x}", address.unwrap_or(0)));
        }
        _ => {}
    }
}

/// Writes a source position with its whole path, if it is known.
fn write_source_path(cell: &mut String, column: Column, profile: &Profile, entry: &Entry) {
    let Column::Key(key @ (SortKey::SrcLine | SortKey::SrcFile)) = column else { return };
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    let Some(line) = frame.and_then(|frame| frame.line) else { return };
    cell.push_str(&printable(profile.string(line.file)));
    if key == SortKey::SrcLine {
        // Writing to a string can't fail.
        let _ = write!(cell, ":{}", line.line);
    }
}

/// Returns the start of a text, at most `width` cells wide.
fn cut(text: &str, width: usize) -> &str {
    let mut sum = 0;
    let end = text.char_indices().find(|(_, letter)| {
        sum += letter.width().unwrap_or(0);
        sum > width
    });
    end.map_or(text, |(end, _)| &text[..end])
}
