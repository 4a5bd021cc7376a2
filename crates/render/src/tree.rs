//! Call graphs below the rows of a table, drawn as `perf report --stdio` draws them.

use std::io::{self, Write};

use tare_profile::{CallTree, Function, Node, Order, Profile, Weight};

use crate::column::{inlined, percent};
use tare_format::printable;

/// Which call graphs are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graph {
    /// Which end of the stacks is the root.
    pub order: Order,
    /// Branches that weigh less than so many percent of all samples are left out.
    pub percent_limit: f64,
    /// Leave out the first function where it is the only one: the row has named it.
    pub skips_first: bool,
}

impl Graph {
    /// The least period of a branch that is shown.
    pub(crate) fn least(&self, all: Weight) -> f64 {
        (all.period as f64 * self.percent_limit / 100.0).floor()
    }
}

/// Columns before a graph.
const MARGIN: usize = 12;

/// Branches within branches that are drawn. A recording can ask for thousands, and each makes all
/// lines below it longer.
const DEEPEST: usize = 256;

/// Writes the graph of an entry that weighs `own`, and an empty line; nothing where the tree is
/// empty.
pub(crate) fn tree(
    out: &mut dyn Write,
    profile: &Profile,
    tree: &CallTree,
    graph: Graph,
    own: Weight,
    all: Weight,
) -> io::Result<()> {
    let drawing = Drawing { profile, tree, all };
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
                writeln!(out, "{:margin$}{}", "", drawing.name(node))?;
            } else {
                writeln!(out, "{:margin$}|\n{:margin$}---{}", "", "", drawing.name(node))?;
                margin += 3;
                written = true;
            }
        }
        roots = &last.children;
    }
    written |= !roots.is_empty();
    drawing.branches(out, roots, margin, &mut vec![true])?;
    if written { writeln!(out) } else { Ok(()) }
}

struct Drawing<'a> {
    profile: &'a Profile,
    tree: &'a CallTree,
    all: Weight,
}

impl<'a> Drawing<'a> {
    fn node(&self, at: usize) -> Option<&'a Node> {
        self.tree.nodes().get(at)
    }

    fn name(&self, node: &Node) -> String {
        let frame = self.profile.frame(node.frame);
        match Function::of(self.profile, Some(node.frame)) {
            Function::Named(symbol) => {
                self.profile.symbol(symbol).map_or_else(String::new, |symbol| {
                    let name = printable(self.profile.string(symbol.name)).into_owned();
                    name + inlined(self.profile, Some(node.frame))
                })
            }
            _ => frame.map_or_else(
                || "[unknown]".into(),
                |frame| {
                    if frame.address == 0 { "0".into() } else { format!("{:#x}", frame.address) }
                },
            ),
        }
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

    /// `open` says for each level whether its line goes on below.
    fn branches(
        &self,
        out: &mut dyn Write,
        nodes: &[usize],
        margin: usize,
        open: &mut Vec<bool>,
    ) -> io::Result<()> {
        for (place, at) in nodes.iter().enumerate() {
            let Some(node) = self.node(*at) else { continue };
            writeln!(out, "{:margin$}{}", "", lines(open))?;
            if open.len() > DEEPEST {
                return writeln!(out, "{:margin$}{}[more is below]", "", lines(open));
            }
            if let Some(last) = open.last_mut().filter(|_| place + 1 == nodes.len()) {
                *last = false;
            }
            let (trunk, last) = self.trunk(node);
            for (line, node) in trunk.into_iter().enumerate() {
                let name = self.name(node);
                if line == 0 {
                    let (upper, is_open) =
                        (lines(&open[..open.len() - 1]), open.last() == Some(&true));
                    let value = format!("{:.2}%", percent(node.total, self.all));
                    writeln!(
                        out,
                        "{:margin$}{upper}{}--{value}--{name}",
                        "",
                        if is_open { '|' } else { ' ' }
                    )?;
                } else {
                    writeln!(out, "{:margin$}{}{name}", "", lines(open))?;
                }
            }
            open.push(true);
            self.branches(out, &last.children, margin, open)?;
            open.pop();
        }
        Ok(())
    }
}

/// What stands before the names of a level: a line for each level above that goes on.
fn lines(open: &[bool]) -> String {
    open.iter().map(|is_open| if *is_open { "|          " } else { "           " }).collect()
}
