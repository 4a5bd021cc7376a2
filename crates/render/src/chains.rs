//! Separate call chains below the rows of a table: `-g flat` and `-g folded`.

use std::cmp::Reverse;
use std::io::{self, Write};

use tare_profile::{CallTree, Node, Profile, Weight};

use crate::graph::{Graph, Style, frame_name};

/// Writes the chains of a tree that reach the graph's limit, the heaviest first.
pub(crate) fn write_chains(
    out: &mut dyn Write,
    profile: &Profile,
    tree: &CallTree,
    graph: Graph,
    all: Weight,
) -> io::Result<()> {
    let least = graph.least(all);
    let is_end = |node: &&Node| node.own.period > 0 && node.own.period as f64 >= least;
    let mut ends: Vec<_> = tree.nodes().iter().filter(is_end).collect();
    ends.sort_by_key(|node| Reverse(node.own.period));
    for node in ends {
        let value = graph.amount.text(node.own, all);
        let names = path(tree, node).into_iter().map(|node| frame_name(profile, node));
        if graph.style == Style::Folded {
            writeln!(out, "{value} {}", names.collect::<Vec<_>>().join(";"))?;
            continue;
        }
        writeln!(out, "{:11}{value}", "")?;
        names
            .map(|name| format!("{:16}{name}", ""))
            .try_for_each(|line| writeln!(out, "{line}"))?;
        writeln!(out)?;
    }
    Ok(())
}

/// Returns the nodes from the root to this one.
fn path<'a>(tree: &'a CallTree, node: &'a Node) -> Vec<&'a Node> {
    let above = |node: &&'a Node| tree.nodes().get(node.parent?);
    let mut path: Vec<_> = std::iter::successors(Some(node), above).collect();
    path.reverse();
    path
}
