//! A function's instructions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use tare_format::printable;
use tare_profile::{SymbolId, Weight};

use crate::list::{Item, LineKind, List, Mark, key};
use crate::paint::{Pen, Theme, below_title, has};
use tare_annotate::{AnnotatedFunction, AnnotatedLine, SourceRoot, Sources, Style as Syntax};

/// Cells of a percentage or a sample count.
const PERCENT_CELLS: usize = 8;

/// Cells of a period.
const PERIOD_CELLS: usize = 15;

/// Cells of an instruction's bytes.
const BYTES_CELLS: usize = 22;

/// Initial settings of the instruction view.
#[derive(Clone, Debug, Default)]
pub struct CodeView {
    /// Assembly syntax.
    pub style: Syntax,
    /// Where source files are.
    pub sources: SourceRoot,
    /// Hide source lines.
    pub hides_source: bool,
    /// Print the file name before each source line.
    pub with_files: bool,
    /// Print the instruction's bytes.
    pub with_bytes: bool,
    /// Percentages of all samples instead of the function's.
    pub of_all: bool,
    /// Percentages of sample counts instead of periods.
    pub by_samples: bool,
}

/// The instruction view.
///
/// Invariant: `rows` and the list's items are the lines of `annotated`, with its source lines
/// unless they are hidden.
pub(crate) struct AnnotateView {
    pub(crate) list: List,
    /// The function; `None` once its samples are gone, while its instructions stay displayed.
    pub(crate) function: Option<SymbolId>,
    annotated: Option<AnnotatedFunction>,
    rows: Vec<CodeRow>,
    code: CodeView,
    hides_numbers: bool,
    figure: CodeFigure,
    addresses: AddressView,
    /// Hide the line from a jump to its target.
    hides_arrow: bool,
}

/// How an instruction's position is printed.
#[derive(Clone, Copy, Default)]
struct AddressView {
    /// As an offset from the function's start instead of an address.
    by_distance: bool,
    /// Which instructions print an offset.
    level: DistanceLevel,
    /// Print addresses instead of offsets.
    has_whole_addresses: bool,
    /// Print the number of jumps to the instruction.
    with_jumps: bool,
}

/// Which instructions print their offset; each level includes the one before.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum DistanceLevel {
    #[default]
    JumpedTo,
    Calls,
    All,
}

/// The figure before an instruction.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum CodeFigure {
    #[default]
    Percent,
    Period,
    Samples,
}

/// A line of the view.
enum CodeRow {
    /// A source line.
    Source(String),
    /// An instruction, by index.
    Instruction(usize),
}

impl AnnotateView {
    pub(crate) fn new(code: CodeView) -> Self {
        Self {
            list: List::default(),
            function: None,
            annotated: None,
            rows: Vec::new(),
            code,
            hides_numbers: false,
            figure: CodeFigure::default(),
            addresses: AddressView::default(),
            hides_arrow: false,
        }
    }

    /// Shows a function, starting at its hottest instruction.
    pub(crate) fn show(&mut self, function: SymbolId, annotated: AnnotatedFunction) {
        self.function = Some(function);
        self.annotated = Some(annotated);
        self.list = List::default();
        self.lay_out();
        self.go_to_hottest();
    }

    /// Returns the assembly syntax.
    pub(crate) fn syntax(&self) -> Syntax {
        self.code.style
    }

    fn title(&self) -> String {
        self.annotated.as_ref().map_or_else(String::new, |annotated| {
            let name = printable(&annotated.name);
            let path = printable(&annotated.path);
            format!("{name}  {path}  ({} samples)", annotated.own.samples)
        })
    }

    fn lay_out(&mut self) {
        let Some(annotated) = &self.annotated else { return };
        let mut sources = Sources::new(self.code.sources.clone());
        let mut before = None;
        self.rows.clear();
        for (at, line) in annotated.lines.iter().enumerate() {
            let source = line.source.as_ref().filter(|_| !self.code.hides_source);
            if let Some((path, number)) = source.filter(|source| before != Some(*source)) {
                let text = sources.line(path, *number).map_or_else(
                    || format!("{}:{number}", printable(path)),
                    |text| {
                        let text = text.replace('\t', "    ");
                        let text = printable(&text);
                        match (self.code.with_files, self.hides_numbers) {
                            (true, _) => format!("{}:{number}  {text}", printable(path)),
                            (false, true) => text.into_owned(),
                            (false, false) => format!("{number:<5}{text}"),
                        }
                    },
                );
                self.rows.push(CodeRow::Source(text));
            }
            before = source;
            self.rows.push(CodeRow::Instruction(at));
        }
        let item = |(at, row): (usize, &CodeRow)| {
            let key = match row {
                CodeRow::Source(_) => key(5, at),
                CodeRow::Instruction(at) => key(4, at),
            };
            Item { key, kind: LineKind::Row(at), depth: 0, mark: Mark::Leaf }
        };
        self.list.replace(self.rows.iter().enumerate().map(item).collect());
    }

    /// Shows or hides source lines.
    pub(crate) fn toggle_source(&mut self) {
        self.code.hides_source = !self.code.hides_source;
        self.lay_out();
    }

    /// Shows or hides line numbers.
    pub(crate) fn toggle_line_numbers(&mut self) {
        self.hides_numbers = !self.hides_numbers;
        self.lay_out();
    }

    /// Shows or hides file names.
    pub(crate) fn toggle_files(&mut self) {
        self.code.with_files = !self.code.with_files;
        self.lay_out();
    }

    /// Switches between offsets and addresses; returns whether offsets are shown.
    pub(crate) fn toggle_distances(&mut self) -> bool {
        self.addresses.by_distance = !self.addresses.by_distance;
        self.addresses.by_distance
    }

    /// Selects the next level of offsets, and returns its name.
    pub(crate) fn next_level(&mut self) -> &'static str {
        self.addresses.by_distance = true;
        let (level, name) = match self.addresses.level {
            DistanceLevel::JumpedTo => (DistanceLevel::Calls, "at jump targets and calls"),
            DistanceLevel::Calls => (DistanceLevel::All, "at each instruction"),
            DistanceLevel::All => (DistanceLevel::JumpedTo, "at jump targets"),
        };
        self.addresses.level = level;
        name
    }

    /// Switches between addresses and offsets; returns whether addresses are shown.
    pub(crate) fn toggle_whole_addresses(&mut self) -> bool {
        self.addresses.by_distance = true;
        self.addresses.has_whole_addresses = !self.addresses.has_whole_addresses;
        self.addresses.has_whole_addresses
    }

    /// Shows or hides the number of jumps to each instruction.
    pub(crate) fn toggle_jumps(&mut self) {
        self.addresses.with_jumps = !self.addresses.with_jumps;
    }

    /// Shows or hides the jump line; returns whether it is shown.
    pub(crate) fn toggle_arrow(&mut self) -> bool {
        self.hides_arrow = !self.hides_arrow;
        !self.hides_arrow
    }

    /// Switches the base of percentages; returns whether it is all samples.
    pub(crate) fn toggle_of_all(&mut self) -> bool {
        self.code.of_all = !self.code.of_all;
        self.code.of_all
    }

    /// Switches percentages between sample counts and periods; returns whether they are of sample
    /// counts.
    pub(crate) fn toggle_by_samples(&mut self) -> bool {
        self.code.by_samples = !self.code.by_samples;
        self.code.by_samples
    }

    /// Returns an instruction's share in percent.
    fn percent(&self, weight: Weight, annotated: &AnnotatedFunction) -> f64 {
        let whole = if self.code.of_all { annotated.all } else { annotated.own };
        let by_samples = |weight: Weight| Weight { period: weight.samples, ..weight };
        if self.code.by_samples {
            return tare_render::percent(by_samples(weight), by_samples(whole));
        }
        tare_render::percent(weight, whole)
    }

    /// Returns all lines as text.
    pub(crate) fn lines(&self) -> String {
        let mut text = format!("{}\n", self.title());
        let cells = self.rows.iter().map(|row| self.cells(row));
        cells.for_each(|[figure, rest]| text.push_str(&format!("{figure} │{rest}\n")));
        text
    }

    /// Selects the next figure, and returns its name.
    pub(crate) fn next_figure(&mut self) -> &'static str {
        let (figure, name) = match self.figure {
            CodeFigure::Percent => (CodeFigure::Period, "period"),
            CodeFigure::Period => (CodeFigure::Samples, "samples"),
            CodeFigure::Samples => (CodeFigure::Percent, "percentage"),
        };
        self.figure = figure;
        name
    }

    /// Returns the indexes of rows with samples, the hottest first.
    fn by_weight(&self) -> Vec<usize> {
        let weight = |at: &usize| match self.rows.get(*at) {
            Some(CodeRow::Instruction(at)) => self.period(*at),
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

    /// Moves to the hottest instruction.
    pub(crate) fn go_to_hottest(&mut self) {
        self.list.cursor = self.by_weight().first().copied().unwrap_or(self.list.cursor);
    }

    /// Moves to the next or previous instruction by weight.
    pub(crate) fn step_by_weight(&mut self, step: isize) {
        let rows = self.by_weight();
        let at = rows.iter().position(|row| *row == self.list.cursor);
        let next = match at {
            Some(at) => (at + rows.len()).saturating_add_signed(step) % rows.len().max(1),
            None => 0,
        };
        self.list.cursor = rows.get(next).copied().unwrap_or(self.list.cursor);
    }

    /// Moves to the target of the selected jump; returns `false` if the selected instruction
    /// doesn't jump within the function.
    pub(crate) fn follow_jump(&mut self) -> bool {
        let found = self.target();
        self.list.cursor = found.unwrap_or(self.list.cursor);
        found.is_some()
    }

    /// Returns the row that the selected instruction jumps to.
    fn target(&self) -> Option<usize> {
        let CodeRow::Instruction(at) = self.rows.get(self.list.cursor)? else { return None };
        let lines = &self.annotated.as_ref()?.lines;
        let target = lines.get(*at)?.instruction.jump?;
        let is_target = |row: &CodeRow| match row {
            CodeRow::Instruction(at) => {
                lines.get(*at).is_some_and(|line| line.instruction.address == target)
            }
            CodeRow::Source(_) => false,
        };
        self.rows.iter().position(is_target)
    }

    /// Returns a line's text, for the search.
    pub(crate) fn text(&self, item: &Item) -> String {
        let LineKind::Row(at) = item.kind else { return String::new() };
        match (self.rows.get(at), &self.annotated) {
            (Some(CodeRow::Source(text)), _) => text.clone(),
            (Some(CodeRow::Instruction(at)), Some(annotated)) => annotated
                .lines
                .get(*at)
                .map_or_else(String::new, |line| printable(&line.instruction.text).into_owned()),
            _ => String::new(),
        }
    }

    pub(crate) fn draw(&mut self, buffer: &mut Buffer, area: Rect, theme: Theme, search: &str) {
        Pen::new(buffer, area, 0).text(&self.title(), theme.title());
        let below = below_title(area);
        let cursor = self.list.cursor;
        // The rows between a jump and its target.
        let target = self.target().filter(|_| !self.hides_arrow);
        let crossed = target.map_or(0..0, |target| cursor.min(target) + 1..cursor.max(target));
        for (line, (at, item)) in (0..).zip(self.list.window(below.height.into())) {
            let mut pen = Pen::new(buffer, below, line);
            self.draw_line(&mut pen, &item, theme, crossed.contains(&at));
            let is_found = has(&self.text(&item), search);
            pen.mark(below, theme, is_found, at == self.list.cursor);
        }
    }

    fn draw_line(&self, pen: &mut Pen<'_>, item: &Item, theme: Theme, is_crossed: bool) {
        let LineKind::Row(at) = item.kind else { return };
        let Some(annotated) = &self.annotated else { return };
        let Some(row) = self.rows.get(at) else { return };
        let [figure, rest] = self.cells(row);
        let of_figure = match row {
            CodeRow::Source(_) => Style::new(),
            CodeRow::Instruction(at) => {
                let line = annotated.lines.get(*at);
                theme.percent(line.map_or(0.0, |line| self.percent(line.weight, annotated)))
            }
        };
        pen.text(&figure, of_figure).text(" │", Style::new());
        let (mark, text) = rest.split_at(rest.chars().next().map_or(0, char::len_utf8));
        let style = match row {
            CodeRow::Source(_) => theme.title(),
            CodeRow::Instruction(_) => Style::new(),
        };
        pen.text(if is_crossed { "│" } else { mark }, theme.title()).text(text, style);
    }

    /// Returns the cells before and after the vertical bar.
    fn cells(&self, row: &CodeRow) -> [String; 2] {
        let cells = if self.figure == CodeFigure::Period { PERIOD_CELLS } else { PERCENT_CELLS };
        let line = |at: &usize| self.annotated.as_ref()?.lines.get(*at);
        let line = match row {
            CodeRow::Source(text) => return [" ".repeat(cells), format!(" {text}")],
            CodeRow::Instruction(at) => line(at),
        };
        let Some(line) = line else { return [" ".repeat(cells), String::new()] };
        let percent = |annotated| self.percent(line.weight, annotated);
        let figure = match self.figure {
            _ if line.weight.samples == 0 => String::new(),
            CodeFigure::Percent => format!("{:.2}", self.annotated.as_ref().map_or(0.0, percent)),
            CodeFigure::Period => line.weight.period.to_string(),
            CodeFigure::Samples => line.weight.samples.to_string(),
        };
        let instruction = &line.instruction;
        let mark = match (line.jumps_from.is_empty(), instruction.jump) {
            (false, _) => "→",
            (true, Some(to)) if to < instruction.address => "↑",
            (true, Some(_)) => "↓",
            (true, None) => " ",
        };
        let bytes = instruction.bytes.iter().filter(|_| self.code.with_bytes);
        let bytes: Vec<_> = bytes.map(|byte| format!("{byte:02x}")).collect();
        let width = if self.code.with_bytes { BYTES_CELLS } else { 0 };
        let place = self.place(line);
        let text = printable(&instruction.text);
        let rest = format!("{mark}{place}  {:<width$}{text}", bytes.join(" "));
        [format!("{figure:>cells$}"), rest]
    }

    /// Formats an instruction's position and the number of jumps to it.
    fn place(&self, line: &AnnotatedLine) -> String {
        let instruction = &line.instruction;
        let shown = self.addresses;
        let jumps = match line.jumps_from.len() {
            _ if !shown.with_jumps => String::new(),
            0 => " ".repeat(4),
            jumps => format!("{jumps:3} "),
        };
        let is_call = instruction.is_branch && instruction.jump.is_none();
        let has_offset = match shown.level {
            DistanceLevel::JumpedTo => !line.jumps_from.is_empty(),
            DistanceLevel::Calls => !line.jumps_from.is_empty() || is_call,
            DistanceLevel::All => true,
        };
        let first = self.annotated.as_ref().and_then(|annotated| annotated.lines.first());
        let start = first.map_or(0, |line| line.instruction.address);
        let number = match (shown.by_distance, has_offset) {
            (true, false) => return format!("{jumps}       "),
            (true, true) if !shown.has_whole_addresses => instruction.address.wrapping_sub(start),
            _ => instruction.address,
        };
        format!("{jumps}{number:6x}:")
    }
}
