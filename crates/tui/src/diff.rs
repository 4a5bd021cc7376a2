//! The interactive comparison: a table, and details of the selected row.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyEventKind, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;
use ratatui::style::Style;
use tare_render::diff::{
    Diff, DiffOrder, DiffRow, DiffVerdict, DiffView, EventDiff, amount, cells, titles,
};
use tare_render::flame::Graph;

use super::app::Reaction;
use super::app::overlay::{Answer, Prompt, PromptKind};
use super::input::Input;
use super::list::{Item, LineKind, List, Mark, key};
use super::paint::{Pen, Theme, has};
use super::terminal::Screen;
use super::view::compared::ComparedView;
use super::view::text::{TextView, wrap};
use super::{Error, UiExit, handle_messages, keys};

/// Smallest share of a function in the flame graph: 0.05%.
const LEAST_SHARE: f64 = 0.0005;

/// Lines above the rows.
const LINES_ABOVE: u16 = 3;

/// Lines below the rows: the details of the selected row, and the last line.
const LINES_BELOW: u16 = 4;

const HELP: &[&str] = &[
    "h ? F1             this help",
    "q CTRL-c           quit",
    "ESC                go back; from the table, quit",
    "CTRL-z             suspend; fg resumes",
    "UP DOWN            one line up, one line down",
    "PGUP PGDN SPACE    one screen up, one screen down",
    "HOME END           first row, last row",
    "/ CTRL-f           search",
    "n N                next match, previous match",
    "s                  sort by change of the share, signed change, B / A, or share of A",
    "r                  reverse the order",
    "a                  show or hide rows below the limit",
    "b                  only functions that A has, or all",
    "TAB UNTAB          next event, previous event",
    "i                  recordings, method, verdicts of --fail-if, losses",
    "f                  differential flame graph, or the table",
    "x                  in the graph: widths of A, or of B",
    "LEFT RIGHT ENTER   in the graph: select the function beside, zoom",
    "The graph as a page: tare diff --flame out.html",
];

/// Shows a comparison, and its call chains (B's first), until the user quits.
///
/// # Errors
/// See [`Error`].
pub fn run(diff: Diff, chains: Graph, view: DiffView, is_plain: bool) -> Result<UiExit, Error> {
    let input = Input::new().map_err(Error::Signals)?;
    let mut screen = Screen::take().map_err(Error::Terminal)?;
    input.start();
    let theme = Theme { color: !is_plain };
    let mut comparison = Comparison::new(ComparedTable::new(diff, view), chains, theme);
    loop {
        let picture = comparison.draw(screen.area());
        screen.show(picture).map_err(Error::Screen)?;
        let handle = |event: &Event| comparison.handle(event);
        if let Some(ended) = handle_messages(&input, &mut screen, None, handle)? {
            return Ok(ended);
        }
    }
}

/// The rows of one event.
///
/// Invariant: the list's items are the event's rows that pass the view's limits, in its order.
struct ComparedTable {
    diff: Diff,
    view: DiffView,
    /// The limit that `a` sets next: 0, or the first one while all rows are shown.
    other_limit: f64,
    is_reversed: bool,
    /// Index of the event.
    event: usize,
    list: List,
}

impl ComparedTable {
    fn new(diff: Diff, view: DiffView) -> Self {
        let list = List::default();
        let mut table = Self { diff, view, other_limit: 0.0, is_reversed: false, event: 0, list };
        table.refresh();
        table
    }

    fn event(&self) -> Option<&EventDiff> {
        self.diff.events.get(self.event)
    }

    /// Sorts and filters the rows again.
    fn refresh(&mut self) {
        let Some(event) = self.diff.events.get(self.event) else { return };
        let (mut rows, _) = self.view.rows(event);
        if self.is_reversed {
            rows.reverse();
        }
        let index = |row: &DiffRow| event.rows.iter().position(|one| std::ptr::eq(one, row));
        let item = |at: usize| Item {
            key: key(self.event as u64, at),
            kind: LineKind::Row(at),
            depth: 0,
            mark: Mark::Leaf,
        };
        let items = rows.into_iter().filter_map(index).map(item).collect();
        self.list.replace(items);
    }

    fn row(&self, item: &Item) -> Option<&DiffRow> {
        let LineKind::Row(at) = item.kind else { return None };
        self.event()?.rows.get(at)
    }

    /// Selects the next order, and returns it in words.
    fn sort_by_next(&mut self) -> &'static str {
        self.view.order = match self.view.order {
            DiffOrder::DeltaAbs => DiffOrder::Delta,
            DiffOrder::Delta => DiffOrder::Ratio,
            DiffOrder::Ratio => DiffOrder::Baseline,
            DiffOrder::Baseline | DiffOrder::Weighted(..) => DiffOrder::DeltaAbs,
        };
        self.refresh();
        match self.view.order {
            DiffOrder::Delta => "the signed change of the share",
            DiffOrder::Ratio => "B / A",
            DiffOrder::Baseline => "the share of A",
            _ => "the change of the share",
        }
    }

    fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
        self.refresh();
    }

    /// Shows or hides the rows below the percentage limit.
    fn toggle_limit(&mut self) {
        std::mem::swap(&mut self.view.percent_limit, &mut self.other_limit);
        self.refresh();
    }

    /// Switches between the functions that A has and all.
    fn toggle_baseline(&mut self) {
        self.view.baseline_only = !self.view.baseline_only;
        self.refresh();
    }

    /// Selects another event, wrapping around.
    fn step_event(&mut self, step: isize) {
        let events = self.diff.events.len().max(1);
        self.event = (self.event + events).saturating_add_signed(step) % events;
        self.refresh();
    }

    /// Moves the cursor to the next row whose name contains the text; returns `false` if no row
    /// matches.
    fn find(&mut self, wanted: &str, forward: bool) -> bool {
        let mut list = std::mem::take(&mut self.list);
        let found =
            list.find(forward, |item| self.row(item).is_some_and(|row| has(&row.name(), wanted)));
        self.list = list;
        found
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme, search: &str) {
        self.draw_above(buffer, area, theme);
        let height = area.height.saturating_sub(LINES_ABOVE + LINES_BELOW);
        let below = Rect { y: area.y + LINES_ABOVE.min(area.height), height, ..area };
        for (line, (at, item)) in (0..).zip(self.list.window(height.into())) {
            let Some(row) = self.row(&item) else { continue };
            let mut pen = Pen::new(buffer, below, line);
            draw_row(&mut pen, row, theme, search);
            if at == self.list.cursor {
                pen.whole(below, theme.cursor());
            }
        }
        self.draw_details(buffer, area);
    }

    /// Draws the lines above the rows: event and recordings, losses and method, titles.
    fn draw_above(&self, buffer: &mut Buffer, area: Rect, theme: Theme) {
        let title = self.event().map_or_else(String::new, |event| {
            format!(
                "{}: {} -> {} per {}   A: {}   B: {}",
                event.name,
                amount(event.all.a, event.unit),
                amount(event.all.b, event.unit),
                self.diff.per,
                self.side(0),
                self.side(1)
            )
        });
        Pen::new(buffer, area, 0).text(&title, Style::new()).whole(area, theme.bar());
        let losses = self.diff.recordings.iter().flatten().filter(|one| !one.losses.is_empty());
        let missing = match losses.count() {
            0 => "Missing: nothing known".to_owned(),
            count => {
                let recordings = tare_render::count(count as u64, "recording");
                format!("Missing: data in {recordings} (i)")
            }
        };
        let text = format!("{missing}; {}", self.diff.method);
        Pen::new(buffer, area, 1).text(&text, Style::new());
        let mut pen = Pen::new(buffer, area, 2);
        for (title, width) in [("Baseline", 9), ("Delta", 9), ("B / A", 10)] {
            pen.right(title, width, theme.title());
        }
        pen.text("  ", Style::new()).field("Change", 15, theme.title());
        pen.text("Symbol", theme.title());
    }

    /// Returns the name of a side's first recording, and how many there are.
    fn side(&self, side: usize) -> String {
        let recordings = &self.diff.recordings[side];
        let first = recordings.first().map(|one| one.name.as_str()).unwrap_or_default();
        match recordings.len() {
            1 => first.to_owned(),
            count => format!("{count} from {first}"),
        }
    }

    /// Draws the details of the selected row.
    fn draw_details(&self, buffer: &mut Buffer, area: Rect) {
        let Some(event) = self.event() else { return };
        let view = DiffView { period: true, verbose: true, ..self.view.clone() };
        let titles = titles(&self.diff, event, &view);
        let Some(row) = self.list.current().and_then(|item| self.row(item)) else { return };
        let cells = cells(row, event.unit, &view);
        let figures: Vec<String> = titles
            .iter()
            .zip(&cells)
            .filter(|(title, cell)| title.is_figure && !cell.text.is_empty())
            .map(|(title, cell)| format!("{} {}", title.text, cell.text))
            .collect();
        let lines = wrap(vec![figures.join("   ")], area.width);
        for (at, line) in (0..LINES_BELOW - 1).zip(lines) {
            let at = area.height.saturating_sub(LINES_BELOW) + at;
            Pen::new(buffer, area, at).text(&line, Style::new());
        }
    }

    /// Returns lines about the method, the recordings and their losses, and the results of
    /// `--fail-if`.
    fn describe(&self) -> Vec<String> {
        let mut lines = vec![self.diff.method.clone()];
        lines.extend(self.diff.notes.iter().cloned());
        for (side, recordings) in ["A", "B"].iter().zip(&self.diff.recordings) {
            for recording in recordings {
                let samples = tare_render::count(recording.samples, "sample");
                lines.push(format!("{side}: {}, {samples}", recording.name));
                lines.extend(recording.losses.iter().map(|line| format!("    {line}")));
            }
        }
        let verdict = |gate: &tare_render::diff::Gate| {
            let verdict = if gate.failed { "failed" } else { "passed" };
            format!("--fail-if '{}' {verdict}: {}", gate.condition, gate.why)
        };
        lines.extend(self.diff.gates.iter().map(verdict));
        lines
    }
}

fn draw_row(pen: &mut Pen<'_>, row: &DiffRow, theme: Theme, search: &str) {
    let verdict = row.verdict();
    let style = match verdict {
        DiffVerdict::More | DiffVerdict::New | DiffVerdict::LargerShare => theme.percent(100.0),
        verdict if verdict.is_change() => theme.percent(1.0),
        _ => Style::new(),
    };
    let base = format!("{:.2}%", 100.0 * row.share.a);
    pen.right(if row.share.a > 0.0 { &base } else { "" }, 9, Style::new());
    pen.right(&format!("{:+.2}%", 100.0 * row.share.delta()), 9, style);
    let quotient = 100.0 * (row.weight.quotient() - 1.0);
    let ratio = if quotient.is_finite() { format!("{quotient:+.2}%") } else { "new".to_owned() };
    pen.right(&ratio, 10, style).text("  ", Style::new());
    pen.field(verdict.words(), 15, style);
    for part in [&row.comm, &row.dso].into_iter().flatten() {
        pen.text(part, Style::new()).text("  ", Style::new());
    }
    let name = row.name();
    pen.text(&name, if has(&name, search) { theme.search_match() } else { Style::new() });
}

/// The call chains, and their differential flame graph while it is on the screen.
///
/// Invariant: the graph is of the event that the table showed when the graph was opened.
struct FlamePanel {
    chains: Graph,
    shown: Option<ComparedView>,
}

impl FlamePanel {
    /// Opens the graph of an event.
    fn open(&mut self, event: &str) {
        self.shown = Some(ComparedView::new(self.chains.compared(event, LEAST_SHARE)));
    }

    /// Closes the graph; returns `false` if it isn't open.
    fn close(&mut self) -> bool {
        self.shown.take().is_some()
    }
}

/// The interactive comparison: the table, and the graph, page and prompt on top of it.
struct Comparison {
    table: ComparedTable,
    flame: FlamePanel,
    /// A page of text on top of the graph or the table.
    page: Option<TextView>,
    prompt: Option<Prompt>,
    search: String,
    /// Displayed in the last line until the next key.
    message: String,
    theme: Theme,
    /// The screen as last drawn.
    screen: Rect,
}

impl Comparison {
    fn new(table: ComparedTable, chains: Graph, theme: Theme) -> Self {
        Self {
            table,
            flame: FlamePanel { chains, shown: None },
            page: None,
            prompt: None,
            search: String::new(),
            message: String::new(),
            theme,
            screen: Rect::new(0, 0, 80, 24),
        }
    }

    fn handle(&mut self, event: &Event) -> Reaction {
        match event {
            Event::Key(event) if event.kind != KeyEventKind::Release => {
                return keys::name(event).map_or(Reaction::Draw, |name| self.handle_key(&name));
            }
            Event::Mouse(event) => self.handle_mouse(event),
            _ => {}
        }
        Reaction::Draw
    }

    fn handle_mouse(&mut self, event: &MouseEvent) {
        match event.kind {
            MouseEventKind::ScrollDown => self.list().move_cursor(1),
            MouseEventKind::ScrollUp => self.list().move_cursor(-1),
            MouseEventKind::Down(MouseButton::Left) => {
                if let Some(flame) = self.front_flame() {
                    return flame.click(event.column, event.row);
                }
                let above = if self.page.is_some() { 1 } else { LINES_ABOVE };
                let row = event.row.checked_sub(above);
                if let Some(at) = row.and_then(|row| self.list().at(row.into())) {
                    self.list().cursor = at;
                }
            }
            _ => {}
        }
    }

    /// Returns the list that the cursor moves in.
    fn list(&mut self) -> &mut List {
        self.page.as_mut().map_or(&mut self.table.list, |page| &mut page.list)
    }

    /// Returns the flame graph, unless a page covers it.
    fn front_flame(&mut self) -> Option<&mut ComparedView> {
        self.flame.shown.as_mut().filter(|_| self.page.is_none())
    }

    fn handle_key(&mut self, name: &str) -> Reaction {
        self.message.clear();
        if let Some(prompt) = &mut self.prompt {
            match prompt.handle_key(name) {
                Answer::Open => {}
                Answer::Cancelled => self.prompt = None,
                Answer::Given(text) => {
                    self.prompt = None;
                    self.search = text;
                    self.find(true);
                }
            }
            return Reaction::Draw;
        }
        if self.front_flame().is_some_and(|flame| flame.handle_key(name)) {
            return Reaction::Draw;
        }
        let page = self.screen.height.saturating_sub(LINES_ABOVE + LINES_BELOW);
        let page = isize::try_from(page).unwrap_or(1).max(1);
        match name {
            "q" | "CTRL-c" => return Reaction::Quit,
            "ESC" => {
                if self.page.take().is_none() && !self.flame.close() {
                    return Reaction::Quit;
                }
            }
            "f" => self.toggle_flame(),
            "CTRL-z" => return Reaction::Suspend,
            "UP" => self.list().move_cursor(-1),
            "DOWN" => self.list().move_cursor(1),
            "PGUP" => self.list().move_cursor(-page),
            "PGDN" | "SPACE" => self.list().move_cursor(page),
            "HOME" => self.list().move_cursor(isize::MIN),
            "END" => self.list().move_cursor(isize::MAX),
            "/" | "CTRL-f" => self.prompt = Some(Prompt::new(PromptKind::Search)),
            "n" => self.find(true),
            "N" => self.find(false),
            "h" | "?" | "F1" => {
                let lines = HELP.iter().map(|line| (*line).to_owned()).collect();
                self.page = Some(TextView::new("Keys (ESC: back)", lines));
            }
            "i" => {
                let lines = wrap(self.table.describe(), self.screen.width);
                self.page = Some(TextView::new("The comparison (ESC: back)", lines));
            }
            _ if self.page.is_some() => {}
            _ => self.arrange(name),
        }
        Reaction::Draw
    }

    fn toggle_flame(&mut self) {
        self.page = None;
        if !self.flame.close() {
            let event = self.table.event().map(|event| event.name.clone()).unwrap_or_default();
            self.flame.open(&event);
            self.message =
                "red, +: larger share in B; blue, -: smaller share; f: back to the table"
                    .to_owned();
        }
    }

    /// Handles keys that select or sort the rows.
    fn arrange(&mut self, name: &str) {
        match name {
            "s" => {
                let by = self.table.sort_by_next();
                self.message = format!("Sorted by {by}; significant changes come first");
            }
            "r" => self.table.reverse(),
            "a" => self.table.toggle_limit(),
            "b" => self.table.toggle_baseline(),
            "TAB" => self.table.step_event(1),
            "UNTAB" => self.table.step_event(-1),
            _ => self.message = format!("{name} does nothing here: ? lists the keys"),
        }
    }

    fn find(&mut self, forward: bool) {
        let found = match (&mut self.page, &mut self.flame.shown) {
            (Some(page), _) => page.find(&self.search, forward),
            (None, Some(flame)) => flame.find(&self.search, forward),
            (None, None) => self.table.find(&self.search, forward),
        };
        if !found {
            self.message = format!("'{}' is not in this view", self.search);
        }
    }

    fn draw(&mut self, area: Rect) -> Buffer {
        self.screen = area;
        let mut buffer = Buffer::empty(area);
        let upper = Rect { height: area.height.saturating_sub(1), ..area };
        if let Some(page) = &mut self.page {
            page.draw(&mut buffer, upper, self.theme, &self.search);
        } else if let Some(flame) = &mut self.flame.shown {
            flame.draw(&mut buffer, upper, self.theme, &self.search);
        } else {
            self.table.draw(&mut buffer, area, self.theme, &self.search);
        }
        let mut pen = Pen::new(&mut buffer, area, area.height.saturating_sub(1));
        match &self.prompt {
            Some(prompt) => prompt.draw(&mut pen, self.theme),
            None if self.message.is_empty() => {
                let keys = "? keys  / search  s sort  f flame graph  i the comparison  q quit";
                pen.text(keys, Style::new());
            }
            None => {
                pen.text(&self.message, self.theme.warning());
            }
        }
        buffer
    }
}

#[cfg(test)]
mod tests {
    use tare_render::Unit;
    use tare_render::diff::DiffFigure;

    use super::*;

    fn row(symbol: &str, a: f64, b: f64) -> DiffRow {
        let share = DiffFigure { a, b, ..DiffFigure::default() };
        DiffRow { symbol: Some(symbol.to_owned()), share, ..DiffRow::default() }
    }

    fn event(name: &str, rows: Vec<DiffRow>) -> EventDiff {
        let all = DiffFigure { a: 1e9, b: 1e9, ..DiffFigure::default() };
        EventDiff { name: name.to_owned(), unit: Unit::Nanoseconds, all, rows }
    }

    fn table() -> ComparedTable {
        let rows = vec![row("lex", 0.5, 0.3), row("parse", 0.4, 0.7), row("tiny", 0.001, 0.001)];
        let events = vec![event("cpu-clock", rows), event("page-faults", Vec::new())];
        let view = DiffView { percent_limit: 0.5, ..DiffView::default() };
        ComparedTable::new(Diff { events, ..Diff::default() }, view)
    }

    fn names(table: &ComparedTable) -> Vec<String> {
        table.list.items.iter().filter_map(|item| Some(table.row(item)?.name())).collect()
    }

    #[test]
    fn lists_the_rows_that_the_view_allows_in_its_order() {
        let mut table = table();
        assert_eq!(names(&table), ["parse", "lex"]);
        table.reverse();
        assert_eq!(names(&table), ["lex", "parse"]);
        table.toggle_limit();
        assert_eq!(names(&table), ["tiny", "lex", "parse"]);
        table.reverse();
        assert_eq!(table.sort_by_next(), "the signed change of the share");
        assert_eq!(names(&table), ["parse", "tiny", "lex"]);
        table.step_event(-1);
        assert_eq!(table.event().map(|event| event.name.as_str()), Some("page-faults"));
        assert!(names(&table).is_empty());
    }

    #[test]
    fn keeps_the_cursor_when_nothing_matches() {
        let mut table = table();
        assert!(table.find("LEX", true) && !table.find("none", true));
        assert_eq!(table.list.cursor, 1);
    }

    #[test]
    fn goes_back_from_page_to_graph_to_table() {
        let theme = Theme { color: false };
        let chains = Graph::new(
            Vec::new(),
            tare_profile::Order::Caller,
            tare_render::flame::FlameRoot::Comm,
        );
        let mut comparison = Comparison::new(table(), chains, theme);
        for key in ["f", "?"] {
            assert_eq!(comparison.handle_key(key), Reaction::Draw);
        }
        assert!(comparison.page.is_some() && comparison.flame.shown.is_some());
        assert_eq!(comparison.handle_key("ESC"), Reaction::Draw);
        assert!(comparison.page.is_none() && comparison.flame.shown.is_some());
        assert_eq!(comparison.handle_key("ESC"), Reaction::Draw);
        assert!(comparison.flame.shown.is_none());
        assert_eq!(comparison.handle_key("ESC"), Reaction::Quit);
    }
}
