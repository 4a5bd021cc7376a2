//! Mouse actions.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::picture::VIEWS;
use super::{App, Next};
use crate::keys::{Action, View};
use crate::model::Model;

/// Lines per wheel step.
const WHEEL: usize = 3;

impl App {
    pub(super) fn mouse(&mut self, model: &mut Model, event: &MouseEvent) -> Next {
        let column = event.column;
        let row = event.row;
        if self.prompt.is_some() {
            return Next::Show;
        }
        match event.kind {
            MouseEventKind::ScrollDown => self.wheel(model, Action::Down),
            MouseEventKind::ScrollUp => self.wheel(model, Action::Up),
            MouseEventKind::Down(MouseButton::Left) => self.click(model, column, row),
            MouseEventKind::Down(MouseButton::Right) => self.click_for_menu(model, column, row),
            MouseEventKind::Drag(MouseButton::Left) => {
                if self.shown() == View::Timeline {
                    self.timeline.drag(column, self.size.width);
                    self.message = "ENTER: only this range".to_owned();
                }
                Next::Show
            }
            _ => Next::Show,
        }
    }

    fn wheel(&mut self, model: &mut Model, action: Action) -> Next {
        if let Some(menu) = &mut self.menu {
            let last = menu.items.len().saturating_sub(1);
            menu.cursor = match action {
                Action::Up => menu.cursor.saturating_sub(1),
                _ => (menu.cursor + 1).min(last),
            };
            return Next::Show;
        }
        let times = if self.shown() == View::Flame { 1 } else { WHEEL };
        for _ in 0..times {
            self.act(model, action);
        }
        Next::Show
    }

    /// A click on the selected line opens it; any other moves the cursor.
    fn click(&mut self, model: &mut Model, column: u16, row: u16) -> Next {
        let message = std::mem::take(&mut self.message);
        if let Some(menu) = &mut self.menu {
            match menu.at(self.inner, column, row) {
                Some(at) => menu.cursor = at,
                None => self.menu = None,
            }
            return self.choose(model);
        }
        if row + 1 == self.size.height {
            return match view_at(column).filter(|_| message.is_empty()) {
                Some(View::Annotate) => self.act(model, Action::Annotate),
                Some(view) => self.act(model, Action::Show(view)),
                None => Next::Show,
            };
        }
        match self.shown() {
            View::Flame => {
                if self.flame.click(model.profile(), column, row) {
                    return self.act(model, Action::Enter);
                }
                return Next::Show;
            }
            View::Timeline => self.timeline.click(column, self.size.width),
            View::Functions if self.functions.titles && row + 1 == self.top => {
                if let Some(by) = self.functions.sort_at(column, self.size.width) {
                    self.message = format!("sorted by {by}");
                    self.is_stale = true;
                }
            }
            _ => {}
        }
        if self.is_put_on(row) && !matches!(self.shown(), View::Timeline | View::Text) {
            return self.act(model, Action::Enter);
        }
        Next::Show
    }

    fn click_for_menu(&mut self, model: &mut Model, column: u16, row: u16) -> Next {
        match self.shown() {
            View::Flame => {
                self.flame.click(model.profile(), column, row);
            }
            View::Functions | View::Callers | View::Tree => {
                self.is_put_on(row);
            }
            View::Timeline | View::Annotate | View::Text => return Next::Show,
        }
        self.open_menu(model);
        Next::Show
    }

    /// Moves the cursor to a line of the screen; returns `true` if it was there.
    fn is_put_on(&mut self, row: u16) -> bool {
        let found = row.checked_sub(self.top).filter(|row| *row < self.inner.height);
        let list = self.list();
        let Some(at) = found.and_then(|row| list.at(row.into())) else { return false };
        std::mem::replace(&mut list.cursor, at) == at
    }
}

/// The view whose name stands in a cell of the last line.
fn view_at(column: u16) -> Option<View> {
    let mut end = 0;
    VIEWS.iter().find_map(|(key, name, view)| {
        let begin = end;
        end += key.len() + name.len() + 3;
        (begin..end - 2).contains(&usize::from(column)).then_some(*view)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_has_views_where_their_names_stand() {
        // "1 functions  2 callers  ..."
        assert_eq!(view_at(0), Some(View::Functions));
        assert_eq!(view_at(10), Some(View::Functions));
        assert_eq!((view_at(11), view_at(12)), (None, None));
        assert_eq!(view_at(13), Some(View::Callers));
        assert_eq!(view_at(500), None);
    }
}
