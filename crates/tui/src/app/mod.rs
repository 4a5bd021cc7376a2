//! The state of the interface: which view, which filters, what lies above.

mod act;
mod filters;
mod live;
pub(super) mod overlay;
mod pages;
mod picture;
mod status;
mod zoom;

use ratatui::crossterm::event::{
    Event, KeyEvent, KeyEventKind, MouseButton, MouseEvent, MouseEventKind,
};
use ratatui::layout::Rect;
use tare_format::file::Description;
use tare_profile::{FrameId, Term, Weight};

use crate::keys::{self, Action, View};
use crate::model::{Model, Progress, Query};
use crate::paint::Theme;
use crate::view::annotate::AnnotateView;
use crate::view::flame::FlameView;
use crate::view::functions::FunctionsView;
use crate::view::text::TextView;
use crate::view::timeline::TimelineView;
use crate::view::trees::TreesView;
use overlay::{Answer, Asked, Menu, Prompt};

/// What the caller is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Show what there is.
    Show,
    /// End.
    Quit,
    /// Stop, as Ctrl-Z asks for.
    Suspend,
}

/// How the interface begins.
pub(super) struct Settings {
    /// Columns, order and limits of the table of functions.
    pub(super) view: tare_render::View,
    /// The conditions that were typed.
    pub(super) terms: Vec<Term>,
    /// What the recording is called.
    pub(super) name: String,
    /// Colours.
    pub(super) theme: Theme,
    /// What the recording says of its machine and its events, in lines.
    pub(super) header: fn(&Description) -> Vec<String>,
}

/// The state of the interface.
pub(super) struct App {
    theme: Theme,
    name: String,
    header: fn(&Description) -> Vec<String>,
    view: View,
    query: Query,
    functions: FunctionsView,
    callers: TreesView,
    tree: TreesView,
    flame: FlameView,
    timeline: TimelineView,
    annotate: AnnotateView,
    /// The function whose callers are shown.
    subject: Option<FrameId>,
    /// The view before the instructions of a function.
    before: View,
    /// Text that lies above the view.
    text: Option<TextView>,
    prompt: Option<Prompt>,
    menu: Option<Menu>,
    search: String,
    message: String,
    /// The view doesn't show what it should.
    is_stale: bool,
    /// What the samples weigh that the filters leave.
    taken: Weight,
    /// Where lines of the view begin, for the mouse.
    top: u16,
    size: Rect,
}

impl App {
    pub(super) fn new(settings: Settings) -> Self {
        let Settings { view, terms, name, theme, header } = settings;
        Self {
            theme,
            name,
            header,
            view: View::Functions,
            query: Query { terms, ..Query::default() },
            functions: FunctionsView::new(view),
            callers: TreesView::default(),
            tree: TreesView::default(),
            flame: FlameView::default(),
            timeline: TimelineView::default(),
            annotate: AnnotateView::default(),
            subject: None,
            before: View::Functions,
            text: None,
            prompt: None,
            menu: None,
            search: String::new(),
            message: String::new(),
            is_stale: true,
            taken: Weight::default(),
            top: 0,
            size: Rect::default(),
        }
    }

    /// Takes in a key, the mouse or another size.
    pub(super) fn take(&mut self, model: &mut Model, event: &Event) -> Next {
        match event {
            Event::Key(event) if event.kind != KeyEventKind::Release => self.key(model, event),
            Event::Mouse(event) => self.mouse(model, event),
            _ => Next::Show,
        }
    }

    fn key(&mut self, model: &mut Model, event: &KeyEvent) -> Next {
        let Some(name) = keys::name(event) else { return Next::Show };
        self.message.clear();
        if let Some(prompt) = &mut self.prompt {
            let asked = prompt.asked;
            let answer = prompt.key(&name);
            if answer != Answer::Open {
                self.prompt = None;
            }
            if let Answer::Given(text) = answer {
                self.answered(model, asked, &text);
            }
            return Next::Show;
        }
        if self.menu.is_some() {
            return self.menu_key(model, &name);
        }
        match keys::action(self.shown(), &name, model.live().is_some()) {
            Some(action) => self.act(model, action),
            None => {
                self.message = format!("{name} does nothing here: ? lists the keys");
                Next::Show
            }
        }
    }

    /// The view that keys are for.
    fn shown(&self) -> View {
        if self.text.is_some() { View::Text } else { self.view }
    }

    fn menu_key(&mut self, model: &mut Model, name: &str) -> Next {
        let Some(menu) = &mut self.menu else { return Next::Show };
        let last = menu.items.len().saturating_sub(1);
        match name {
            "UP" => menu.cursor = menu.cursor.saturating_sub(1),
            "DOWN" => menu.cursor = (menu.cursor + 1).min(last),
            "ENTER" | "RIGHT" => {
                let chosen = menu.items.get(menu.cursor).map(|(_, action)| *action);
                self.menu = None;
                return chosen.map_or(Next::Show, |action| self.act(model, action));
            }
            "q" | "CTRL-c" => return Next::Quit,
            "ESC" | "LEFT" | "m" => self.menu = None,
            _ => {}
        }
        Next::Show
    }

    fn mouse(&mut self, model: &mut Model, event: &MouseEvent) -> Next {
        match event.kind {
            MouseEventKind::ScrollDown => self.act(model, Action::Down),
            MouseEventKind::ScrollUp => self.act(model, Action::Up),
            MouseEventKind::Down(MouseButton::Left) => self.click(model, event.column, event.row),
            _ => Next::Show,
        }
    }

    /// A click on what the cursor is on opens it, another moves the cursor.
    fn click(&mut self, model: &mut Model, column: u16, row: u16) -> Next {
        if self.text.is_none() && self.view == View::Flame {
            if self.flame.click(model.profile(), column, row) {
                return self.act(model, Action::Enter);
            }
            return Next::Show;
        }
        if self.text.is_none() && self.view == View::Timeline {
            self.timeline.click(column, self.size.width);
        }
        let Some(row) = row.checked_sub(self.top) else { return Next::Show };
        let opens = self.view != View::Timeline;
        let list = self.list();
        let Some(at) = list.at(row.into()) else { return Next::Show };
        if list.cursor == at && opens {
            return self.act(model, Action::Enter);
        }
        list.cursor = at;
        Next::Show
    }

    fn answered(&mut self, model: &mut Model, asked: Asked, text: &str) {
        match asked {
            Asked::Search => {
                text.clone_into(&mut self.search);
                self.find(model, true);
            }
            Asked::Symbol => {
                self.query.terms.retain(|term| !matches!(term, Term::Symbol(_)));
                if !text.is_empty() {
                    self.query.terms.push(Term::Symbol(text.as_bytes().to_vec()));
                }
                self.is_stale = true;
            }
            Asked::Filter => match filters::parse(text) {
                Ok(term) => self.filter(term),
                Err(why) => self.message = why,
            },
            Asked::Delay => self.set_delay(model, text),
            Asked::Limit => match text.trim_end_matches('%').parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => {
                    self.functions.view.percent_limit = percent;
                    if let Some(graph) = &mut self.functions.view.graph {
                        graph.percent_limit = percent;
                    }
                    self.is_stale = true;
                }
                _ => self.message = format!("'{text}' is no percentage"),
            },
        }
    }

    /// Makes the view show what it should, where it doesn't; with `again` also where only more was
    /// loaded.
    pub(super) fn refresh(&mut self, model: &mut Model, again: bool) {
        if !self.is_stale && !again {
            return;
        }
        self.is_stale = false;
        let events = model.events();
        if !events.iter().any(|(event, _)| Some(*event) == self.query.event) {
            self.query.event = events.first().map(|(event, _)| *event);
        }
        self.refresh_view(model);
        if !self.query.terms.is_empty() {
            self.taken = model.taken(&self.query);
        }
        if let Progress::Failed(why) = model.progress() {
            self.message = format!("the recording can't be read further: {why}");
        }
    }
}
