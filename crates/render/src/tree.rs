//! Call graphs below the rows of a table, as in `perf report --stdio`.

use std::io::{self, Write};

use tare_profile::{CallTree, CallTrees, Entry, Node, Profile, ProfileTable, Weight};

use crate::TableView;
use crate::chains::write_chains;
use crate::graph::{Graph, Style, frame_name};

/// Cells before a graph.
const MARGIN: usize = 12;

/// Maximum depth of branches. A recording may have thousands, and each makes all lines below it
/// longer.
const MAX_DEPTH: usize = 256;

/// Draws the graphs of a table's entries. Each entry's tree is built when it is written; the
/// builder's memory is shared.
pub(crate) struct Graphs<'a> {
    profile: &'a Profile,
    table: &'a ProfileTable,
    graph: Graph,
    trees: CallTrees<'a>,
}

impl<'a> Graphs<'a> {
    /// Returns `None` if the view shows no graphs, or the table has none.
    pub(crate) fn new(
        profile: &'a Profile,
        table: &'a ProfileTable,
        view: &TableView,
    ) -> Option<Self> {
        let graph = view.graph?;
        let trees = table.call_trees(profile, graph.least(table.all))?;
        Some(Self { profile, table, graph, trees })
    }

    /// Writes the graph of an entry whose shares are of `own`.
    pub(crate) fn write(
        &mut self,
        out: &mut dyn Write,
        entry: &Entry,
        own: Weight,
    ) -> io::Result<()> {
        let chains = self.table.call_tree(&mut self.trees, entry);
        write_tree(out, self.profile, &chains, self.graph, own, self.table.all)
    }
}

/// Writes the graph of an entry with the weight `own`, and an empty line; nothing if the tree is
/// empty.
fn write_tree(
    out: &mut dyn Write,
    profile: &Profile,
    tree: &CallTree,
    graph: Graph,
    own: Weight,
    all: Weight,
) -> io::Result<()> {
    if matches!(graph.style, Style::Flat | Style::Folded) {
        return write_chains(out, profile, tree, graph, all);
    }
    let whole = if graph.style == Style::Fractal { own } else { all };
    let drawing = Drawing { profile, tree, graph };
    let mut roots = tree.roots();
    let mut margin = MARGIN;
    let mut written = false;
    let only = if let [only] = roots {
        tree.nodes().get(*only).filter(|node| node.total.period == own.period)
    } else {
        None
    };
    if let Some(only) = only {
        let (trunk, last) = drawing.trunk(only);
        for node in trunk.into_iter().skip(usize::from(graph.skips_first)) {
            if written {
                writeln!(out, "{:margin$}{}", "", frame_name(profile, node))?;
            } else {
                writeln!(out, "{:margin$}|\n{:margin$}---{}", "", "", frame_name(profile, node))?;
                margin += 3;
                written = true;
            }
        }
        roots = &last.children;
    }
    written |= !roots.is_empty();
    drawing.branches(out, roots, whole, margin, &mut vec![true])?;
    if written { writeln!(out) } else { Ok(()) }
}

struct Drawing<'a> {
    profile: &'a Profile,
    tree: &'a CallTree,
    graph: Graph,
}

impl<'a> Drawing<'a> {
    fn node(&self, at: usize) -> Option<&'a Node> {
        self.tree.nodes().get(at)
    }

    /// Returns a node with the nodes below it up to the first at which a chain ends or branches
    /// off, and that last node.
    fn trunk(&self, first: &'a Node) -> (Vec<&'a Node>, &'a Node) {
        let mut trunk = vec![first];
        let mut last = first;
        while let [child] = last.children.as_slice()
            && let Some(child) = self.node(*child).filter(|child| child.total == last.total)
        {
            trunk.push(child);
            last = child;
        }
        (trunk, last)
    }

    /// Returns the branches to draw, and the weight of the others if these are drawn as one.
    fn select_branches(&self, nodes: &[usize]) -> (Vec<&'a Node>, Option<Weight>) {
        let nodes = || nodes.iter().filter_map(|at| self.node(*at));
        if self.graph.style != Style::Fractal {
            return (nodes().collect(), None);
        }
        let mut sum = Weight::default();
        nodes().for_each(|node| sum.add(node.total));
        let least = (sum.period as f64 * self.graph.percent_limit / 100.0).ceil();
        let (shown, others): (Vec<_>, Vec<_>) =
            nodes().partition(|node| node.total.period as f64 >= least);
        let mut rest = Weight::default();
        others.iter().for_each(|node| rest.add(node.total));
        let rest = Some(rest).filter(|rest| rest.samples > 0 && !shown.is_empty());
        (shown, rest)
    }

    /// Draws nodes with shares of `whole`. `open` holds for each level whether its line continues
    /// below.
    fn branches(
        &self,
        out: &mut dyn Write,
        nodes: &[usize],
        whole: Weight,
        margin: usize,
        open: &mut Vec<bool>,
    ) -> io::Result<()> {
        let (shown, rest) = self.select_branches(nodes);
        let mut left = shown.len() + usize::from(rest.is_some());
        for node in shown {
            writeln!(out, "{:margin$}{}", "", lines(open))?;
            if open.len() > MAX_DEPTH {
                return writeln!(out, "{:margin$}{}[deeper branches left out]", "", lines(open));
            }
            left -= 1;
            let (trunk, last) = self.trunk(node);
            for (line, node) in trunk.into_iter().enumerate() {
                let name = frame_name(self.profile, node);
                if line == 0 {
                    let value = self.graph.amount.text(node.total, whole);
                    let text = format!("{value}--{name}");
                    write_first_line(out, &text, margin, left == 0, open)?;
                } else {
                    writeln!(out, "{:margin$}{}{name}", "", lines(open))?;
                }
            }
            let whole =
                if self.graph.style == Style::Fractal { weight_below(self, last) } else { whole };
            open.push(true);
            self.branches(out, &last.children, whole, margin, open)?;
            open.pop();
        }
        if let Some(rest) = rest {
            writeln!(out, "{:margin$}{}", "", lines(open))?;
            let text = format!("{}--[...]", self.graph.amount.text(rest, whole));
            write_first_line(out, &text, margin, true, open)?;
        }
        Ok(())
    }
}

/// Writes the line of a branch with its value and name.
fn write_first_line(
    out: &mut dyn Write,
    text: &str,
    margin: usize,
    is_last: bool,
    open: &mut [bool],
) -> io::Result<()> {
    if let Some(last) = open.last_mut().filter(|_| is_last) {
        *last = false;
    }
    let upper = lines(&open[..open.len() - 1]);
    let begin = if open.last() == Some(&true) { '|' } else { ' ' };
    writeln!(out, "{:margin$}{upper}{begin}--{text}", "")
}

/// Returns the weight of a node's children.
fn weight_below(drawing: &Drawing<'_>, node: &Node) -> Weight {
    let mut sum = Weight::default();
    let children = node.children.iter().filter_map(|at| drawing.node(*at));
    children.for_each(|child| sum.add(child.total));
    sum
}

/// Returns the text before the names of a level: a line for each level that continues.
fn lines(open: &[bool]) -> String {
    open.iter().map(|is_open| if *is_open { "|          " } else { "           " }).collect()
}
