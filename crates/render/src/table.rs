//! The lines of a table: cells, their widths, and what stands between them.

use std::fmt::Write as _;
use std::io::{self, Write};

use tare_format::printable;
use tare_profile::{Entry, FunctionKey, Profile, ProfileTable, SortKey};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{Column, Layout, TableView};

/// Lays out the lines of a table, each into the same memory.
pub(crate) struct TableLines<'a> {
    view: &'a TableView,
    widths: Vec<usize>,
    text: String,
    cell: String,
}

impl<'a> TableLines<'a> {
    /// `widest` is the width of the widest cell of a column, by its place.
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

    /// Writes the titles of the columns, underlined where they are padded.
    pub(crate) fn titles(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let children = self.view.children;
        self.line(out, "# ", |cell, _, column| cell.push_str(column.title(children)))?;
        if self.view.layout.separator.is_some() {
            return Ok(());
        }
        let dots: Vec<_> = self.widths.iter().map(|width| ".".repeat(*width)).collect();
        writeln!(out, "# {}\n#", dots.join("  "))
    }

    /// Writes a row. `fill` fills an empty cell, by the place of its column.
    pub(crate) fn row(
        &mut self,
        out: &mut dyn Write,
        fill: impl FnMut(&mut String, usize, Column),
    ) -> io::Result<()> {
        let front = if self.view.layout.separator.is_some() { "" } else { "  " };
        self.line(out, front, fill)
    }

    /// Cells with two spaces between them, nothing behind the last.
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
            let filled = columns(&self.cell);
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

/// What stands in the cells of a table's entries.
pub(crate) struct Cells<'a> {
    pub(crate) profile: &'a Profile,
    pub(crate) table: &'a ProfileTable,
    pub(crate) layout: &'a Layout,
}

impl Cells<'_> {
    /// Fills an empty cell.
    pub(crate) fn fill(&self, cell: &mut String, column: Column, entry: &Entry) {
        if self.layout.verbose {
            verbose(cell, column, self.profile, entry);
        }
        if self.layout.full_source_paths {
            source_path(cell, column, self.profile, entry);
        }
        if cell.is_empty() || column == Column::Key(SortKey::Symbol) {
            column.write_cell(cell, self.profile, self.table, entry);
        }
    }

    /// The width of a column's widest cell.
    pub(crate) fn widest(&self, column: Column) -> usize {
        let mut cell = String::new();
        let width = |entry: &Entry| {
            cell.clear();
            self.fill(&mut cell, column, entry);
            columns(&cell)
        };
        self.table.entries.iter().map(width).max().unwrap_or(0)
    }
}

/// The columns of a terminal that a text takes.
fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Begins a cell with what `-v` adds: of a function its address, of a file the whole path.
fn verbose(cell: &mut String, column: Column, profile: &Profile, entry: &Entry) {
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
            // A string takes all that is written to it.
            let _ = write!(cell, "{:<18} ", format!("{:#x}", address.unwrap_or(0)));
        }
        _ => {}
    }
}

/// Writes a place in the source with its whole path, where it is known.
fn source_path(cell: &mut String, column: Column, profile: &Profile, entry: &Entry) {
    let Column::Key(key @ (SortKey::SrcLine | SortKey::SrcFile)) = column else { return };
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    let Some(line) = frame.and_then(|frame| frame.line) else { return };
    cell.push_str(&printable(profile.string(line.file)));
    if key == SortKey::SrcLine {
        // A string takes all that is written to it.
        let _ = write!(cell, ":{}", line.line);
    }
}

/// The beginning of a text that is at most so wide.
fn cut(text: &str, width: usize) -> &str {
    let mut sum = 0;
    let end = text.char_indices().find(|(_, letter)| {
        sum += letter.width().unwrap_or(0);
        sum > width
    });
    end.map_or(text, |(end, _)| &text[..end])
}
