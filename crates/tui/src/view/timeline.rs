//! Samples over time, by CPU or by thread.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use tare_format::printable;
use tare_profile::{Profile, Term};

use super::Subject;
use crate::list::{Item, LineKind, List, Mark, key};
use crate::model::{Model, Query, RowKind, RowOwner, Timeline};
use crate::paint::{Pen, Theme, below_title};

/// Cells of the row names at most.
const NAME_CELLS: u16 = 20;

/// Bars from an empty cell to a full one, in eighths.
const LEVELS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The timeline.
#[derive(Default)]
pub(crate) struct TimelineView {
    pub(crate) list: List,
    data: Timeline,
    row_kind: RowKind,
    columns: usize,
    cursor: usize,
    /// First column of the marked range.
    begin: Option<usize>,
    /// Last column of the marked range.
    end: Option<usize>,
    /// Column where a mouse drag started.
    pressed: Option<usize>,
}

impl TimelineView {
    /// Refreshes the columns with the loaded samples, for a screen of this width.
    pub(crate) fn refresh(&mut self, model: &mut Model, query: &Query, cells: u16) {
        self.columns = usize::from(cells.saturating_sub(name_cells(cells) + 1)).max(1);
        self.data = model.timeline(query, self.row_kind, self.columns);
        self.cursor = self.cursor.min(self.columns - 1);
        let item = |(at, (of, _)): (usize, &(RowOwner, Vec<u64>))| Item {
            key: key(3, of),
            kind: LineKind::Row(at),
            depth: 0,
            mark: Mark::Leaf,
        };
        self.list.replace(self.data.rows.iter().enumerate().map(item).collect());
    }

    /// Whether the columns fit a screen of this width.
    pub(crate) fn has_columns_for(&self, cells: u16) -> bool {
        self.columns == usize::from(cells.saturating_sub(name_cells(cells) + 1)).max(1)
    }

    /// Switches between rows by CPU and by thread.
    pub(crate) fn toggle_row_kind(&mut self) {
        self.row_kind = if self.row_kind == RowKind::Cpu { RowKind::Thread } else { RowKind::Cpu };
    }

    /// Moves the cursor along the time axis.
    pub(crate) fn move_cursor(&mut self, columns: isize) {
        self.cursor =
            self.cursor.saturating_add_signed(columns).min(self.columns.saturating_sub(1));
    }

    /// Starts a range at the cursor.
    pub(crate) fn set_begin(&mut self) {
        self.begin = Some(self.cursor);
        self.end = self.end.filter(|end| *end >= self.cursor);
    }

    /// Ends a range at the cursor.
    pub(crate) fn set_end(&mut self) {
        self.end = Some(self.cursor);
        self.begin = self.begin.filter(|begin| *begin <= self.cursor);
    }

    /// Returns the condition of the marked range, or of the selected column, and removes the mark.
    pub(crate) fn take_range(&mut self) -> Term {
        let (begin, end) = match (self.begin.take(), self.end.take()) {
            (None, None) => (self.cursor, self.cursor),
            (begin, end) => (begin.unwrap_or(0), end.unwrap_or(self.columns - 1)),
        };
        let (from_ns, _) = self.data.column(begin, self.columns);
        let (_, to_ns) = self.data.column(end, self.columns);
        self.cursor = 0;
        Term::Time(from_ns, to_ns)
    }

    /// Moves the cursor to a cell.
    pub(crate) fn click(&mut self, column: u16, cells: u16) {
        self.pressed = None;
        if let Some(at) = column.checked_sub(name_cells(cells) + 1) {
            self.cursor = usize::from(at).min(self.columns.saturating_sub(1));
        }
    }

    /// Marks the range between the clicked cell and this one.
    pub(crate) fn drag(&mut self, column: u16, cells: u16) {
        let from = *self.pressed.get_or_insert(self.cursor);
        self.click(column, cells);
        self.pressed = Some(from);
        self.begin = Some(from.min(self.cursor));
        self.end = Some(from.max(self.cursor));
    }

    /// Returns what is under the cursor.
    pub(crate) fn subject(&self) -> Subject {
        let row = self.list.current().and_then(|item| match item.kind {
            LineKind::Row(at) => self.data.rows.get(at),
            _ => None,
        });
        match row.map(|(of, _)| *of) {
            Some(RowOwner::Cpu(cpu)) => Subject { cpu, ..Subject::default() },
            Some(RowOwner::Thread(thread)) => {
                Subject { thread: Some(thread), ..Subject::default() }
            }
            _ => Subject::default(),
        }
    }

    /// Returns a row's name, for the search.
    pub(crate) fn text(&self, profile: &Profile, item: &Item) -> String {
        let LineKind::Row(at) = item.kind else { return String::new() };
        self.data.rows.get(at).map_or_else(String::new, |(of, _)| row_name(profile, *of))
    }

    pub(crate) fn draw(
        &mut self,
        buffer: &mut Buffer,
        area: Rect,
        theme: Theme,
        profile: &Profile,
    ) {
        let (from_ns, to_ns) = self.data.column(self.cursor, self.columns);
        let seconds = |ns: u64| ns.saturating_sub(self.data.from_ns) as f64 / 1e9;
        let all = self.data.rows.first().and_then(|(_, row)| row.get(self.cursor)).copied();
        let title = format!(
            "{:.6} s to {:.6} s of {:.6} s: {}",
            seconds(from_ns),
            seconds(to_ns.saturating_add(1)),
            seconds(self.data.to_ns),
            tare_render::grouped(all.unwrap_or(0)),
        );
        Pen::new(buffer, area, 0).text(&title, theme.title());
        let below = below_title(area);
        let rows = self.data.rows.iter().skip(1).flat_map(|(_, row)| row);
        let most = rows.max().copied().unwrap_or(0);
        let most_of_all = self.data.rows.first().and_then(|(_, row)| row.iter().max().copied());
        for (line, (at, item)) in (0..).zip(self.list.window(below.height.into())) {
            let LineKind::Row(row) = item.kind else { continue };
            let Some((of, weights)) = self.data.rows.get(row) else { continue };
            let style = if at == self.list.cursor { theme.cursor() } else { Style::new() };
            let most = if *of == RowOwner::All { most_of_all.unwrap_or(0) } else { most };
            let mut pen = Pen::new(buffer, below, line);
            pen.field(&row_name(profile, *of), name_cells(area.width).into(), style)
                .text(" ", Style::new());
            for (column, weight) in weights.iter().enumerate() {
                pen.text(bar(*weight, most), self.style(theme, column));
            }
        }
    }

    fn style(&self, theme: Theme, column: usize) -> Style {
        let is_begun = self.begin.is_some() || self.end.is_some();
        let range = self.begin.unwrap_or(0)..=self.end.unwrap_or(usize::MAX);
        if column == self.cursor {
            theme.cursor()
        } else if is_begun && range.contains(&column) {
            theme.bar()
        } else {
            theme.percent(1.0)
        }
    }
}

/// Returns the width of row names on a screen of this width.
fn name_cells(cells: u16) -> u16 {
    NAME_CELLS.min(cells / 4)
}

fn row_name(profile: &Profile, of: RowOwner) -> String {
    match of {
        RowOwner::All => "all".to_owned(),
        RowOwner::Cpu(Some(cpu)) => format!("CPU {cpu}"),
        RowOwner::Cpu(None) => "no CPU recorded".to_owned(),
        RowOwner::Thread(thread) => {
            let comm = profile.last_name(thread).map(|name| printable(profile.string(name)));
            let tid = profile.thread(thread).map_or(-1, |thread| thread.tid);
            format!("{tid} {}", comm.unwrap_or_default())
        }
    }
}

/// Returns the bar of a cell; any weight is visible.
fn bar(weight: u64, most: u64) -> &'static str {
    let eighths = u128::from(weight) * 8 / u128::from(most.max(1));
    let at = usize::try_from(eighths).unwrap_or(8).max(usize::from(weight > 0));
    LEVELS.get(at).copied().unwrap_or("█")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_cells_by_their_share() {
        let bars: Vec<_> = [0, 1, 50, 100].into_iter().map(|weight| bar(weight, 100)).collect();
        assert_eq!(bars, [" ", "▁", "▄", "█"]);
        assert_eq!(bar(0, 0), " ");
    }

    #[test]
    fn columns_cover_the_time_without_gaps() {
        let timeline = Timeline { from_ns: 1000, to_ns: 1099, rows: Vec::new() };
        let columns: Vec<_> = (0..7).map(|column| timeline.column(column, 7)).collect();
        assert_eq!((columns[0].0, columns[6].1), (1000, 1099));
        assert!(columns.windows(2).all(|pair| pair[0].1 + 1 == pair[1].0), "{columns:?}");
    }
}
