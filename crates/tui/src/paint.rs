//! Drawing: colours, and text that can't control a terminal.

use std::borrow::Cow;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use tare_profile::Space;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The 16 standard terminal colours, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Theme {
    /// Whether to use colours (`NO_COLOR`).
    pub(super) color: bool,
}

impl Theme {
    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Style of the bars at the top and bottom.
    pub(super) fn bar(self) -> Style {
        if self.color {
            Style::new().fg(Color::Black).bg(Color::Cyan)
        } else {
            Style::new().add_modifier(Modifier::REVERSED)
        }
    }

    /// Style of the line under the cursor: the terminal's default colours, reversed. The line's own
    /// colours, reversed, would be a row of coloured blocks with hardly readable text.
    pub(super) fn cursor(self) -> Style {
        Style::new().fg(Color::Reset).bg(Color::Reset).add_modifier(Modifier::REVERSED)
    }

    /// Style of titles.
    pub(super) fn title(self) -> Style {
        self.colored(Color::Cyan).add_modifier(Modifier::BOLD)
    }

    /// Style of losses and errors.
    pub(super) fn warning(self) -> Style {
        self.colored(Color::Yellow).add_modifier(Modifier::BOLD)
    }

    /// Style of search matches.
    pub(super) fn search_match(self) -> Style {
        self.colored(Color::Magenta).add_modifier(Modifier::UNDERLINED)
    }

    /// Style of a percentage, with perf's limits: red from 5%, green from 0.5%.
    pub(super) fn percent(self, percent: f64) -> Style {
        match percent {
            _ if percent >= 5.0 => self.colored(Color::Red),
            _ if percent >= 0.5 => self.colored(Color::Green),
            _ => Style::new(),
        }
    }

    /// Style of a function, by the code it belongs to.
    pub(super) fn space(self, space: Space) -> Style {
        match space {
            Space::Kernel | Space::GuestKernel | Space::Hypervisor => self.colored(Color::Yellow),
            Space::User | Space::GuestUser | Space::Unknown => Style::new(),
        }
    }
}

/// Escapes characters that have no width of their own, because terminals differ in how many cells
/// these take. Control characters are already gone ([`tare_format::printable`]).
pub(super) fn escape_zero_width(text: &str) -> Cow<'_, str> {
    let has_no_width = |c: char| c.width().unwrap_or(0) == 0;
    if text.is_ascii() || !text.chars().any(has_no_width) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if has_no_width(c) { escaped.extend(c.escape_unicode()) } else { escaped.push(c) }
    }
    Cow::Owned(escaped)
}

/// Returns the number of cells that a text takes.
pub(super) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { escape_zero_width(text).width() }
}

/// Returns the area below a title line.
pub(super) fn below_title(area: Rect) -> Rect {
    Rect { y: area.y.saturating_add(1), height: area.height.saturating_sub(1), ..area }
}

/// Whether a text contains the search text, ignoring case; never for an empty search.
pub(super) fn has(text: &str, wanted: &str) -> bool {
    !wanted.is_empty() && text.to_lowercase().contains(&wanted.to_lowercase())
}

/// Writes a line of a picture from left to right.
pub(super) struct Pen<'a> {
    buffer: &'a mut Buffer,
    x: u16,
    y: u16,
    end: u16,
}

impl<'a> Pen<'a> {
    /// Starts at the left of a line of `area`; a line outside ignores everything.
    pub(super) fn new(buffer: &'a mut Buffer, area: Rect, line: u16) -> Self {
        let area = area.intersection(buffer.area);
        let end = if line < area.height { area.right() } else { area.x };
        Self { buffer, x: area.x, y: area.y.saturating_add(line), end }
    }

    /// Number of cells left.
    pub(super) fn room(&self) -> usize {
        usize::from(self.end.saturating_sub(self.x))
    }

    /// Writes as much of the text as fits.
    pub(super) fn text(&mut self, text: &str, style: Style) -> &mut Self {
        if self.room() > 0 {
            let text = escape_zero_width(text);
            self.x = self.buffer.set_stringn(self.x, self.y, text, self.room(), style).0;
        }
        self
    }

    /// Writes text into a field of this many cells, left-aligned.
    pub(super) fn field(&mut self, text: &str, cells: usize, style: Style) -> &mut Self {
        let cells = cells.min(self.room());
        if cells > 0 {
            let text = escape_zero_width(text);
            let _ = self.buffer.set_stringn(self.x, self.y, text, cells, style);
            self.x = self.x.saturating_add(u16::try_from(cells).unwrap_or(u16::MAX));
        }
        self
    }

    /// Writes text into a field, right-aligned.
    pub(super) fn right(&mut self, text: &str, cells: usize, style: Style) -> &mut Self {
        let blanks = cells.saturating_sub(width(text)).min(self.room());
        self.x = self.x.saturating_add(u16::try_from(blanks).unwrap_or(u16::MAX));
        self.field(text, cells.saturating_sub(blanks), style)
    }

    /// Styles the line as a search match, and as selected.
    pub(super) fn mark(&mut self, area: Rect, theme: Theme, is_found: bool, is_on: bool) {
        if is_found {
            self.whole(area, theme.search_match());
        }
        if is_on {
            self.whole(area, theme.cursor());
        }
    }

    /// Sets the style of the whole line.
    pub(super) fn whole(&mut self, area: Rect, style: Style) -> &mut Self {
        let line = Rect { y: self.y, height: 1, ..area }.intersection(self.buffer.area);
        self.buffer.set_style(line, style);
        self
    }
}

/// Returns the text without its first cells.
pub(super) fn skip_cells(text: &str, cells: usize) -> &str {
    let mut skipped = 0;
    for (at, c) in text.char_indices() {
        if skipped >= cells {
            return &text[at..];
        }
        skipped += c.width().unwrap_or(0).max(1);
    }
    if cells == 0 { text } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_characters_without_width() {
        assert_eq!(
            escape_zero_width("a\u{301}b\u{200d}c\u{fe0f}"),
            "a\\u{301}b\\u{200d}c\\u{fe0f}"
        );
        assert!(matches!(escape_zero_width("größe 漢字"), Cow::Borrowed("größe 漢字")));
        assert_eq!((width("漢字"), width("a\u{301}")), (4, 8));
    }

    #[test]
    fn clips_lines_at_their_area() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 8, 2));
        let area = Rect::new(1, 0, 5, 1);
        Pen::new(&mut buffer, area, 0).right("7", 3, Style::new()).text("漢字漢", Style::new());
        Pen::new(&mut buffer, area, 1).text("outside", Style::new());
        let line = |y| (0..8).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        assert_eq!((line(0).trim_end(), line(1).trim_end()), ("   7漢", ""));
        assert_eq!(
            (skip_cells("漢字ab", 2), skip_cells("ab", 0), skip_cells("ab", 9)),
            ("字ab", "ab", "")
        );
    }
}
