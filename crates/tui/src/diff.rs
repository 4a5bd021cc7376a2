//! The interactive comparison: a table, and details of the selected row.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyEventKind, MouseButton, MouseEventKind};
use ratatui::layout::Rect;
use ratatui::style::Style;
use tare_render::diff::{
    Diff, DiffOrder, DiffRow, DiffVerdict, DiffView, EventDiff, amount, cells, titles,
};
use tare_render::flame::Graph;

use super::app::Next;
use super::app::overlay::{Answer, Prompt, PromptKind};
use super::input::Input;
use super::list::{Item, LineKind, List, Mark, key};
use super::paint::{Pen, Theme, has};
use super::terminal::Screen;
use super::view::compared::ComparedView;
use super::view::text::{TextView, wrapped};
use super::{Error, UiExit, keys, take_in};

/// Smallest share of a function in the flame graph.
const LEAST: f64 = 0.0005;

/// Lines above the rows.
const ABOVE: u16 = 3;
const BELOW: u16 = 4;

const HELP: &[&str] = &[
    "h ? F1             this help",
    "q CTRL-c           quit",
    "ESC                one step back; from the table out",
    "CTRL-z             back to the shell, until fg",
    "UP DOWN            a line up, a line down",
    "PGUP PGDN SPACE    a screen up, a screen down",
    "HOME END           to the first row, to the last",
    "/ CTRL-f           search",
    "n N                next place that was searched for, the place before",
    "s                  order: change of the share, with its sign, B / A, share of A",
    "r                  turn the order around",
    "a                  also rows below the limit, or not",
    "b                  only what A has, or all",
    "TAB UNTAB          next event, event before",
    "i                  what was compared, what decides, what is missing",
    "f                  differential flame graph, or the table again",
    "x                  there: as wide as in A, or as in B",
    "LEFT RIGHT ENTER   there: to the function beside, make it as wide as the screen",
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
    let mut table = Table::new(diff, chains, view, Theme { color: !is_plain });
    loop {
        let picture = table.picture(screen.area());
        screen.show(picture).map_err(Error::Screen)?;
        if let Some(ended) = take_in(&input, &mut screen, None, |event| table.take(event))? {
            return Ok(ended);
        }
    }
}

struct Table {
    diff: Diff,
    view: DiffView,
    /// The percentage limit to restore after showing all rows.
    limit: f64,
    is_reversed: bool,
    event: usize,
    /// Indexes of the displayed rows, in display order.
    rows: Vec<usize>,
    list: List,
    search: String,
    prompt: Option<Prompt>,
    text: Option<TextView>,
    message: String,
    chains: Graph,
    /// The differential flame graph, while it is displayed.
    flame: Option<ComparedView>,
    theme: Theme,
    height: u16,
    width: u16,
}

impl Table {
    fn new(diff: Diff, chains: Graph, view: DiffView, theme: Theme) -> Self {
        let mut table = Self {
            limit: 0.0,
            is_reversed: false,
            event: 0,
            rows: Vec::new(),
            list: List::default(),
            search: String::new(),
            prompt: None,
            text: None,
            message: String::new(),
            chains,
            flame: None,
            height: 24,
            width: 80,
            diff,
            view,
            theme,
        };
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
        let place = |row: &&DiffRow| event.rows.iter().position(|one| std::ptr::eq(one, *row));
        self.rows = rows.iter().filter_map(place).collect();
        let item = |at: &usize| Item {
            key: key(self.event as u64, at),
            kind: LineKind::Row(*at),
            depth: 0,
            mark: Mark::Leaf,
        };
        self.list.replace(self.rows.iter().map(item).collect());
    }

    fn row(&self, item: &Item) -> Option<&DiffRow> {
        let LineKind::Row(at) = item.kind else { return None };
        self.event()?.rows.get(at)
    }

    fn take(&mut self, event: &Event) -> Next {
        match event {
            Event::Key(event) if event.kind != KeyEventKind::Release => {
                keys::name(event).map_or(Next::Show, |name| self.key(&name))
            }
            Event::Mouse(event) => {
                match event.kind {
                    MouseEventKind::ScrollDown => self.shown().go(1),
                    MouseEventKind::ScrollUp => self.shown().go(-1),
                    MouseEventKind::Down(MouseButton::Left) if self.is_flame() => {
                        if let Some(flame) = &mut self.flame {
                            flame.click(event.column, event.row);
                        }
                    }
                    MouseEventKind::Down(MouseButton::Left) => {
                        let above = if self.text.is_some() { 1 } else { ABOVE };
                        let row = event.row.checked_sub(above);
                        if let Some(at) = row.and_then(|row| self.shown().at(row.into())) {
                            self.shown().cursor = at;
                        }
                    }
                    _ => {}
                }
                Next::Show
            }
            _ => Next::Show,
        }
    }

    /// The list that the cursor moves in.
    fn shown(&mut self) -> &mut List {
        self.text.as_mut().map_or(&mut self.list, |text| &mut text.list)
    }

    fn key(&mut self, name: &str) -> Next {
        self.message.clear();
        if let Some(prompt) = &mut self.prompt {
            match prompt.key(name) {
                Answer::Open => {}
                Answer::Never => self.prompt = None,
                Answer::Given(text) => {
                    (self.prompt, self.search) = (None, text);
                    self.find(true);
                }
            }
            return Next::Show;
        }
        if self.is_flame() && self.flame.as_mut().is_some_and(|flame| flame.key(name)) {
            return Next::Show;
        }
        let page = isize::try_from(self.height.saturating_sub(ABOVE + BELOW)).unwrap_or(1).max(1);
        match name {
            "q" | "CTRL-c" => return Next::Quit,
            "ESC" if self.text.take().is_none() && self.flame.take().is_none() => {
                return Next::Quit;
            }
            "ESC" => {}
            "f" => self.toggle_flame(),
            "CTRL-z" => return Next::Suspend,
            "UP" => self.shown().go(-1),
            "DOWN" => self.shown().go(1),
            "PGUP" => self.shown().go(-page),
            "PGDN" | "SPACE" => self.shown().go(page),
            "HOME" => self.shown().go(isize::MIN),
            "END" => self.shown().go(isize::MAX),
            "/" | "CTRL-f" => {
                self.prompt = Some(Prompt { asked: PromptKind::Search, typed: String::new() });
            }
            "n" => self.find(true),
            "N" => self.find(false),
            "h" | "?" | "F1" => {
                let lines = HELP.iter().map(|line| (*line).to_owned()).collect();
                self.text = Some(TextView::new("Keys (ESC: back)", lines));
            }
            "i" => {
                let lines = wrapped(self.account(), self.width);
                self.text = Some(TextView::new("What was compared (ESC: back)", lines));
            }
            _ if self.text.is_some() => {}
            _ => self.arrange(name),
        }
        Next::Show
    }

    /// Whether keys go to the flame graph.
    fn is_flame(&self) -> bool {
        self.flame.is_some() && self.text.is_none()
    }

    fn toggle_flame(&mut self) {
        self.text = None;
        if self.flame.take().is_none() {
            let event = self.event().map(|event| event.name.clone()).unwrap_or_default();
            self.flame = Some(ComparedView::new(self.chains.compared(&event, LEAST)));
            self.message =
                "red, +: a larger share in B; blue, -: a smaller one; f: back".to_owned();
        }
    }

    /// Handles keys that change the selection or the order of the rows.
    fn arrange(&mut self, name: &str) {
        let events = self.diff.events.len().max(1);
        match name {
            "s" => {
                self.view.order = match self.view.order {
                    DiffOrder::DeltaAbs => DiffOrder::Delta,
                    DiffOrder::Delta => DiffOrder::Ratio,
                    DiffOrder::Ratio => DiffOrder::Baseline,
                    DiffOrder::Baseline | DiffOrder::Weighted(..) => DiffOrder::DeltaAbs,
                };
                let by = match self.view.order {
                    DiffOrder::Delta => "the change of the share, with its sign",
                    DiffOrder::Ratio => "B / A",
                    DiffOrder::Baseline => "the share of A",
                    _ => "the change of the share",
                };
                self.message = format!("Ordered by {by}; changes that are shown stand first");
            }
            "r" => self.is_reversed = !self.is_reversed,
            "a" => std::mem::swap(&mut self.view.percent_limit, &mut self.limit),
            "b" => self.view.baseline_only = !self.view.baseline_only,
            "TAB" => self.event = (self.event + 1) % events,
            "UNTAB" => self.event = (self.event + events - 1) % events,
            _ => self.message = format!("{name} does nothing here: ? lists the keys"),
        }
        self.refresh();
    }

    fn find(&mut self, forward: bool) {
        let is_found = |text: &str| has(text, &self.search);
        let found = if let (Some(flame), None) = (&mut self.flame, &self.text) {
            flame.find(&self.search, forward)
        } else if let Some(text) = &mut self.text {
            let mut list = std::mem::take(&mut text.list);
            let found = list.find(forward, |item| is_found(&text.text(item)));
            text.list = list;
            found
        } else {
            let rows = self.diff.events.get(self.event).map(|event| &event.rows[..]);
            let row = |item: &Item| match item.kind {
                LineKind::Row(at) => rows.and_then(|rows| rows.get(at)),
                _ => None,
            };
            self.list.find(forward, |item| row(item).is_some_and(|row| is_found(&row.name())))
        };
        if !found {
            self.message = format!("'{}' is not there", self.search);
        }
    }

    fn picture(&mut self, area: Rect) -> Buffer {
        (self.height, self.width) = (area.height, area.width);
        let mut buffer = Buffer::empty(area);
        if let Some(text) = &mut self.text {
            let height = area.height.saturating_sub(1);
            text.draw(&mut buffer, Rect { height, ..area }, self.theme, &self.search);
        } else if let Some(flame) = &mut self.flame {
            let height = area.height.saturating_sub(1);
            flame.draw(&mut buffer, Rect { height, ..area }, self.theme, &self.search);
        } else {
            self.above(&mut buffer, area);
            self.lines(&mut buffer, area);
            self.details(&mut buffer, area);
        }
        let mut pen = Pen::new(&mut buffer, area, area.height.saturating_sub(1));
        match &self.prompt {
            Some(prompt) => prompt.draw(&mut pen, self.theme),
            None if self.message.is_empty() => {
                pen.text(
                    "? keys  / search  s order  f flame graph  i what was compared  q quit",
                    Style::new(),
                );
            }
            None => {
                pen.text(&self.message, self.theme.warning());
            }
        }
        buffer
    }

    fn above(&self, buffer: &mut Buffer, area: Rect) {
        let side = |at: usize| {
            let recordings = &self.diff.recordings[at];
            let first = recordings.first().map(|one| one.name.as_str()).unwrap_or_default();
            match recordings.len() {
                1 => first.to_owned(),
                count => format!("{count} from {first}"),
            }
        };
        let title = match self.event() {
            Some(event) => format!(
                "{}: {} -> {} per {}   A: {}   B: {}",
                event.name,
                amount(event.all.a, event.unit),
                amount(event.all.b, event.unit),
                self.diff.per,
                side(0),
                side(1)
            ),
            None => String::new(),
        };
        Pen::new(buffer, area, 0).text(&title, Style::new()).whole(area, self.theme.bar());
        let losses = self.diff.recordings.iter().flatten().filter(|one| !one.losses.is_empty());
        let missing = match losses.count() {
            0 => "Missing: nothing is known to be".to_owned(),
            count => format!(
                "Missing: something in {} (i)",
                tare_render::count(count as u64, "recording")
            ),
        };
        let text = format!("{missing}; {}", self.diff.method);
        Pen::new(buffer, area, 1).text(&text, Style::new());
        let mut pen = Pen::new(buffer, area, 2);
        for (title, width) in [("Baseline", 9), ("Delta", 9), ("B / A", 10)] {
            pen.right(title, width, self.theme.title());
        }
        pen.text("  ", Style::new()).field("Change", 15, self.theme.title());
        pen.text("Symbol", self.theme.title());
    }

    fn lines(&mut self, buffer: &mut Buffer, area: Rect) {
        let height = area.height.saturating_sub(ABOVE + BELOW);
        let below = Rect { y: area.y + ABOVE.min(area.height), height, ..area };
        for (line, (at, item)) in (0..).zip(self.list.window(height.into())) {
            let Some(row) = self.row(&item) else { continue };
            let verdict = row.verdict();
            let style = match verdict {
                DiffVerdict::More | DiffVerdict::New | DiffVerdict::LargerShare => {
                    self.theme.percent(100.0)
                }
                verdict if verdict.is_change() => self.theme.percent(1.0),
                _ => Style::new(),
            };
            let mut pen = Pen::new(buffer, below, line);
            let base = format!("{:.2}%", 100.0 * row.share.a);
            pen.right(if row.share.a > 0.0 { &base } else { "" }, 9, Style::new());
            pen.right(&format!("{:+.2}%", 100.0 * row.share.delta()), 9, style);
            let quotient = 100.0 * (row.weight.quotient() - 1.0);
            let ratio =
                if quotient.is_finite() { format!("{quotient:+.2}%") } else { "new".to_owned() };
            pen.right(&ratio, 10, style).text("  ", Style::new());
            pen.field(verdict.words(), 15, style);
            for part in [&row.comm, &row.dso].into_iter().flatten() {
                pen.text(part, Style::new()).text("  ", Style::new());
            }
            let name = row.name();
            pen.text(
                &name,
                if has(&name, &self.search) { self.theme.found() } else { Style::new() },
            );
            if at == self.list.cursor {
                pen.whole(below, self.theme.cursor());
            }
        }
    }

    /// Draws the details of the selected row.
    fn details(&self, buffer: &mut Buffer, area: Rect) {
        let Some(event) = self.event() else { return };
        let view = DiffView { period: true, verbose: true, ..self.view.clone() };
        let titles = titles(&self.diff, event, &view);
        let Some(row) = self.list.current().and_then(|item| self.row(item)) else { return };
        let cells = cells(row, event.unit, &view);
        let known: Vec<String> = titles
            .iter()
            .zip(&cells)
            .filter(|(title, cell)| title.is_figure && !cell.text.is_empty())
            .map(|(title, cell)| format!("{} {}", title.text, cell.text))
            .collect();
        let lines = wrapped(vec![known.join("   ")], area.width);
        for (at, line) in (0..BELOW - 1).zip(lines) {
            let at = area.height.saturating_sub(BELOW) + at;
            Pen::new(buffer, area, at).text(&line, Style::new());
        }
    }

    /// Returns lines that describe what was compared.
    fn account(&self) -> Vec<String> {
        let mut lines = vec![self.diff.method.clone()];
        lines.extend(self.diff.notes.iter().cloned());
        for (side, recordings) in ["A", "B"].iter().zip(&self.diff.recordings) {
            for recording in recordings {
                let samples = tare_render::count(recording.samples, "sample");
                lines.push(format!("{side}: {}, {samples}", recording.name));
                lines.extend(recording.losses.iter().map(|line| format!("    {line}")));
            }
        }
        let met = |gate: &tare_render::diff::Gate| {
            let how = if gate.failed { "failed" } else { "holds" };
            format!("--fail-if '{}' {how}: {}", gate.condition, gate.why)
        };
        lines.extend(self.diff.gates.iter().map(met));
        lines
    }
}
