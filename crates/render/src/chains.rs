//! Call chains one by one below the rows of a table: `-g flat` and `-g folded`.

use std::cmp::Reverse;
use std::io::{self, Write};

use tare_profile::{CallTree, Node, Profile, Weight};

use crate::graph::{Graph, Style, frame_name};

/// Writes the chains of a tree that weigh enough, the heaviest first.
pub(crate) fn chains(
    out: &mut dyn Write,
    profile: &Profile,
    tree: &CallTree,
    graph: Graph,
    all: Weight,
) -> io::Result<()> {
    let least = graph.least(all);
    let ends = |node: &&Node| node.own.period > 0 && node.own.period as f64 >= least;
    let mut ending: Vec<_> = tree.nodes().iter().filter(ends).collect();
    ending.sort_by_key(|node| Reverse(node.own.period));
    for node in ending {
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

/// The nodes from the root to one.
fn path<'a>(tree: &'a CallTree, node: &'a Node) -> Vec<&'a Node> {
    let above = |node: &&'a Node| tree.nodes().get(node.parent?);
    let mut path: Vec<_> = std::iter::successors(Some(node), above).collect();
    path.reverse();
    path
}
