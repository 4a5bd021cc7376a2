//! The whole screen as a picture.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use tare_profile::Term;

use super::{App, filters, status};
use crate::keys::View;
use crate::model::Model;
use crate::paint::{Pen, Theme};

/// The entries of the last line: key, name, view.
pub(super) const VIEWS: &[(&str, &str, View)] = &[
    ("1", "functions", View::Functions),
    ("2", "callers", View::Callers),
    ("3", "tree", View::Tree),
    ("4", "flame", View::Flame),
    ("5", "time", View::Timeline),
    ("a", "annotate", View::Annotate),
];

/// Lines above a view.
const ABOVE: u16 = 3;

impl App {
    /// Draws everything.
    pub(crate) fn picture(&mut self, model: &mut Model, area: Rect) -> Buffer {
        self.size = area;
        let mut buffer = Buffer::empty(area);
        self.above(&mut buffer, area, model);
        let inner = Rect {
            y: area.y + ABOVE.min(area.height),
            height: area.height.saturating_sub(ABOVE + 1),
            ..area
        };
        self.inner = inner;
        self.body(&mut buffer, inner, model);
        if let Some(menu) = &self.menu {
            menu.draw(&mut buffer, inner, self.theme);
        }
        self.below(&mut buffer, area);
        buffer
    }

    /// Draws the lines above the view: event, losses, filters.
    fn above(&self, buffer: &mut Buffer, area: Rect, model: &mut Model) {
        let theme = self.theme;
        let samples = status::samples(model, &self.query);
        Pen::new(buffer, area, 0).text(&samples, Style::new()).whole(area, theme.bar());
        let missing = format!("Missing: {}", status::missing(model));
        let style = if status::is_incomplete(model) { theme.warning() } else { Style::new() };
        let mut pen = Pen::new(buffer, area, 1);
        pen.text(&missing, style);
        if let Some((part, words)) = status::progress(model) {
            bar(&mut pen, part, &words, theme);
        }
        if let Some(live) = model.live() {
            let line = tare_render::live_line(&live.figures);
            pen.text("   ", Style::new()).text(&line, Style::new());
        }
        let mut pen = Pen::new(buffer, area, 2);
        let profile = model.profile();
        let words = self.query.conditions().map(|term: &Term| filters::wording(profile, term));
        let words: Vec<_> = words.collect();
        if words.is_empty() {
            pen.text("No filter", Style::new());
        } else {
            pen.text("Filter: ", theme.title()).text(&words.join("  "), theme.warning());
        }
        if !self.query.terms.is_empty() {
            pen.text(&self.share(model), Style::new());
        }
    }

    /// Returns the share of the event that passes the filters.
    fn share(&self, model: &mut Model) -> String {
        let events = model.events(&self.query);
        let all = events.iter().find(|(event, _)| Some(*event) == self.query.event);
        match all {
            Some((_, all)) => {
                let of = if self.query.relative { "; percentages of these" } else { "" };
                format!(": {:.2}% of all{of}", tare_render::percent(self.taken, *all))
            }
            _ => String::new(),
        }
    }

    fn body(&mut self, buffer: &mut Buffer, area: Rect, model: &mut Model) {
        let theme = self.theme;
        let search = self.search.clone();
        if let Some(text) = &mut self.text {
            self.top = area.y + 1;
            return text.draw(buffer, area, theme, &search);
        }
        let titles = !matches!(self.view, View::Functions) || self.functions.titles;
        self.top = area.y + u16::from(titles);
        match self.view {
            View::Callers => self.callers.draw(buffer, area, theme, model.profile(), &search),
            View::Tree => self.tree.draw(buffer, area, theme, model.profile(), &search),
            View::Flame => self.flame.draw(buffer, area, theme, model.profile(), &search),
            View::Annotate => self.annotate.draw(buffer, area, theme, &search),
            View::Timeline => {
                if !self.timeline.is_of(area.width) {
                    self.timeline.refresh(model, &self.query, area.width);
                }
                self.timeline.draw(buffer, area, theme, model.profile());
            }
            _ => self.functions.draw(buffer, area, theme, model.profile(), &search),
        }
    }

    fn below(&self, buffer: &mut Buffer, area: Rect) {
        let last = area.height.saturating_sub(1);
        let mut pen = Pen::new(buffer, area, last);
        if let Some(prompt) = &self.prompt {
            return prompt.draw(&mut pen, self.theme);
        }
        if self.message.is_empty() {
            for (key, name, view) in VIEWS {
                let style = if self.view == *view { self.theme.cursor() } else { Style::new() };
                pen.text(&format!("{key} {name}"), style).text("  ", Style::new());
            }
            pen.text("? help  l ledger  q quit   ", Style::new()).text(&self.name, Style::new());
        } else {
            pen.text(&self.message, self.theme.warning());
        }
        pen.whole(area, self.theme.bar());
    }
}

/// Draws a progress bar at the right end of a line.
fn bar(pen: &mut Pen<'_>, part: f64, words: &str, theme: Theme) {
    let cells = pen.room().saturating_sub(words.len() + 4).min(30);
    pen.text("  ", Style::new()).text(words, theme.title());
    if cells > 4 {
        let full = (0..cells).take_while(|cell| (*cell as f64) < part * cells as f64).count();
        pen.text(" ", Style::new())
            .text(&"━".repeat(full), theme.title())
            .text(&"─".repeat(cells - full), Style::new());
    }
}
