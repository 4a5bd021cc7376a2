//! Executes the actions of keys.

use tare_format::printable;
use tare_profile::EventId;

use super::overlay::{Prompt, PromptKind};
use super::pages::ledger;
use super::{App, Next};
use crate::keys::{self, Action, View};
use crate::list::List;
use crate::model::Model;
use crate::paint::has;
use crate::view::Subject;
use crate::view::text::{TextView, wrapped};

impl App {
    pub(super) fn act(&mut self, model: &mut Model, action: Action) -> Next {
        match action {
            Action::Quit => return Next::Quit,
            Action::Suspend => return Next::Suspend,
            Action::Back => return self.back(),
            Action::Show(view) => self.show(model, view),
            Action::Annotate => self.annotate(model),
            Action::Help => self.put("Keys", &keys::help(self.view, model.live().is_some())),
            Action::Header => {
                let lines = (self.header)(model.description());
                self.put("What the recording says of itself", &lines);
            }
            Action::Ledger => self.put("The ledger, and what is missing", &ledger(model)),
            Action::Up | Action::Down | Action::Left | Action::Right
                if self.view == View::Flame && self.text.is_none() =>
            {
                self.flame.go(model.profile(), action);
            }
            Action::Left => self.timeline.go(-1),
            Action::Right => self.timeline.go(1),
            Action::Up => self.list().go(-1),
            Action::Down => self.list().go(1),
            Action::PageUp => self.page(-1),
            Action::PageDown => self.page(1),
            Action::First => self.list().go(isize::MIN),
            Action::Last => self.list().go(isize::MAX),
            Action::FilterSymbol => self.ask(PromptKind::Symbol),
            Action::Filter => self.ask(PromptKind::Filter),
            Action::Search => self.ask(PromptKind::Search),
            Action::Limit => self.ask(PromptKind::Limit),
            Action::SearchNext => self.find(model, true),
            Action::SearchPrevious => self.find(model, false),
            Action::ZoomThread
            | Action::ZoomProcess
            | Action::ZoomComm
            | Action::ZoomDso
            | Action::ZoomKernel
            | Action::ZoomCpu
            | Action::ZoomStack => self.zoom(model, action),
            Action::Unfilter => self.unfilter(),
            Action::UnfilterAll => {
                self.query.terms.clear();
                self.query.base.clear();
                self.is_stale = true;
            }
            Action::NextEvent => self.event(model, 1),
            Action::PreviousEvent => self.event(model, -1),
            Action::Relative => {
                self.query.relative = !self.query.relative;
                self.is_stale = true;
            }
            _ if self.act_live(model, action) || self.act_on_code(model, action) => {}
            _ => self.act_on_lines(model, action),
        }
        Next::Show
    }

    /// Actions of views with expandable lines.
    fn act_on_lines(&mut self, model: &mut Model, action: Action) {
        match action {
            Action::Enter if self.view == View::Flame => self.flame.zoom(),
            Action::Enter if self.toggle(model) => {}
            Action::Enter => self.open_menu(model),
            Action::Expand if self.toggle(model) => {}
            Action::Expand => self.message = "nothing is below this line".to_owned(),
            Action::ExpandRow => self.expand(model),
            Action::Collapse => match self.view {
                View::Callers => self.callers.close(model.profile()),
                View::Tree => self.tree.close(model.profile()),
                _ => self.functions.close(model.profile()),
            },
            Action::ExpandAll => self.open_all(model, true),
            Action::CollapseAll => self.open_all(model, false),
            Action::Sort => {
                let by = self.functions.sort_by_next();
                self.message = format!("sorted by {by}");
                self.is_stale = true;
            }
            Action::Reverse => {
                self.functions.reverse();
                self.is_stale = true;
            }
            Action::Titles => self.functions.titles = !self.functions.titles,
            Action::Verbose => {
                let verbose = !self.functions.verbose;
                self.functions.verbose = verbose;
                self.callers.verbose = verbose;
                self.tree.verbose = verbose;
            }
            Action::ScrollLeft => self.scroll(-8),
            Action::ScrollRight => self.scroll(8),
            Action::Print => self.print(model),
            Action::Menu => self.open_menu(model),
            _ => self.act_on_one_view(action),
        }
    }

    /// Actions of a single view.
    fn act_on_one_view(&mut self, action: Action) {
        match action {
            Action::Invert => self.flame.invert(),
            Action::Begin => self.timeline.set_begin(),
            Action::End => self.timeline.set_end(),
            Action::ByThread => {
                self.timeline.toggle_by();
                self.is_stale = true;
            }
            Action::Range => {
                let range = self.timeline.range();
                self.filter(range);
            }
            _ => {}
        }
    }

    /// Returns the list that keys move in.
    pub(super) fn list(&mut self) -> &mut List {
        match (&mut self.text, self.view) {
            (Some(text), _) => &mut text.list,
            (None, View::Callers) => &mut self.callers.list,
            (None, View::Tree) => &mut self.tree.list,
            (None, View::Timeline) => &mut self.timeline.list,
            (None, View::Annotate) => &mut self.annotate.list,
            _ => &mut self.functions.list,
        }
    }

    /// Removes the last filter.
    fn unfilter(&mut self) {
        if self.query.terms.pop().or_else(|| self.query.base.pop()).is_none() {
            self.message = "there is no filter".to_owned();
        }
        self.is_stale = true;
    }

    /// Moves by screens.
    fn page(&mut self, screens: isize) {
        let lines = isize::try_from(self.size.height.saturating_sub(6)).unwrap_or(1).max(1);
        self.list().go(screens * lines);
    }

    fn back(&mut self) -> Next {
        if self.text.take().is_some() {
            return Next::Show;
        }
        if self.view == View::Flame && self.flame.unzoom() {
            return Next::Show;
        }
        if self.view == View::Annotate && self.begins_with_code {
            return Next::Quit;
        }
        if self.view == View::Annotate {
            self.view = self.before;
        } else if self.view != View::Functions {
            self.view = View::Functions;
        } else if self.query.terms.pop().is_none() {
            return Next::Quit;
        }
        self.is_stale = true;
        Next::Show
    }

    fn show(&mut self, model: &mut Model, view: View) {
        if view == View::Callers {
            self.subject = self.subject(model).frame.or(self.subject);
            if self.subject.is_none() {
                self.message = "there is no function on this line".to_owned();
                return;
            }
        }
        self.text = None;
        self.view = view;
        self.is_stale = true;
    }

    fn put(&mut self, title: &str, lines: &[String]) {
        let lines = lines.iter().map(|line| printable(line.as_bytes()).into_owned()).collect();
        self.text = Some(TextView::new(title, wrapped(lines, self.size.width)));
    }

    pub(super) fn ask(&mut self, asked: PromptKind) {
        self.prompt = Some(Prompt { asked, typed: String::new() });
    }

    fn event(&mut self, model: &mut Model, step: isize) {
        let events = model.events(&self.query);
        let at = events.iter().position(|(event, _)| Some(*event) == self.query.event);
        let count = events.len().max(1);
        let next = (at.unwrap_or(0) + count).saturating_add_signed(step) % count;
        if events.len() < 2 {
            self.message = "there is one event".to_owned();
        }
        self.query.event = events.get(next).map(|(event, _)| *event).or(self.query.event);
        self.is_stale = true;
    }

    /// Shows the event of this name.
    pub(super) fn show_event(&mut self, model: &mut Model, name: &str) {
        let events = model.events(&self.query);
        let profile = model.profile();
        let is_it = |event: &EventId| {
            let event = profile.event(*event);
            event.is_some_and(|event| profile.string(event.name) == name.as_bytes())
        };
        match events.into_iter().map(|(event, _)| event).find(is_it) {
            Some(event) => self.query.event = Some(event),
            None => self.message = format!("there is no sample of an event '{}'", printable(name)),
        }
        self.is_stale = true;
    }

    /// Goes to the next match of the search.
    pub(super) fn find(&mut self, model: &mut Model, forward: bool) {
        if self.search.is_empty() {
            self.message = "nothing is searched for: Ctrl-F asks".to_owned();
            return;
        }
        let profile = model.profile();
        if self.view == View::Flame && self.text.is_none() {
            if !self.flame.find(profile, &self.search, forward) {
                self.message = format!("'{}' is not in the graph", printable(&self.search));
            }
            return;
        }
        let mut list = std::mem::take(self.list());
        let found = list.find(forward, |item| {
            let text = match (&self.text, self.view) {
                (Some(text), _) => text.text(item),
                (None, View::Callers) => self.callers.text(profile, item),
                (None, View::Tree) => self.tree.text(profile, item),
                (None, View::Timeline) => self.timeline.text(profile, item),
                (None, View::Annotate) => self.annotate.text(item),
                _ => self.functions.text(profile, item),
            };
            has(&text, &self.search)
        });
        *self.list() = list;
        if !found {
            self.message = format!("'{}' is not among the lines", printable(&self.search));
        }
    }

    fn toggle(&mut self, model: &mut Model) -> bool {
        match self.view {
            View::Callers => self.callers.toggle(model.profile()),
            View::Tree => self.tree.toggle(model.profile()),
            _ => self.functions.toggle(model.profile()),
        }
    }

    fn expand(&mut self, model: &mut Model) {
        match self.view {
            View::Callers => self.callers.expand(model.profile(), true),
            View::Tree => self.tree.expand(model.profile(), true),
            _ => self.functions.expand(model.profile(), true),
        }
    }

    fn open_all(&mut self, model: &mut Model, open: bool) {
        match self.view {
            View::Callers => self.callers.open_all(model.profile(), open),
            View::Tree => self.tree.open_all(model.profile(), open),
            _ => self.functions.open_all(model.profile(), open),
        }
    }

    fn scroll(&mut self, cells: isize) {
        for shift in [&mut self.functions.shift, &mut self.callers.shift, &mut self.tree.shift] {
            *shift = shift.saturating_add_signed(cells);
        }
    }

    /// Returns what is under the cursor.
    pub(super) fn subject(&self, model: &mut Model) -> Subject {
        match self.view {
            View::Callers => self.callers.subject(model.profile()),
            View::Tree => self.tree.subject(model.profile()),
            View::Flame => self.flame.subject(model.profile()),
            View::Timeline => self.timeline.subject(),
            _ => self.functions.subject(),
        }
    }
}
