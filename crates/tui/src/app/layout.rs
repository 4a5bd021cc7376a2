//! Where the parts of the screen are.

use ratatui::layout::Rect;

/// Lines above a view: event, losses, filters.
const LINES_ABOVE: u16 = 3;

/// The areas of the screen as last drawn, by which keys move and the mouse selects.
///
/// Invariant: the view lies within the screen, below the lines above it and above the last line.
#[derive(Debug, Default)]
pub(super) struct ScreenLayout {
    screen: Rect,
    view: Rect,
    /// Lines of the view above its first entry.
    title_lines: u16,
}

impl ScreenLayout {
    /// Divides a screen whose view has this many title lines.
    pub(super) fn new(screen: Rect, title_lines: u16) -> Self {
        let view = Rect {
            y: screen.y + LINES_ABOVE.min(screen.height),
            height: screen.height.saturating_sub(LINES_ABOVE + 1),
            ..screen
        };
        Self { screen, view, title_lines }
    }

    /// Returns the area of the view.
    pub(super) fn view(&self) -> Rect {
        self.view
    }

    /// Returns the screen's width in cells.
    pub(super) fn width(&self) -> u16 {
        self.screen.width
    }

    /// Returns the number of lines that a page key moves by.
    pub(super) fn page_lines(&self) -> isize {
        isize::try_from(self.screen.height.saturating_sub(6)).unwrap_or(1).max(1)
    }

    /// Whether a row of the screen is its last line.
    pub(super) fn is_last_line(&self, row: u16) -> bool {
        row + 1 == self.screen.height
    }

    /// Whether a row of the screen is the line above the view's first entry.
    pub(super) fn is_title(&self, row: u16) -> bool {
        row + 1 == self.first_entry()
    }

    /// Returns the number of an entry from the top of the view, by its row on the screen.
    pub(super) fn entry_at(&self, row: u16) -> Option<usize> {
        let line = row.checked_sub(self.first_entry()).filter(|line| *line < self.view.height);
        line.map(usize::from)
    }

    fn first_entry(&self) -> u16 {
        self.view.y + self.title_lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_entries_by_their_rows() {
        let layout = ScreenLayout::new(Rect::new(0, 0, 80, 24), 1);
        assert_eq!((layout.view(), layout.page_lines()), (Rect::new(0, 3, 80, 20), 18));
        assert!(layout.is_title(3) && !layout.is_title(4) && layout.is_last_line(23));
        assert_eq!([3, 4, 10, 24].map(|row| layout.entry_at(row)), [None, Some(0), Some(6), None]);
    }

    #[test]
    fn stays_within_a_tiny_screen() {
        let screen = Rect::new(0, 0, 10, 2);
        let layout = ScreenLayout::new(screen, 1);
        assert_eq!((layout.view().y, layout.view().height, layout.page_lines()), (2, 0, 1));
        assert_eq!(layout.entry_at(3), None);
    }
}
