//! The last line of the screen: the views and some keys, or a message.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::keys::View;
use crate::paint::{Pen, Theme};

/// Key, name and view of each entry.
const VIEWS: &[(&str, &str, View)] = &[
    ("1", "functions", View::Functions),
    ("2", "callers", View::Callers),
    ("3", "tree", View::Tree),
    ("4", "flame", View::Flame),
    ("5", "time", View::Timeline),
    ("a", "annotate", View::Annotate),
];

/// The last line of the screen.
///
/// Invariant: a message replaces the views until it is cleared, and a click can't select a view
/// that isn't displayed.
#[derive(Debug)]
pub(super) struct BottomLine {
    /// The recording's name.
    name: String,
    message: String,
}

impl BottomLine {
    /// Shows the views and the recording's name.
    pub(super) fn new(name: String) -> Self {
        Self { name, message: String::new() }
    }

    /// Shows a message.
    pub(super) fn say(&mut self, message: impl Into<String>) {
        self.message = message.into();
    }

    /// Removes the message.
    pub(super) fn clear(&mut self) {
        self.message.clear();
    }

    /// Returns the view whose name is in a column.
    pub(super) fn view_at(&self, column: u16) -> Option<View> {
        if !self.message.is_empty() {
            return None;
        }
        let mut end = 0;
        VIEWS.iter().find_map(|(key, name, view)| {
            let begin = end;
            end += key.len() + name.len() + 3;
            (begin..end - 2).contains(&usize::from(column)).then_some(*view)
        })
    }

    /// Draws the line, with the current view selected.
    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, current: View, theme: Theme) {
        let mut pen = Pen::new(buffer, area, area.height.saturating_sub(1));
        if self.message.is_empty() {
            for (key, name, view) in VIEWS {
                let style = if current == *view { theme.cursor() } else { Style::new() };
                pen.text(&format!("{key} {name}"), style).text("  ", Style::new());
            }
            pen.text("? help  l ledger  q quit   ", Style::new()).text(&self.name, Style::new());
        } else {
            pen.text(&self.message, theme.warning());
        }
        pen.whole(area, theme.bar());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_views_by_the_columns_of_their_names() {
        let line = BottomLine::new(String::new());
        // "1 functions  2 callers  ..."
        assert_eq!(line.view_at(0), Some(View::Functions));
        assert_eq!(line.view_at(10), Some(View::Functions));
        assert_eq!((line.view_at(11), line.view_at(12)), (None, None));
        assert_eq!(line.view_at(13), Some(View::Callers));
        assert_eq!(line.view_at(500), None);
    }

    #[test]
    fn has_no_views_behind_a_message() {
        let mut line = BottomLine::new("perf.data".to_owned());
        let text = |line: &BottomLine| {
            let area = Rect::new(0, 0, 100, 1);
            let mut buffer = Buffer::empty(area);
            line.draw(&mut buffer, area, View::Functions, Theme { color: false });
            (0..100).map(|x| buffer[(x, 0)].symbol().to_owned()).collect::<String>()
        };
        assert!(
            text(&line).starts_with("1 functions  2 callers") && text(&line).contains("perf.data")
        );
        line.say("no filter is set");
        assert_eq!((text(&line).trim(), line.view_at(0)), ("no filter is set", None));
        line.clear();
        assert_eq!(line.view_at(0), Some(View::Functions));
    }
}
