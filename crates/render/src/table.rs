//! The lines of a table: cells, their widths, and what stands between them.

use std::fmt::Write;

use tare_format::printable;
use tare_profile::{Entry, Function, Key, Profile, Table};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::{Column, Layout, View};

/// Writes the lines of a table, each into the same memory.
pub(crate) struct Lines<'a> {
    profile: &'a Profile,
    table: &'a Table,
    layout: &'a Layout,
    /// With their widths.
    pub(crate) columns: Vec<(Column, usize)>,
    text: String,
    cell: String,
}

impl<'a> Lines<'a> {
    /// Goes through all entries for the widths of the columns.
    pub(crate) fn new(profile: &'a Profile, view: &'a View, table: &'a Table) -> Self {
        let (text, cell) = Default::default();
        let layout = &view.layout;
        let mut lines = Self { profile, table, layout, columns: Vec::new(), text, cell };
        for (at, column) in view.columns.iter().enumerate() {
            let title = column.title(view.children).width();
            let least = title.max(column.figure_width().unwrap_or(0));
            let wanted = layout.widths.get(at).copied().filter(|width| *width > 0);
            let width = match (wanted, column.figure_width()) {
                (Some(wanted), Some(_)) => wanted.max(title),
                (Some(wanted), None) => wanted,
                (None, _) => {
                    let widths = table.entries.iter().map(|entry| lines.format(*column, entry));
                    widths.max().unwrap_or(0).max(least)
                }
            };
            lines.columns.push((*column, width));
        }
        lines
    }

    pub(crate) fn titles(&mut self, view: &View) -> &str {
        self.line("# ", |lines, column| {
            lines.cell.clear();
            lines.cell.push_str(column.title(view.children));
            lines.cell.width()
        })
    }

    pub(crate) fn entry(&mut self, entry: &Entry) -> &str {
        let front = if self.layout.separator.is_some() { "" } else { "  " };
        self.line(front, |lines, column| lines.format(column, entry))
    }

    /// Cells with two spaces between them, nothing behind the last. `cell` makes each one, and
    /// returns its width.
    fn line(&mut self, front: &str, mut cell: impl FnMut(&mut Self, Column) -> usize) -> &str {
        self.text.clear();
        self.text.push_str(front);
        for at in 0..self.columns.len() {
            let (column, width) = self.columns[at];
            let filled = cell(self, column);
            if let Some(separator) = &self.layout.separator {
                self.text.push_str(if at > 0 { separator } else { "" });
                self.text.push_str(self.cell.replace(separator, ".").trim_start());
                continue;
            }
            let filling = width.saturating_sub(filled);
            let blanks = std::iter::repeat_n(' ', filling);
            self.text.push_str(if at > 0 { "  " } else { "" });
            if column.figure_width().is_some() {
                self.text.extend(blanks);
                self.text.push_str(&self.cell);
            } else {
                self.text.push_str(if filled > width {
                    cut(&self.cell, width)
                } else {
                    &self.cell
                });
                self.text.extend(blanks);
            }
        }
        let end = self.text.trim_end().len().max(front.len());
        self.text.truncate(end);
        self.text.push('\n');
        &self.text
    }

    /// Formats a cell, and returns its width.
    fn format(&mut self, column: Column, entry: &Entry) -> usize {
        self.cell.clear();
        if self.layout.verbose {
            verbose(&mut self.cell, column, self.profile, entry);
        }
        if self.layout.full_source_paths {
            source_path(&mut self.cell, column, self.profile, entry);
        }
        if self.cell.is_empty() || column == Column::Key(Key::Symbol) {
            // A string takes all that is written to it.
            let _ = column.cell(&mut self.cell, self.profile, self.table, entry);
        }
        if self.cell.is_ascii() { self.cell.len() } else { self.cell.width() }
    }
}

/// Begins a cell with what `-v` adds: of a function its address, of a file the whole path.
fn verbose(cell: &mut String, column: Column, profile: &Profile, entry: &Entry) {
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    match column {
        Column::Key(Key::Dso) => {
            let dso = frame.and_then(|frame| profile.dso(frame.dso?));
            cell.push_str(
                &dso.map_or(Default::default(), |dso| printable(profile.string(dso.path))),
            );
        }
        Column::Key(Key::Symbol) => {
            let address = match entry.function(profile) {
                Function::Named(symbol) => profile.symbol(symbol).map(|symbol| symbol.start),
                Function::Address(_, address) => Some(address),
                Function::Unknown => None,
            };
            // A string takes all that is written to it.
            let _ = write!(cell, "{:<18} ", format!("{:#x}", address.unwrap_or(0)));
        }
        _ => {}
    }
}

/// Writes a place in the source with its whole path, where it is known.
fn source_path(cell: &mut String, column: Column, profile: &Profile, entry: &Entry) {
    let Column::Key(key @ (Key::SrcLine | Key::SrcFile)) = column else { return };
    let frame = entry.frame.and_then(|frame| profile.frame(frame));
    let Some(line) = frame.and_then(|frame| frame.line) else { return };
    cell.push_str(&printable(profile.string(line.file)));
    if key == Key::SrcLine {
        // A string takes all that is written to it.
        let _ = write!(cell, ":{}", line.line);
    }
}

/// The beginning of a text that is at most so wide.
pub(crate) fn cut(text: &str, width: usize) -> &str {
    let mut sum = 0;
    let end = text.char_indices().find(|(_, letter)| {
        sum += letter.width().unwrap_or(0);
        sum > width
    });
    end.map_or(text, |(end, _)| &text[..end])
}
