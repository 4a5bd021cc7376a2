//! Overlays on top of a view: a prompt, a menu, a page of text.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use crate::keys::Action;
use crate::paint::{Pen, Theme, width};
use crate::view::text::TextView;

/// What a prompt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PromptKind {
    /// A part of a function's name.
    Symbol,
    /// A condition.
    Filter,
    /// A search text.
    Search,
    /// A percentage.
    Limit,
    /// The time between refreshes.
    Delay,
}

impl PromptKind {
    pub(crate) fn question(self) -> &'static str {
        match self {
            Self::Symbol => "Only functions whose names contain: ",
            Self::Filter => {
                "Only comm=, pid=, tid=, cpu=, cgroup=, dso=, symbol=, function=, event=, time=FROM,TO: "
            }
            Self::Search => "Search: ",
            Self::Delay => "Seconds between refreshes: ",
            Self::Limit => "Hide rows below this percentage: ",
        }
    }
}

/// A prompt and the text typed so far.
#[derive(Clone, Debug)]
pub(crate) struct Prompt {
    kind: PromptKind,
    typed: String,
}

/// What a key did to a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The prompt stays open.
    Open,
    /// It was cancelled.
    Cancelled,
    /// It was confirmed with this text.
    Given(String),
}

impl Prompt {
    pub(crate) fn new(kind: PromptKind) -> Self {
        Self { kind, typed: String::new() }
    }

    /// Handles a key.
    pub(crate) fn handle_key(&mut self, name: &str) -> Answer {
        match name {
            "ENTER" => return Answer::Given(std::mem::take(&mut self.typed)),
            "ESC" | "CTRL-c" => return Answer::Cancelled,
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
        let question = self.kind.question();
        if width(question) <= room {
            pen.text(question, theme.title());
        } else {
            pen.text("> ", theme.title());
        }
        pen.text(&self.typed, Style::new()).text("_", theme.cursor());
    }
}

/// An entry of a menu.
#[derive(Clone, Debug)]
pub(super) struct MenuItem {
    pub(super) text: String,
    pub(super) action: Action,
}

/// A menu and the selected entry.
#[derive(Clone, Debug)]
pub(super) struct Menu {
    items: Vec<MenuItem>,
    cursor: usize,
}

/// What a key did to a menu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MenuAnswer {
    /// The menu stays open.
    Open,
    /// It was closed.
    Cancelled,
    /// An entry was chosen.
    Chosen(Action),
    /// The user quit.
    Quit,
}

impl Menu {
    pub(super) fn new(items: Vec<MenuItem>) -> Self {
        Self { items, cursor: 0 }
    }

    fn handle_key(&mut self, name: &str) -> MenuAnswer {
        match name {
            "UP" => self.move_cursor(-1),
            "DOWN" => self.move_cursor(1),
            "ENTER" | "RIGHT" => return self.choose(),
            "q" | "CTRL-c" => return MenuAnswer::Quit,
            "ESC" | "LEFT" | "m" => return MenuAnswer::Cancelled,
            _ => {}
        }
        MenuAnswer::Open
    }

    fn move_cursor(&mut self, entries: isize) {
        let last = self.items.len().saturating_sub(1);
        self.cursor = self.cursor.saturating_add_signed(entries).min(last);
    }

    fn choose(&self) -> MenuAnswer {
        let item = self.items.get(self.cursor);
        item.map_or(MenuAnswer::Cancelled, |item| MenuAnswer::Chosen(item.action))
    }

    /// Returns the menu's area within a view.
    fn frame(&self, area: Rect) -> Rect {
        let widest = self.items.iter().map(|item| width(&item.text)).max().unwrap_or(0);
        let fit = |cells: usize, most: u16| u16::try_from(cells).unwrap_or(most).min(most);
        let cells = fit(widest + 4, area.width);
        let lines = fit(self.items.len() + 2, area.height);
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
    fn item_at(&self, area: Rect, column: u16, row: u16) -> Option<usize> {
        let frame = self.frame(area);
        let line = row.checked_sub(frame.y + 1).filter(|line| line + 2 < frame.height)?;
        let at = self.first(frame.height) + usize::from(line);
        (frame.contains((column, row).into()) && at < self.items.len()).then_some(at)
    }

    fn draw(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let frame = self.frame(area);
        let cells = frame.width;
        let lines = frame.height;
        for line in 0..lines {
            Pen::new(buffer, frame, line).text(&" ".repeat(cells.into()), theme.bar());
        }
        let first = self.first(lines);
        let visible =
            self.items.iter().enumerate().skip(first).take(usize::from(lines).saturating_sub(2));
        for (line, (at, item)) in (1..).zip(visible) {
            let style = if at == self.cursor { theme.cursor() } else { theme.bar() };
            let room = usize::from(cells).saturating_sub(4);
            Pen::new(buffer, frame, line).text("  ", theme.bar()).field(&item.text, room, style);
            if at == self.cursor {
                let line = Rect { x: frame.x + 2, y: frame.y + line, width: cells - 4, height: 1 };
                buffer.set_style(line.intersection(buffer.area), theme.cursor());
            }
        }
    }
}

/// The overlays on top of the view.
///
/// Invariant: keys reach the prompt first, then the menu; the page only gets keys that
/// neither takes.
#[derive(Default)]
pub(super) struct Overlays {
    prompt: Option<Prompt>,
    menu: Option<Menu>,
    page: Option<TextView>,
}

/// What the overlays did with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OverlayKey {
    /// Nothing: neither prompt nor menu is open.
    NotTaken,
    /// An overlay handled it.
    Taken,
    /// It confirmed a prompt.
    Answered(PromptKind, String),
    /// It chose an entry of the menu.
    Chosen(Action),
    /// It quits.
    Quit,
}

impl Overlays {
    /// Offers a key to the prompt and the menu.
    pub(super) fn handle_key(&mut self, name: &str) -> OverlayKey {
        if let Some(prompt) = &mut self.prompt {
            let kind = prompt.kind;
            let answer = prompt.handle_key(name);
            if answer != Answer::Open {
                self.prompt = None;
            }
            return match answer {
                Answer::Given(text) => OverlayKey::Answered(kind, text),
                Answer::Open | Answer::Cancelled => OverlayKey::Taken,
            };
        }
        let Some(menu) = &mut self.menu else { return OverlayKey::NotTaken };
        match menu.handle_key(name) {
            MenuAnswer::Open => OverlayKey::Taken,
            MenuAnswer::Quit => OverlayKey::Quit,
            MenuAnswer::Cancelled => {
                self.menu = None;
                OverlayKey::Taken
            }
            MenuAnswer::Chosen(action) => {
                self.menu = None;
                OverlayKey::Chosen(action)
            }
        }
    }

    /// Asks for a text.
    pub(super) fn open_prompt(&mut self, kind: PromptKind) {
        self.prompt = Some(Prompt::new(kind));
    }

    /// Returns the prompt.
    pub(super) fn prompt(&self) -> Option<&Prompt> {
        self.prompt.as_ref()
    }

    /// Opens a menu.
    pub(super) fn open_menu(&mut self, items: Vec<MenuItem>) {
        self.menu = Some(Menu::new(items));
    }

    /// Moves the menu's cursor; returns `false` if there is no menu.
    pub(super) fn move_in_menu(&mut self, entries: isize) -> bool {
        self.menu.as_mut().map(|menu| menu.move_cursor(entries)).is_some()
    }

    /// Chooses the entry in a cell of the screen and closes the menu, as does a click beside it.
    /// Returns `None` if there is no menu.
    pub(super) fn click_menu(&mut self, area: Rect, column: u16, row: u16) -> Option<MenuAnswer> {
        let mut menu = self.menu.take()?;
        Some(match menu.item_at(area, column, row) {
            Some(at) => {
                menu.cursor = at;
                menu.choose()
            }
            None => MenuAnswer::Cancelled,
        })
    }

    /// Shows a page of text.
    pub(super) fn open_page(&mut self, page: TextView) {
        self.page = Some(page);
    }

    /// Closes the page; returns `false` if no page is open.
    pub(super) fn close_page(&mut self) -> bool {
        self.page.take().is_some()
    }

    /// Returns the page.
    pub(super) fn page(&mut self) -> Option<&mut TextView> {
        self.page.as_mut()
    }

    /// Whether a page hides the view.
    pub(super) fn has_page(&self) -> bool {
        self.page.is_some()
    }

    /// Draws the menu.
    pub(super) fn draw_menu(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        if let Some(menu) = &self.menu {
            menu.draw(buffer, area, theme);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_the_typed_text() {
        let mut prompt = Prompt::new(PromptKind::Search);
        for key in ["a", "SPACE", "b", "x", "BACKSPACE", "UP"] {
            assert_eq!(prompt.handle_key(key), Answer::Open);
        }
        assert_eq!(prompt.handle_key("ENTER"), Answer::Given("a b".to_owned()));
        assert_eq!(prompt.handle_key("ESC"), Answer::Cancelled);
    }

    fn two_items() -> Vec<MenuItem> {
        let item = |text: &str, action| MenuItem { text: text.to_owned(), action };
        vec![item("Header", Action::Header), item("Quit", Action::Quit)]
    }

    #[test]
    fn keys_reach_the_prompt_then_the_menu() {
        let mut overlays = Overlays::default();
        assert_eq!(overlays.handle_key("x"), OverlayKey::NotTaken);
        overlays.open_menu(two_items());
        overlays.open_prompt(PromptKind::Limit);
        assert_eq!(overlays.handle_key("5"), OverlayKey::Taken);
        let answered = OverlayKey::Answered(PromptKind::Limit, "5".to_owned());
        assert_eq!(overlays.handle_key("ENTER"), answered);
        assert_eq!(overlays.handle_key("DOWN"), OverlayKey::Taken);
        assert_eq!(overlays.handle_key("DOWN"), OverlayKey::Taken);
        assert_eq!(overlays.handle_key("ENTER"), OverlayKey::Chosen(Action::Quit));
        assert_eq!(overlays.handle_key("ENTER"), OverlayKey::NotTaken);
    }

    #[test]
    fn a_click_chooses_from_the_menu_or_closes_it() {
        let area = Rect::new(0, 3, 40, 10);
        let mut overlays = Overlays::default();
        assert_eq!(overlays.click_menu(area, 0, 0), None);
        overlays.open_menu(two_items());
        // The frame is 10 cells wide and 4 lines high, in the middle.
        assert_eq!(overlays.click_menu(area, 18, 8), Some(MenuAnswer::Chosen(Action::Quit)));
        overlays.open_menu(two_items());
        assert_eq!(overlays.click_menu(area, 0, 3), Some(MenuAnswer::Cancelled));
        assert!(!overlays.move_in_menu(1));
    }
}
