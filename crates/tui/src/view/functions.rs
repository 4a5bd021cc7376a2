//! The function table: a row per combination of sort keys, with call chains below it.

use std::collections::HashMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use tare_profile::{CallTree, Entry, FunctionKey, Profile, SortKey};
use tare_render::{Column, TableView, percent};

use super::{Subject, node_name, space};
use crate::list::{Item, LineKind, List, Mark, Nodes, key};
use crate::model::{Functions, Model, Query};
use crate::paint::{Pen, Theme, has, skip_cells, width};

/// Number of rows that determine the column widths.
const MEASURED_ROWS: usize = 1000;

/// Parent key of rows, which have no line above them.
const ROWS: u64 = 1;

pub(crate) struct FunctionsView {
    /// Columns, order and limits.
    pub(crate) view: TableView,
    pub(crate) list: List,
    pub(crate) titles: bool,
    pub(crate) verbose: bool,
    /// Cells of names scrolled off to the left.
    pub(crate) shift: usize,
    /// The default order.
    usual: Vec<Column>,
    is_reversed: bool,
    data: Option<Functions>,
    trees: HashMap<usize, CallTree>,
    widths: Vec<usize>,
}

impl FunctionsView {
    pub(crate) fn new(view: TableView) -> Self {
        Self {
            usual: view.order.clone(),
            view,
            list: List::default(),
            titles: true,
            verbose: false,
            shift: 0,
            is_reversed: false,
            data: None,
            trees: HashMap::new(),
            widths: Vec::new(),
        }
    }

    /// Replaces columns, order and limits.
    pub(crate) fn set_columns(&mut self, view: TableView) {
        self.usual.clone_from(&view.order);
        self.view = view;
    }

    /// Refreshes the rows with the loaded samples.
    pub(crate) fn refresh(&mut self, model: &mut Model, query: &Query) {
        self.data = model.functions(query, &self.view);
        if let Some(data) = self.data.as_mut().filter(|_| self.is_reversed) {
            data.table.entries.reverse();
        }
        self.trees.clear();
        self.widths = self.measure_columns(model.profile());
        self.lay_out(model.profile());
    }

    /// Lays the lines out again after something was expanded or collapsed.
    fn lay_out(&mut self, profile: &Profile) {
        let Some(data) = &self.data else { return };
        let mut items = Vec::new();
        for (at, entry) in data.table.entries.iter().enumerate() {
            let key = row_key(profile, entry);
            let is_open = self.view.graph.is_some() && self.list.is_open(key);
            let mark = Mark::for_row(self.view.graph.is_some() && entry.depth > 0, is_open);
            items.push(Item { key, kind: LineKind::Row(at), depth: 0, mark });
            if mark == Mark::Open {
                let tree = self
                    .trees
                    .entry(at)
                    .or_insert_with(|| call_tree(data, profile, at, &self.view));
                let nodes = Nodes { profile, tree, number: at, parent: key };
                nodes.add(&self.list, &mut items, 1);
            }
        }
        self.list.replace(items);
    }

    /// Expands or collapses the selected line; returns `false` if nothing is below it.
    pub(crate) fn toggle(&mut self, profile: &Profile) -> bool {
        let Some(item) = self.list.current().copied() else { return false };
        match item.mark {
            Mark::Leaf => return false,
            Mark::Closed => self.open(profile, &item, false),
            Mark::Open => self.close(profile),
        }
        true
    }

    /// Expands one level; with `all`, expands or collapses the whole row.
    pub(crate) fn expand(&mut self, profile: &Profile, all: bool) {
        let mut at = self.list.cursor;
        if all {
            let is_row = |item: &Item| matches!(item.kind, LineKind::Row(_));
            while at > 0 && !self.list.items.get(at).is_some_and(is_row) {
                at -= 1;
            }
        }
        match self.list.items.get(at).copied() {
            Some(item) if all && item.mark == Mark::Open => {
                self.list.cursor = at;
                self.close(profile);
            }
            Some(item) => self.open(profile, &item, all),
            None => {}
        }
    }

    fn open(&mut self, profile: &Profile, item: &Item, all: bool) {
        let Some(data) = &self.data else { return };
        let (LineKind::Row(at) | LineKind::Node(at, _)) = item.kind else { return };
        let tree = self.trees.entry(at).or_insert_with(|| call_tree(data, profile, at, &self.view));
        match item.kind {
            LineKind::Node(..) => {
                let nodes = Nodes { profile, tree, number: at, parent: item.key };
                nodes.open(&mut self.list, item, all);
            }
            _ => {
                self.list.open(item.key, true);
                let nodes = Nodes { profile, tree, number: at, parent: item.key };
                nodes.open_roots(&mut self.list, all);
            }
        }
        self.lay_out(profile);
    }

    /// Collapses the selected line or, if it isn't expanded, its parent.
    pub(crate) fn close(&mut self, profile: &Profile) {
        self.list.close();
        self.lay_out(profile);
    }

    /// Expands or collapses everything.
    pub(crate) fn open_all(&mut self, profile: &Profile, open: bool) {
        self.list.open_all(open);
        self.lay_out(profile);
    }

    /// Sorts by the next column, and returns its name.
    pub(crate) fn sort_by_next(&mut self) -> &'static str {
        let columns = &self.view.columns;
        let now = self.view.order.first().and_then(|by| columns.iter().position(|at| at == by));
        let next = now.map_or(0, |now| (now + 1) % columns.len().max(1));
        columns.get(next).copied().map_or("", |by| self.sort_by(by))
    }

    /// Sorts by the column whose title is in a cell, or reverses the order if it already is the
    /// sort column.
    pub(crate) fn sort_at(&mut self, cell: u16, cells: u16) -> Option<&'static str> {
        // Two cells before the first column hold the sign of expandable rows.
        let mut end = 2;
        let columns = self.columns(cells);
        let found = columns.iter().find(|(_, width)| {
            let begin = end;
            end += width + 2;
            (begin..end).contains(&usize::from(cell))
        });
        let by = found?.0;
        if self.view.order.first() == Some(&by) {
            self.reverse();
        }
        Some(self.sort_by(by))
    }

    fn sort_by(&mut self, by: Column) -> &'static str {
        let rest = self.usual.iter().copied().filter(|column| *column != by);
        self.view.order = std::iter::once(by).chain(rest).collect();
        by.title(self.view.children).trim()
    }

    /// Reverses the order.
    pub(crate) fn reverse(&mut self) {
        self.is_reversed = !self.is_reversed;
    }

    /// Returns what is under the cursor.
    pub(crate) fn subject(&self) -> Subject {
        let Some(data) = &self.data else { return Subject::default() };
        let Some(item) = self.list.current() else { return Subject::default() };
        let (LineKind::Row(row) | LineKind::Node(row, _)) = item.kind else {
            return Subject::default();
        };
        let Some(entry) = data.table.entries.get(row) else { return Subject::default() };
        let has = |key| data.table.keys.contains(&key);
        let frame = match item.kind {
            LineKind::Node(_, at) => {
                self.trees.get(&row).and_then(|tree| Some(tree.nodes().get(at)?.frame))
            }
            _ => entry.frame.filter(|_| has(SortKey::Symbol) || has(SortKey::Dso)),
        };
        Subject {
            frame,
            thread: entry.task.thread.filter(|_| has(SortKey::Tid) || has(SortKey::Tgid)),
            comm: entry.task.comm.filter(|_| has(SortKey::Comm)),
            cpu: entry.task.cpu.filter(|_| has(SortKey::Cpu)),
            stack: Vec::new(),
        }
    }

    /// Returns a line's text, for the search.
    pub(crate) fn text(&self, profile: &Profile, item: &Item) -> String {
        let Some(data) = &self.data else { return String::new() };
        match item.kind {
            LineKind::Row(at) => data.table.entries.get(at).map_or_else(String::new, |entry| {
                let keys =
                    self.view.columns.iter().filter(|column| matches!(column, Column::Key(_)));
                let texts = keys.map(|column| column.text(profile, &data.table, entry));
                texts.collect::<Vec<_>>().join(" ")
            }),
            LineKind::Node(row, at) => {
                let node = self.trees.get(&row).and_then(|tree| tree.nodes().get(at));
                node.map_or_else(String::new, |node| node_name(profile, node.frame, self.verbose))
            }
            LineKind::Heading(_) => String::new(),
        }
    }

    /// Returns the columns' widths in cells.
    fn measure_columns(&self, profile: &Profile) -> Vec<usize> {
        let Some(data) = &self.data else { return Vec::new() };
        let measure = |column: &Column| {
            let title = width(column.title(self.view.children));
            if let Some(width) = column.percentage_width() {
                return title.max(width);
            }
            let texts = data.table.entries.iter().take(MEASURED_ROWS);
            let cells = texts.map(|entry| width(&column.text(profile, &data.table, entry)));
            cells.max().unwrap_or(0).max(title).max(column.figure_width().unwrap_or(0))
        };
        self.view.columns.iter().map(measure).collect()
    }

    /// Returns the columns to draw, with their widths. If not all fit, each name column but the
    /// last gets at most 3/14 of the width; on a screen below 60 cells it is left out.
    fn columns(&self, cells: u16) -> Vec<(Column, usize)> {
        let cells = usize::from(cells);
        let columns: Vec<_> =
            self.view.columns.iter().copied().zip(self.widths.iter().copied()).collect();
        let needed: usize = columns.iter().map(|(_, width)| width + 2).sum();
        let last = columns.len().saturating_sub(1);
        let keep = |(at, (column, width)): (usize, &(Column, usize))| {
            let is_name = column.figure_width().is_none();
            let is_shown = needed <= cells || cells >= 60 || !is_name || at == last;
            let width = if is_name && at != last && needed > cells {
                // Wide enough for the kernel's name from 80 cells on.
                (*width).min(cells * 3 / 14)
            } else {
                *width
            };
            is_shown.then_some((*column, width))
        };
        columns.iter().enumerate().filter_map(keep).collect()
    }

    pub(crate) fn draw(
        &mut self,
        buffer: &mut Buffer,
        mut area: Rect,
        theme: Theme,
        profile: &Profile,
        search: &str,
    ) {
        let columns = self.columns(area.width);
        if self.titles && area.height > 1 {
            let mut pen = Pen::new(buffer, area, 0);
            pen.text("  ", theme.title());
            for (column, width) in &columns {
                let title = column.title(self.view.children);
                let is_first = self.view.order.first() == Some(column);
                let sign = if is_first && !self.is_reversed {
                    "▼"
                } else if is_first {
                    "▲"
                } else {
                    " "
                };
                let title = format!("{}{sign}", title.trim());
                match column.figure_width() {
                    Some(_) => pen.right(&title, width + 1, theme.title()),
                    None => pen.field(&title, width + 1, theme.title()),
                };
                pen.text(" ", theme.title());
            }
            area = Rect { y: area.y + 1, height: area.height - 1, ..area };
        }
        for (line, (at, item)) in (0..).zip(self.list.window(area.height.into())) {
            let mut pen = Pen::new(buffer, area, line);
            self.draw_line(&mut pen, &item, theme, profile, &columns);
            let is_found = has(&self.text(profile, &item), search);
            pen.mark(area, theme, is_found, at == self.list.cursor);
        }
    }

    fn draw_line(
        &self,
        pen: &mut Pen<'_>,
        item: &Item,
        theme: Theme,
        profile: &Profile,
        columns: &[(Column, usize)],
    ) {
        let Some(data) = &self.data else { return };
        match item.kind {
            LineKind::Row(at) => {
                let Some(entry) = data.table.entries.get(at) else { return };
                pen.text(item.mark.sign(), ratatui::style::Style::new())
                    .text(" ", Default::default());
                for (column, width) in columns {
                    let text = column.text(profile, &data.table, entry);
                    let style = self.style(*column, entry, theme, profile);
                    match column.figure_width() {
                        Some(_) => pen.right(&text, *width, style),
                        None => pen.field(skip_cells(&text, self.shift), *width, style),
                    };
                    pen.text("  ", Default::default());
                }
            }
            LineKind::Node(row, at) => {
                let node = self.trees.get(&row).and_then(|tree| tree.nodes().get(at));
                let Some(node) = node else { return };
                let share = percent(node.total, data.table.all);
                let indent = (item.depth * 2 + 4).min(pen.room() / 2);
                pen.text(&" ".repeat(indent), Default::default());
                pen.text(item.mark.sign(), Default::default());
                pen.text(&format!(" {share:.2}% "), theme.percent(share));
                let name = node_name(profile, node.frame, self.verbose);
                let style = theme.space(space(profile, Some(node.frame)));
                pen.text(skip_cells(&name, self.shift), style);
            }
            LineKind::Heading(_) => {}
        }
    }

    fn style(
        &self,
        column: Column,
        entry: &Entry,
        theme: Theme,
        profile: &Profile,
    ) -> ratatui::style::Style {
        let Some(data) = &self.data else { return Default::default() };
        match column {
            Column::Children => theme.percent(percent(entry.total, data.table.all)),
            Column::Overhead => theme.percent(percent(entry.own(), data.table.all)),
            Column::Key(SortKey::Symbol) => theme.space(space(profile, entry.frame)),
            _ => Default::default(),
        }
    }
}

/// Returns the call tree of a row.
fn call_tree(data: &Functions, profile: &Profile, at: usize, view: &TableView) -> CallTree {
    let Some(entry) = data.table.entries.get(at) else { return CallTree::default() };
    let Some(graph) = view.graph else { return CallTree::default() };
    let least = data.table.all.period as f64 * graph.percent_limit / 100.0;
    let trees = data.table.call_trees(profile, least.min(entry.total.period as f64));
    trees.map_or_else(CallTree::default, |mut trees| data.table.call_tree(&mut trees, entry))
}

fn row_key(profile: &Profile, entry: &Entry) -> u64 {
    let function = FunctionKey::at_frame(profile, entry.frame);
    key(ROWS, (entry.task.comm, entry.task.thread, entry.task.cpu, entry.task.trace, function))
}
