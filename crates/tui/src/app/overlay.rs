//! Overlays: a prompt, a menu.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::keys::Action;
use crate::paint::{Pen, Theme, width};

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptKind {
    /// A part of a function's name.
    Symbol,
    /// A condition.
    Filter,
    /// A text to look for.
    Search,
    /// A percentage.
    Limit,
    /// The time between refreshes.
    Delay,
}

impl PromptKind {
    pub(crate) fn question(self) -> &'static str {
        match self {
            Self::Symbol => "Functions with this in their names: ",
            Self::Filter => {
                "Only comm=, pid=, tid=, cpu=, cgroup=, dso=, symbol=, function=, event=, time=FROM,TO: "
            }
            Self::Search => "Search: ",
            Self::Delay => "Seconds between refreshes: ",
            Self::Limit => "Hide what is below so many percent: ",
        }
    }
}

/// A prompt and the text typed so far.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    pub(crate) asked: PromptKind,
    pub(crate) typed: String,
}

/// What a key did to a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The prompt stays open.
    Open,
    /// It was cancelled.
    Never,
    /// It was confirmed.
    Given(String),
}

impl Prompt {
    pub(crate) fn key(&mut self, name: &str) -> Answer {
        match name {
            "ENTER" => return Answer::Given(std::mem::take(&mut self.typed)),
            "ESC" | "CTRL-c" => return Answer::Never,
            "BACKSPACE" => {
                self.typed.pop();
            }
            "CTRL-u" => self.typed.clear(),
            "SPACE" => self.typed.push(' '),
            _ if name.chars().count() == 1 => self.typed.push_str(name),
            _ => {}
        }
        Answer::Open
    }

    pub(crate) fn draw(&self, pen: &mut Pen<'_>, theme: Theme) {
        // On a narrow screen the typed text takes precedence over the question.
        let room = pen.room().saturating_sub(width(&self.typed) + 1);
        let question = self.asked.question();
        if width(question) <= room {
            pen.text(question, theme.title());
        } else {
            pen.text("> ", theme.title());
        }
        pen.text(&self.typed, Style::new()).text("_", theme.cursor());
    }
}

/// A menu and the selected entry.
#[derive(Clone, Debug)]
pub(super) struct Menu {
    pub(super) items: Vec<(String, Action)>,
    pub(super) cursor: usize,
}

impl Menu {
    /// Returns the menu's area within a view.
    fn frame(&self, area: Rect) -> Rect {
        let widest = self.items.iter().map(|(text, _)| width(text)).max().unwrap_or(0);
        let fits = |cells: usize, most: u16| u16::try_from(cells).unwrap_or(most).min(most);
        let cells = fits(widest + 4, area.width);
        let lines = fits(self.items.len() + 2, area.height);
        Rect {
            x: area.x + (area.width - cells) / 2,
            y: area.y + (area.height - lines) / 2,
            width: cells,
            height: lines,
        }
    }

    /// Returns the first visible entry in a frame of this height.
    fn first(&self, lines: u16) -> usize {
        (self.cursor + 3).saturating_sub(lines.into())
    }

    /// Returns the entry in a cell of the screen.
    pub(super) fn at(&self, area: Rect, column: u16, row: u16) -> Option<usize> {
        let frame = self.frame(area);
        let line = row.checked_sub(frame.y + 1).filter(|line| line + 2 < frame.height)?;
        let at = self.first(frame.height) + usize::from(line);
        (frame.contains((column, row).into()) && at < self.items.len()).then_some(at)
    }

    pub(super) fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let frame = self.frame(area);
        let cells = frame.width;
        let lines = frame.height;
        for line in 0..lines {
            Pen::new(buffer, frame, line).text(&" ".repeat(cells.into()), theme.bar());
        }
        let first = self.first(lines);
        let shown =
            self.items.iter().enumerate().skip(first).take(usize::from(lines).saturating_sub(2));
        for (line, (at, (text, _))) in (1..).zip(shown) {
            let style = if at == self.cursor { theme.cursor() } else { theme.bar() };
            let room = usize::from(cells).saturating_sub(4);
            Pen::new(buffer, frame, line).text("  ", theme.bar()).field(text, room, style);
            if at == self.cursor {
                let line = Rect { x: frame.x + 2, y: frame.y + line, width: cells - 4, height: 1 };
                buffer.set_style(line.intersection(buffer.area), theme.cursor());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_typed_is_the_answer() {
        let mut prompt = Prompt { asked: PromptKind::Search, typed: String::new() };
        for key in ["a", "SPACE", "b", "x", "BACKSPACE", "UP"] {
            assert_eq!(prompt.key(key), Answer::Open);
        }
        assert_eq!(prompt.key("ENTER"), Answer::Given("a b".to_owned()));
        assert_eq!(prompt.key("ESC"), Answer::Never);
    }
}
