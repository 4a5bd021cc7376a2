//! Executes the actions of keys.

use tare_format::printable;
use tare_profile::EventId;

use super::navigation::BackStep;
use super::overlay::PromptKind;
use super::pages::{ledger_page, menu_items, print_report, write_numbered};
use super::{App, Reaction};
use crate::keys::{self, Action, View};
use crate::list::List;
use crate::model::Model;
use crate::view::Subject;
use crate::view::text::{TextView, wrap};

impl App {
    pub(super) fn act(&mut self, model: &mut Model, action: Action) -> Reaction {
        match action {
            Action::Quit => return Reaction::Quit,
            Action::Suspend => return Reaction::Suspend,
            Action::Back => return self.go_back(),
            Action::Show(view) => self.show_view(model, view),
            Action::Annotate => self.annotate(model),
            Action::Help => {
                let lines = keys::help(self.navigation.view(), model.live().is_some());
                self.open_page("Keys", &lines);
            }
            Action::Header => {
                let lines = (self.header)(model.description());
                self.open_page("Header of the recording", &lines);
            }
            Action::Ledger => self.open_page("Ledger and losses", &ledger_page(model)),
            Action::Up | Action::Down | Action::Left | Action::Right
                if self.front() == View::Flame =>
            {
                self.views.flame.move_cursor(model.profile(), action);
            }
            Action::Left => self.views.timeline.move_cursor(-1),
            Action::Right => self.views.timeline.move_cursor(1),
            Action::Up => self.list().move_cursor(-1),
            Action::Down => self.list().move_cursor(1),
            Action::PageUp => self.move_page(-1),
            Action::PageDown => self.move_page(1),
            Action::First => self.list().move_cursor(isize::MIN),
            Action::Last => self.list().move_cursor(isize::MAX),
            Action::FilterSymbol => self.overlays.open_prompt(PromptKind::Symbol),
            Action::Filter => self.overlays.open_prompt(PromptKind::Filter),
            Action::Search => self.overlays.open_prompt(PromptKind::Search),
            Action::Limit => self.overlays.open_prompt(PromptKind::Limit),
            Action::SearchNext => self.find(model, true),
            Action::SearchPrevious => self.find(model, false),
            _ if self.act_on_query(model, action)
                || self.act_live(model, action)
                || self.act_on_code(model, action) => {}
            _ => self.act_on_lines(model, action),
        }
        Reaction::Draw
    }

    /// Executes actions that change the query; returns `false` for others.
    fn act_on_query(&mut self, model: &mut Model, action: Action) -> bool {
        match action {
            Action::ZoomThread
            | Action::ZoomProcess
            | Action::ZoomComm
            | Action::ZoomDso
            | Action::ZoomKernel
            | Action::ZoomCpu
            | Action::ZoomStack => self.zoom(model, action),
            Action::Unfilter => {
                if !self.query.remove_last() {
                    self.bottom.say("no filter is set");
                }
            }
            Action::UnfilterAll => self.query.remove_all(),
            Action::NextEvent => self.step_event(model, 1),
            Action::PreviousEvent => self.step_event(model, -1),
            Action::Relative => self.query.toggle_relative(),
            Action::Range => {
                let range = self.views.timeline.take_range();
                self.query.add(range);
            }
            _ => return false,
        }
        true
    }

    /// Executes the remaining actions.
    fn act_on_lines(&mut self, model: &mut Model, action: Action) {
        let view = self.navigation.view();
        match action {
            Action::Enter if view == View::Flame => self.views.flame.zoom(),
            Action::Enter if self.views.toggle(view, model.profile()) => {}
            Action::Enter | Action::Menu => self.open_menu(model),
            Action::Expand if self.views.toggle(view, model.profile()) => {}
            Action::Expand => self.bottom.say("this line can't be expanded"),
            Action::ExpandRow => self.views.expand_row(view, model.profile()),
            Action::Collapse => self.views.collapse(view, model.profile()),
            Action::ExpandAll => self.views.open_all(view, model.profile(), true),
            Action::CollapseAll => self.views.open_all(view, model.profile(), false),
            Action::Sort => {
                let by = self.views.functions.sort_by_next();
                self.bottom.say(format!("sorted by {by}"));
                self.views.invalidate();
            }
            Action::Reverse => {
                self.views.functions.reverse();
                self.views.invalidate();
            }
            Action::Titles => self.views.functions.titles = !self.views.functions.titles,
            Action::Verbose => self.views.toggle_verbose(),
            Action::ScrollLeft => self.views.scroll(-8),
            Action::ScrollRight => self.views.scroll(8),
            Action::Print => {
                self.views.functions.refresh(model, self.query.query());
                let report = print_report(model, &self.views.functions.view);
                self.bottom.say(write_numbered("tare.report", report));
            }
            Action::Invert => self.views.flame.invert(),
            Action::Begin => self.views.timeline.set_begin(),
            Action::End => self.views.timeline.set_end(),
            Action::ByThread => {
                self.views.timeline.toggle_row_kind();
                self.views.invalidate();
            }
            _ => {}
        }
    }

    /// Returns the list that keys move in.
    pub(super) fn list(&mut self) -> &mut List {
        match self.overlays.page() {
            Some(page) => &mut page.list,
            None => self.views.list(self.navigation.view()),
        }
    }

    /// Returns what is under the cursor.
    pub(super) fn subject(&self, model: &mut Model) -> Subject {
        self.views.subject(self.navigation.view(), model.profile())
    }

    fn move_page(&mut self, screens: isize) {
        let lines = self.layout.page_lines();
        self.list().move_cursor(screens * lines);
    }

    fn go_back(&mut self) -> Reaction {
        if self.overlays.close_page() {
            return Reaction::Draw;
        }
        if self.navigation.view() == View::Flame && self.views.flame.unzoom() {
            return Reaction::Draw;
        }
        match self.navigation.step_back() {
            BackStep::Switched => self.views.invalidate(),
            BackStep::AtFirst if self.query.remove_last_term() => {}
            BackStep::AtFirst | BackStep::Quit => return Reaction::Quit,
        }
        Reaction::Draw
    }

    fn show_view(&mut self, model: &mut Model, view: View) {
        if view == View::Callers {
            let frame = self.subject(model).frame;
            if !self.views.set_callers_of(frame) {
                self.bottom.say("there is no function on this line");
                return;
            }
        }
        self.overlays.close_page();
        self.navigation.show(view);
        self.views.invalidate();
    }

    fn open_page(&mut self, title: &str, lines: &[String]) {
        let lines = lines.iter().map(|line| printable(line.as_bytes()).into_owned()).collect();
        self.overlays.open_page(TextView::new(title, wrap(lines, self.layout.width())));
    }

    /// Opens the menu of what is under the cursor.
    pub(super) fn open_menu(&mut self, model: &mut Model) {
        let subject = self.subject(model);
        let has_filters = self.query.query().conditions().next().is_some();
        self.overlays.open_menu(menu_items(model.profile(), &subject, has_filters));
    }

    /// Selects the next or previous event.
    fn step_event(&mut self, model: &mut Model, step: isize) {
        let query = self.query.query();
        let events = model.events(query);
        let at = events.iter().position(|(event, _)| Some(*event) == query.event);
        let count = events.len().max(1);
        let next = (at.unwrap_or(0) + count).saturating_add_signed(step) % count;
        if events.len() < 2 {
            self.bottom.say("the recording has only one event");
        }
        if let Some((event, _)) = events.get(next) {
            self.query.set_event(*event);
        }
    }

    /// Selects the event of this name.
    pub(super) fn show_event(&mut self, model: &mut Model, name: &str) {
        let events = model.events(self.query.query());
        let profile = model.profile();
        let has_name = |event: &EventId| {
            let event = profile.event(*event);
            event.is_some_and(|event| profile.string(event.name) == name.as_bytes())
        };
        match events.into_iter().map(|(event, _)| event).find(has_name) {
            Some(event) => self.query.set_event(event),
            None => {
                let name = printable(name);
                self.bottom.say(format!("there is no sample of an event '{name}'"));
            }
        }
    }

    /// Goes to the next or previous match of the search.
    pub(super) fn find(&mut self, model: &mut Model, forward: bool) {
        if self.search.is_empty() {
            self.bottom.say("no search text: CTRL-f sets one");
            return;
        }
        let found = match self.overlays.page() {
            Some(page) => page.find(&self.search, forward),
            None => {
                let view = self.navigation.view();
                self.views.find(view, model.profile(), &self.search, forward)
            }
        };
        if !found {
            self.bottom.say(format!("'{}' is not in this view", printable(&self.search)));
        }
    }
}
