//! Mouse actions.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};

use super::overlay::MenuAnswer;
use super::{App, Reaction};
use crate::keys::{Action, View};
use crate::model::Model;

/// Lines per wheel step.
const WHEEL_LINES: usize = 3;

impl App {
    pub(super) fn handle_mouse(&mut self, model: &mut Model, event: &MouseEvent) -> Reaction {
        let column = event.column;
        let row = event.row;
        if self.overlays.prompt().is_some() {
            return Reaction::Draw;
        }
        match event.kind {
            MouseEventKind::ScrollDown => self.scroll_wheel(model, Action::Down),
            MouseEventKind::ScrollUp => self.scroll_wheel(model, Action::Up),
            MouseEventKind::Down(MouseButton::Left) => self.click(model, column, row),
            MouseEventKind::Down(MouseButton::Right) => self.click_for_menu(model, column, row),
            MouseEventKind::Drag(MouseButton::Left) => {
                if self.front() == View::Timeline {
                    self.views.timeline.drag(column, self.layout.width());
                    self.bottom.say("ENTER filters by this range");
                }
                Reaction::Draw
            }
            _ => Reaction::Draw,
        }
    }

    fn scroll_wheel(&mut self, model: &mut Model, action: Action) -> Reaction {
        let step = if action == Action::Up { -1 } else { 1 };
        if self.overlays.move_in_menu(step) {
            return Reaction::Draw;
        }
        let times = if self.front() == View::Flame { 1 } else { WHEEL_LINES };
        for _ in 0..times {
            self.act(model, action);
        }
        Reaction::Draw
    }

    /// Moves the cursor to the clicked line; a click on the selected line opens it.
    fn click(&mut self, model: &mut Model, column: u16, row: u16) -> Reaction {
        let view = self.bottom.view_at(column).filter(|_| self.layout.is_last_line(row));
        self.bottom.clear();
        match self.overlays.click_menu(self.layout.view(), column, row) {
            Some(MenuAnswer::Chosen(action)) => return self.act(model, action),
            Some(_) => return Reaction::Draw,
            None => {}
        }
        if self.layout.is_last_line(row) {
            return match view {
                Some(View::Annotate) => self.act(model, Action::Annotate),
                Some(view) => self.act(model, Action::Show(view)),
                None => Reaction::Draw,
            };
        }
        match self.front() {
            View::Flame => {
                if self.views.flame.click(model.profile(), column, row) {
                    return self.act(model, Action::Enter);
                }
                return Reaction::Draw;
            }
            View::Timeline => self.views.timeline.click(column, self.layout.width()),
            View::Functions if self.views.functions.titles && self.layout.is_title(row) => {
                if let Some(by) = self.views.functions.sort_at(column, self.layout.width()) {
                    self.bottom.say(format!("sorted by {by}"));
                    self.views.invalidate();
                }
            }
            _ => {}
        }
        if self.select_line(row) && !matches!(self.front(), View::Timeline | View::Text) {
            return self.act(model, Action::Enter);
        }
        Reaction::Draw
    }

    fn click_for_menu(&mut self, model: &mut Model, column: u16, row: u16) -> Reaction {
        match self.front() {
            View::Flame => {
                self.views.flame.click(model.profile(), column, row);
            }
            View::Functions | View::Callers | View::Tree => {
                self.select_line(row);
            }
            View::Timeline | View::Annotate | View::Text => return Reaction::Draw,
        }
        self.open_menu(model);
        Reaction::Draw
    }

    /// Moves the cursor to a line of the screen; returns `true` if it was there.
    fn select_line(&mut self, row: u16) -> bool {
        let entry = self.layout.entry_at(row);
        let list = self.list();
        let Some(at) = entry.and_then(|entry| list.at(entry)) else { return false };
        std::mem::replace(&mut list.cursor, at) == at
    }
}
