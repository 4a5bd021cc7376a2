//! A function instruction by instruction.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use tare_format::printable;

use crate::list::{Item, LineKind, List, Mark, key};
use crate::paint::{Pen, Theme, below_title, has};
use tare_annotate::{Annotated, Sources};

/// Cells of a percentage or of samples, and of a period.
const PERCENT: usize = 8;
const PERIOD: usize = 15;

/// The view of a function's instructions.
#[derive(Default)]
pub(crate) struct AnnotateView {
    pub(crate) list: List,
    title: String,
    annotated: Option<Annotated>,
    rows: Vec<Row>,
    hides_source: bool,
    figure: Figure,
}

/// What stands before an instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Figure {
    #[default]
    Percent,
    Period,
    Samples,
}

/// A line of the screen.
enum Row {
    /// A line of the source.
    Source(String),
    /// An instruction, by its place.
    Instruction(usize),
}

impl AnnotateView {
    /// Shows a function, from its hottest instruction on.
    pub(crate) fn show(&mut self, annotated: Annotated) {
        self.title = format!(
            "{}  {}  ({} samples)",
            printable(&annotated.name),
            printable(&annotated.path),
            annotated.own.samples
        );
        self.annotated = Some(annotated);
        self.list = List::default();
        self.lay_out();
        self.hottest();
    }

    fn lay_out(&mut self) {
        let Some(annotated) = &self.annotated else { return };
        let mut sources = Sources::default();
        let mut before = None;
        self.rows.clear();
        for (at, line) in annotated.lines.iter().enumerate() {
            let source = line.source.as_ref().filter(|_| !self.hides_source);
            if let Some((path, number)) = source.filter(|source| before != Some(*source)) {
                let text = sources.line(path, *number).map_or_else(
                    || format!("{}:{number}", printable(path)),
                    |text| format!("{number:<5}{}", printable(&text.replace('\t', "    "))),
                );
                self.rows.push(Row::Source(text));
            }
            before = source;
            self.rows.push(Row::Instruction(at));
        }
        let item = |(at, row): (usize, &Row)| {
            let key = match row {
                Row::Source(_) => key(5, at),
                Row::Instruction(at) => key(4, at),
            };
            Item { key, kind: LineKind::Row(at), depth: 0, mark: Mark::Leaf }
        };
        self.list.replace(self.rows.iter().enumerate().map(item).collect());
    }

    /// With the source, or without.
    pub(crate) fn toggle_source(&mut self) {
        self.hides_source = !self.hides_source;
        self.lay_out();
    }

    /// The next figure before instructions, and what it is called.
    pub(crate) fn next_figure(&mut self) -> &'static str {
        let (figure, name) = match self.figure {
            Figure::Percent => (Figure::Period, "period"),
            Figure::Period => (Figure::Samples, "samples"),
            Figure::Samples => (Figure::Percent, "percentage"),
        };
        self.figure = figure;
        name
    }

    /// The places of rows with samples, the hottest first.
    fn by_weight(&self) -> Vec<usize> {
        let weight = |at: &usize| match self.rows.get(*at) {
            Some(Row::Instruction(at)) => self.period(*at),
            _ => 0,
        };
        let mut rows: Vec<_> = (0..self.rows.len()).filter(|at| weight(at) > 0).collect();
        rows.sort_by_key(|at| std::cmp::Reverse(weight(at)));
        rows
    }

    fn period(&self, at: usize) -> u64 {
        let line = self.annotated.as_ref().and_then(|annotated| annotated.lines.get(at));
        line.map_or(0, |line| line.weight.period)
    }

    /// To the hottest instruction.
    pub(crate) fn hottest(&mut self) {
        self.list.cursor = self.by_weight().first().copied().unwrap_or(self.list.cursor);
    }

    /// To the next instruction by weight, or the one before.
    pub(crate) fn next_hottest(&mut self, step: isize) {
        let rows = self.by_weight();
        let at = rows.iter().position(|row| *row == self.list.cursor);
        let next = match at {
            Some(at) => (at + rows.len()).saturating_add_signed(step) % rows.len().max(1),
            None => 0,
        };
        self.list.cursor = rows.get(next).copied().unwrap_or(self.list.cursor);
    }

    /// To where the instruction jumps; `false` where it doesn't, or not within the function.
    pub(crate) fn jump(&mut self) -> bool {
        let on = self.rows.get(self.list.cursor);
        let (Some(Row::Instruction(at)), Some(annotated)) = (on, &self.annotated) else {
            return false;
        };
        let target = annotated.lines.get(*at).and_then(|line| line.instruction.jump);
        let is_target = |row: &Row| match row {
            Row::Instruction(at) => {
                annotated.lines.get(*at).map(|line| line.instruction.address) == target
            }
            Row::Source(_) => false,
        };
        let found = target.and_then(|_| self.rows.iter().position(is_target));
        self.list.cursor = found.unwrap_or(self.list.cursor);
        found.is_some()
    }

    /// The text of a line, for a search.
    pub(crate) fn text(&self, item: &Item) -> String {
        let LineKind::Row(at) = item.kind else { return String::new() };
        match (self.rows.get(at), &self.annotated) {
            (Some(Row::Source(text)), _) => text.clone(),
            (Some(Row::Instruction(at)), Some(annotated)) => annotated
                .lines
                .get(*at)
                .map_or_else(String::new, |line| printable(&line.instruction.text).into_owned()),
            _ => String::new(),
        }
    }

    pub(crate) fn draw(&mut self, buffer: &mut Buffer, area: Rect, (theme, search): (Theme, &str)) {
        Pen::new(buffer, area, 0).text(&self.title, theme.title());
        let below = below_title(area);
        for (line, (at, item)) in (0..).zip(self.list.window(below.height.into())) {
            let mut pen = Pen::new(buffer, below, line);
            self.line(&mut pen, &item, theme);
            let is_found = has(&self.text(&item), search);
            pen.mark(below, theme, is_found, at == self.list.cursor);
        }
    }

    fn line(&self, pen: &mut Pen<'_>, item: &Item, theme: Theme) {
        let (LineKind::Row(at), Some(annotated)) = (item.kind, &self.annotated) else { return };
        match self.rows.get(at) {
            Some(Row::Source(text)) => {
                let cells = if self.figure == Figure::Period { PERIOD } else { PERCENT };
                pen.field("", cells, Style::new())
                    .text(" │ ", Style::new())
                    .text(text, theme.title());
            }
            Some(Row::Instruction(at)) => {
                let Some(line) = annotated.lines.get(*at) else { return };
                let percent = tare_render::percent(line.weight, annotated.own);
                let text = match self.figure {
                    _ if line.weight.samples == 0 => String::new(),
                    Figure::Percent => format!("{percent:.2}"),
                    Figure::Period => line.weight.period.to_string(),
                    Figure::Samples => line.weight.samples.to_string(),
                };
                let cells = if self.figure == Figure::Period { PERIOD } else { PERCENT };
                pen.right(&text, cells, theme.percent(percent)).text(" │", Style::new());
                let mark = match (line.jumps_from.is_empty(), line.instruction.jump) {
                    (false, _) => "→",
                    (true, Some(to)) if to < line.instruction.address => "↑",
                    (true, Some(_)) => "↓",
                    (true, None) => " ",
                };
                pen.text(mark, theme.title());
                pen.text(&format!("{:6x}:  ", line.instruction.address), Style::new());
                pen.text(&printable(&line.instruction.text), Style::new());
            }
            None => {}
        }
    }
}
