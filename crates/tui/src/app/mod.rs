//! The state of the interface: view, filters, overlays.

mod act;
mod code;
mod filters;
mod live;
mod mouse;
pub(super) mod overlay;
mod pages;
mod picture;
mod status;
mod zoom;

use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind};
use ratatui::layout::Rect;
use tare_annotate::Style;
use tare_format::file::Description;
use tare_profile::{FrameId, SymbolId, Term, Weight};

use crate::ViewOf;
use crate::keys::{self, View};
use crate::model::{Model, Progress, Query};
use crate::paint::Theme;
use crate::view::annotate::{AnnotateView, CodeView};
use crate::view::flame::FlameView;
use crate::view::functions::FunctionsView;
use crate::view::text::TextView;
use crate::view::timeline::TimelineView;
use crate::view::trees::TreesView;
use overlay::{Answer, Menu, Prompt, PromptKind};

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Draw.
    Show,
    /// Exit.
    Quit,
    /// Suspend, as Ctrl-Z asks.
    Suspend,
}

/// Initial settings.
pub(super) struct Settings {
    /// Columns, order and limits of the function table.
    pub(super) view: ViewOf,
    /// Filters that percentages obey.
    pub(super) base: Vec<Term>,
    /// Further filters.
    pub(super) terms: Vec<Term>,
    /// Name of the recording.
    pub(super) name: String,
    /// Colours.
    pub(super) theme: Theme,
    /// Formats the recording's header as lines.
    pub(super) header: fn(&Description) -> Vec<String>,
    /// Initial settings of the instruction view.
    pub(super) code: CodeView,
}

/// The state of the interface.
pub(super) struct App {
    theme: Theme,
    name: String,
    header: fn(&Description) -> Vec<String>,
    view_of: ViewOf,
    /// Number of events when the function table was laid out.
    events: Option<usize>,
    view: View,
    query: Query,
    functions: FunctionsView,
    callers: TreesView,
    tree: TreesView,
    flame: FlameView,
    timeline: TimelineView,
    annotate: AnnotateView,
    /// The function in the instruction view.
    annotated: Option<SymbolId>,
    /// Its settings.
    style: Style,
    /// The interface started with the instruction view.
    begins_with_code: bool,
    /// The function in the callers view.
    subject: Option<FrameId>,
    /// The view to return to from the instruction view.
    before: View,
    /// Text on top of the view.
    text: Option<TextView>,
    prompt: Option<Prompt>,
    menu: Option<Menu>,
    search: String,
    message: String,
    /// The view has to be filled again.
    is_stale: bool,
    /// Weight of the samples that pass the filters.
    taken: Weight,
    /// First line of the view, for the mouse.
    top: u16,
    size: Rect,
    /// Area of the view.
    inner: Rect,
}

impl App {
    pub(super) fn new(settings: Settings, described: &Description) -> Self {
        let Settings { view, base, terms, name, theme, header, code } = settings;
        let style = code.style;
        Self {
            theme,
            name,
            header,
            functions: FunctionsView::new(view(described)),
            view_of: view,
            events: None,
            view: View::Functions,
            query: Query { base, terms, ..Query::default() },
            callers: TreesView::default(),
            tree: TreesView::default(),
            flame: FlameView::default(),
            timeline: TimelineView::default(),
            annotate: AnnotateView::new(code),
            annotated: None,
            style,
            begins_with_code: false,
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
            inner: Rect::default(),
        }
    }

    /// Handles a key, a mouse event or a new size. Keys typed ahead act on the result of the keys
    /// before them.
    pub(super) fn take(&mut self, model: &mut Model, event: &Event) -> Next {
        self.refresh(model, false);
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

    /// Returns the view that keys go to.
    fn shown(&self) -> View {
        if self.text.is_some() { View::Text } else { self.view }
    }

    fn menu_key(&mut self, model: &mut Model, name: &str) -> Next {
        let Some(menu) = &mut self.menu else { return Next::Show };
        let last = menu.items.len().saturating_sub(1);
        match name {
            "UP" => menu.cursor = menu.cursor.saturating_sub(1),
            "DOWN" => menu.cursor = (menu.cursor + 1).min(last),
            "ENTER" | "RIGHT" => return self.choose(model),
            "q" | "CTRL-c" => return Next::Quit,
            "ESC" | "LEFT" | "m" => self.menu = None,
            _ => {}
        }
        Next::Show
    }

    /// Executes the selected menu entry.
    fn choose(&mut self, model: &mut Model) -> Next {
        let menu = self.menu.take();
        let chosen = menu.and_then(|menu| menu.items.get(menu.cursor).map(|(_, action)| *action));
        chosen.map_or(Next::Show, |action| self.act(model, action))
    }

    fn answered(&mut self, model: &mut Model, asked: PromptKind, text: &str) {
        match asked {
            PromptKind::Search => {
                text.clone_into(&mut self.search);
                self.find(model, true);
            }
            PromptKind::Symbol => {
                self.query.terms.retain(|term| !matches!(term, Term::Symbol(_)));
                if !text.is_empty() {
                    self.query.terms.push(Term::Symbol(text.as_bytes().to_vec()));
                }
                self.is_stale = true;
            }
            PromptKind::Filter => match (text.strip_prefix("event="), filters::parse(text)) {
                (Some(name), _) => self.show_event(model, name),
                (None, Ok(term)) => self.filter(term),
                (None, Err(why)) => self.message = why,
            },
            PromptKind::Delay => self.set_delay(model, text),
            PromptKind::Limit => match text.trim_end_matches('%').parse::<f64>() {
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

    /// Fills the view if it is stale; with `again`, also if more was loaded.
    pub(super) fn refresh(&mut self, model: &mut Model, again: bool) {
        if !self.is_stale && !again {
            return;
        }
        self.is_stale = false;
        let described = model.description().events().len();
        if self.events != Some(described) {
            self.events = Some(described);
            self.functions.set((self.view_of)(model.description()));
        }
        let events = model.events(&self.query);
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
