//! The state of the interface: it routes events to its parts and draws them.

mod act;
mod bottom_line;
mod code;
mod draw;
mod filters;
mod layout;
mod live;
mod mouse;
mod navigation;
pub(super) mod overlay;
mod pages;
mod query_state;
mod status;
mod views;
mod zoom;

use ratatui::crossterm::event::{Event, KeyEvent, KeyEventKind};
use tare_format::file::Description;
use tare_profile::Term;
use tare_render::TableView;

use crate::ViewOf;
use crate::keys::{self, View};
use crate::model::{Model, Progress};
use crate::paint::Theme;
use crate::view::annotate::CodeView;
use bottom_line::BottomLine;
use layout::ScreenLayout;
use navigation::Navigation;
use overlay::{OverlayKey, Overlays, PromptKind};
use query_state::QueryState;
use views::Views;

/// What the caller has to do after an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reaction {
    /// Draw.
    Draw,
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
    /// Text at the end of the last line: the recording's name, or a key in a live view.
    pub(super) name: String,
    /// Colours.
    pub(super) theme: Theme,
    /// Formats the recording's header as lines.
    pub(super) header: fn(&Description) -> Vec<String>,
    /// Initial settings of the instruction view.
    pub(super) code: CodeView,
}

/// Chooses the function table's columns. A stream describes its events later on, so they are
/// chosen again for each new event.
struct TableColumns {
    choose: ViewOf,
    /// Number of events that the columns were chosen for.
    events: usize,
}

impl TableColumns {
    /// Returns the columns if the description has another number of events than before.
    fn update(&mut self, described: &Description) -> Option<TableView> {
        let events = described.events().len();
        (std::mem::replace(&mut self.events, events) != events).then(|| (self.choose)(described))
    }
}

/// The state of the interface.
pub(super) struct App {
    theme: Theme,
    /// Formats the recording's header as lines.
    header: fn(&Description) -> Vec<String>,
    columns: TableColumns,
    query: QueryState,
    navigation: Navigation,
    views: Views,
    overlays: Overlays,
    /// The search text; empty if there was no search.
    search: String,
    bottom: BottomLine,
    layout: ScreenLayout,
}

impl App {
    pub(super) fn new(settings: Settings, described: &Description) -> Self {
        let Settings { view, base, terms, name, theme, header, code } = settings;
        Self {
            theme,
            header,
            query: QueryState::new(base, terms),
            navigation: Navigation::new(),
            views: Views::new(view(described), code),
            columns: TableColumns { choose: view, events: described.events().len() },
            overlays: Overlays::default(),
            search: String::new(),
            bottom: BottomLine::new(name),
            layout: ScreenLayout::default(),
        }
    }

    /// Handles a key, a mouse event or a new size. Keys typed ahead act on the result of the keys
    /// before them.
    pub(super) fn handle(&mut self, model: &mut Model, event: &Event) -> Reaction {
        self.refresh(model, false);
        match event {
            Event::Key(event) if event.kind != KeyEventKind::Release => {
                self.handle_key(model, event)
            }
            Event::Mouse(event) => self.handle_mouse(model, event),
            _ => Reaction::Draw,
        }
    }

    fn handle_key(&mut self, model: &mut Model, event: &KeyEvent) -> Reaction {
        let Some(name) = keys::name(event) else { return Reaction::Draw };
        self.bottom.clear();
        match self.overlays.handle_key(&name) {
            OverlayKey::NotTaken => {}
            OverlayKey::Taken => return Reaction::Draw,
            OverlayKey::Quit => return Reaction::Quit,
            OverlayKey::Chosen(action) => return self.act(model, action),
            OverlayKey::Answered(kind, text) => {
                self.take_answer(model, kind, &text);
                return Reaction::Draw;
            }
        }
        match keys::action(self.front(), &name, model.live().is_some()) {
            Some(action) => self.act(model, action),
            None => {
                self.bottom.say(format!("{name} does nothing here: ? lists the keys"));
                Reaction::Draw
            }
        }
    }

    /// Returns the view that keys go to: the page of text if there is one.
    fn front(&self) -> View {
        if self.overlays.has_page() { View::Text } else { self.navigation.view() }
    }

    fn take_answer(&mut self, model: &mut Model, kind: PromptKind, text: &str) {
        match kind {
            PromptKind::Search => {
                text.clone_into(&mut self.search);
                self.find(model, true);
            }
            PromptKind::Symbol => self.query.set_symbol_part(text),
            PromptKind::Filter => match (text.strip_prefix("event="), filters::parse(text)) {
                (Some(name), _) => self.show_event(model, name),
                (None, Ok(term)) => self.query.add(term),
                (None, Err(why)) => self.bottom.say(why),
            },
            PromptKind::Delay => self.set_delay(model, text),
            PromptKind::Limit => match text.trim_end_matches('%').parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => {
                    self.views.set_percent_limit(percent);
                }
                _ => self.bottom.say(format!("'{text}' is not a percentage")),
            },
        }
    }

    /// Fills the view if it is stale; with `again`, also if more was loaded.
    pub(super) fn refresh(&mut self, model: &mut Model, again: bool) {
        if !again && self.views.is_filled_at(self.query.revision()) {
            return;
        }
        if let Some(table) = self.columns.update(model.description()) {
            self.views.functions.set_columns(table);
        }
        let events = model.events(self.query.query());
        self.query.select_known_event(&events);
        let view = self.navigation.view();
        let has_chains = self.views.fill(view, model, &self.query, self.layout.width());
        let is_loaded = *model.progress() == Progress::Done && model.live().is_none();
        let has_filters = !self.query.query().terms.is_empty();
        if is_loaded && !has_chains && !has_filters {
            self.bottom.say("no call chains: record them with tare record -g");
        }
        if has_filters {
            self.query.passing = model.selected_weight(self.query.query());
        }
        if let Progress::Failed(why) = model.progress() {
            self.bottom.say(format!("the rest of the recording can't be read: {why}"));
        }
    }
}
