//! Draws the whole screen into memory.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use tare_profile::Term;

use super::layout::ScreenLayout;
use super::{App, filters, status};
use crate::keys::View;
use crate::model::Model;
use crate::paint::{Pen, Theme};

impl App {
    /// Draws the screen.
    pub(crate) fn draw(&mut self, model: &mut Model, area: Rect) -> Buffer {
        let mut buffer = Buffer::empty(area);
        let is_untitled = self.front() == View::Functions && !self.views.functions.titles;
        self.layout = ScreenLayout::new(area, u16::from(!is_untitled));
        self.draw_status(&mut buffer, area, model);
        self.draw_view(&mut buffer, self.layout.view(), model);
        self.overlays.draw_menu(&mut buffer, self.layout.view(), self.theme);
        match self.overlays.prompt() {
            Some(prompt) => {
                let last = area.height.saturating_sub(1);
                prompt.draw(&mut Pen::new(&mut buffer, area, last), self.theme);
            }
            None => self.bottom.draw(&mut buffer, area, self.navigation.view(), self.theme),
        }
        buffer
    }

    /// Draws the lines above the view: event, losses, filters.
    fn draw_status(&self, buffer: &mut Buffer, area: Rect, model: &mut Model) {
        let theme = self.theme;
        let samples = status::samples(model, self.query.query());
        Pen::new(buffer, area, 0).text(&samples, Style::new()).whole(area, theme.bar());
        let missing = format!("Missing: {}", status::missing(model));
        let style = if status::is_incomplete(model) { theme.warning() } else { Style::new() };
        let mut pen = Pen::new(buffer, area, 1);
        pen.text(&missing, style);
        if let Some((part, words)) = status::progress(model) {
            draw_progress(&mut pen, part, &words, theme);
        }
        if let Some(live) = model.live() {
            let line = tare_render::live_line(&live.figures);
            pen.text("   ", Style::new()).text(&line, Style::new());
        }
        let mut pen = Pen::new(buffer, area, 2);
        let profile = model.profile();
        let conditions = self.query.query().conditions();
        let words = conditions.map(|term: &Term| filters::wording(profile, term));
        let words: Vec<_> = words.collect();
        if words.is_empty() {
            pen.text("No filter", Style::new());
        } else {
            pen.text("Filter: ", theme.title()).text(&words.join("  "), theme.warning());
        }
        if !self.query.query().terms.is_empty() {
            pen.text(&self.passing_share(model), Style::new());
        }
    }

    /// Returns the share of the event that passes the filters.
    fn passing_share(&self, model: &mut Model) -> String {
        let query = self.query.query();
        let events = model.events(query);
        let all = events.iter().find(|(event, _)| Some(*event) == query.event);
        match all {
            Some((_, all)) => {
                let base = if query.relative { "; percentages of these" } else { "" };
                let share = tare_render::percent(self.query.passing, *all);
                format!(": {share:.2}% of all{base}")
            }
            None => String::new(),
        }
    }

    fn draw_view(&mut self, buffer: &mut Buffer, area: Rect, model: &mut Model) {
        let theme = self.theme;
        let search = self.search.as_str();
        if let Some(page) = self.overlays.page() {
            return page.draw(buffer, area, theme, search);
        }
        let views = &mut self.views;
        match self.navigation.view() {
            View::Callers => views.callers.draw(buffer, area, theme, model.profile(), search),
            View::Tree => views.tree.draw(buffer, area, theme, model.profile(), search),
            View::Flame => views.flame.draw(buffer, area, theme, model.profile(), search),
            View::Annotate => views.annotate.draw(buffer, area, theme, search),
            View::Timeline => {
                if !views.timeline.has_columns_for(area.width) {
                    views.timeline.refresh(model, self.query.query(), area.width);
                }
                views.timeline.draw(buffer, area, theme, model.profile());
            }
            View::Functions | View::Text => {
                views.functions.draw(buffer, area, theme, model.profile(), search);
            }
        }
    }
}

/// Draws a progress bar at the right end of a line.
fn draw_progress(pen: &mut Pen<'_>, part: f64, words: &str, theme: Theme) {
    let cells = pen.room().saturating_sub(words.len() + 4).min(30);
    pen.text("  ", Style::new()).text(words, theme.title());
    if cells > 4 {
        let full = (0..cells).take_while(|cell| (*cell as f64) < part * cells as f64).count();
        pen.text(" ", Style::new())
            .text(&"━".repeat(full), theme.title())
            .text(&"─".repeat(cells - full), Style::new());
    }
}
