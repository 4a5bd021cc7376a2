//! Call graphs below the rows of a table, drawn as `perf report --stdio` draws them.

use std::io::{self, Write};

use tare_profile::{CallTree, CallTrees, Entry, Node, Profile, ProfileTable, Weight};

use crate::TableView;
use crate::chains::chains;
use crate::graph::{Graph, Style, frame_name};

/// Columns before a graph.
const MARGIN: usize = 12;

/// Branches within branches that are drawn. A recording can ask for thousands, and each makes all
/// lines below it longer.
const DEEPEST: usize = 256;

/// The graphs of a table's entries. What they have in common is summed up once a table.
pub(crate) struct Graphs<'a> {
    profile: &'a Profile,
    table: &'a ProfileTable,
    graph: Graph,
    trees: CallTrees<'a>,
}

impl<'a> Graphs<'a> {
    /// `None` where the view shows none, or the table has none.
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
        tree(out, self.profile, &chains, self.graph, own, self.table.all)
    }
}

/// Writes the graph of an entry that weighs `own`, and an empty line; nothing where the tree is
/// empty.
fn tree(
    out: &mut dyn Write,
    profile: &Profile,
    tree: &CallTree,
    graph: Graph,
    own: Weight,
    all: Weight,
) -> io::Result<()> {
    if matches!(graph.style, Style::Flat | Style::Folded) {
        return chains(out, profile, tree, graph, all);
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

    /// A node, and those below it as long as no chain ends or branches off. The last one has the
    /// branches.
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

    /// The branches that are drawn, and what the others weigh, where they are shown as one.
    fn shown(&self, nodes: &[usize]) -> (Vec<&'a Node>, Option<Weight>) {
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

    /// Draws nodes, of which shares are those of `whole`. `open` says for each level whether its
    /// line goes on below.
    fn branches(
        &self,
        out: &mut dyn Write,
        nodes: &[usize],
        whole: Weight,
        margin: usize,
        open: &mut Vec<bool>,
    ) -> io::Result<()> {
        let (shown, rest) = self.shown(nodes);
        let mut left = shown.len() + usize::from(rest.is_some());
        for node in shown {
            writeln!(out, "{:margin$}{}", "", lines(open))?;
            if open.len() > DEEPEST {
                return writeln!(out, "{:margin$}{}[more is below]", "", lines(open));
            }
            left -= 1;
            let (trunk, last) = self.trunk(node);
            for (line, node) in trunk.into_iter().enumerate() {
                let name = frame_name(self.profile, node);
                if line == 0 {
                    let value = self.graph.amount.text(node.total, whole);
                    let text = format!("{value}--{name}");
                    first_line(out, &text, margin, left == 0, open)?;
                } else {
                    writeln!(out, "{:margin$}{}{name}", "", lines(open))?;
                }
            }
            let whole = if self.graph.style == Style::Fractal { below(self, last) } else { whole };
            open.push(true);
            self.branches(out, &last.children, whole, margin, open)?;
            open.pop();
        }
        if let Some(rest) = rest {
            writeln!(out, "{:margin$}{}", "", lines(open))?;
            let text = format!("{}--[...]", self.graph.amount.text(rest, whole));
            first_line(out, &text, margin, true, open)?;
        }
        Ok(())
    }
}

/// Writes the line of a branch with its value and name.
fn first_line(
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

/// What the children of a node weigh.
fn below(drawing: &Drawing<'_>, node: &Node) -> Weight {
    let mut sum = Weight::default();
    let children = node.children.iter().filter_map(|at| drawing.node(*at));
    children.for_each(|child| sum.add(child.total));
    sum
}

/// What stands before the names of a level: a line for each level above that goes on.
fn lines(open: &[bool]) -> String {
    open.iter().map(|is_open| if *is_open { "|          " } else { "           " }).collect()
}
