//! A tree as text and JSON, and call chains as folded stacks.

use std::io::{self, Write};

use serde_json::{Value, json};
use tare_format::csv_field;

use crate::answer::flame::FlameGraph;
use crate::answer::flame::tree::{CallNode, CallTree, NodeKind, TreePlace};
use crate::answer::write::{VERSION, printable};
use crate::answer::{Cell, weight};

/// Part of an event's weight below which the text has no line.
const SMALLEST_PART: i64 = 200;

impl FlameGraph {
    fn event(&self, kind: NodeKind) -> &str {
        if let NodeKind::Event(event) = kind { self.text(event).unwrap_or_default() } else { "" }
    }

    /// Returns a node's name in text and folded stacks.
    pub(super) fn name(&self, kind: NodeKind) -> String {
        match kind {
            NodeKind::Event(number) | NodeKind::Label(number) => {
                self.text(number).unwrap_or("-").to_owned()
            }
            NodeKind::Reason(number) => {
                format!("off-CPU ({})", self.text(number).unwrap_or_default())
            }
            NodeKind::Frame(frame) => match self.frame(frame) {
                [Some(function), _] => function.to_owned(),
                [None, Some(module)] if module.starts_with('[') => module.to_owned(),
                [None, Some(module)] => {
                    format!("[{}]", module.rsplit('/').next().unwrap_or_default())
                }
                [None, None] => "[unknown]".to_owned(),
            },
        }
    }
}

/// Writes the nodes with at least 1/[`SMALLEST_PART`] of their event's weight.
pub(super) fn text(graph: &FlameGraph, out: &mut dyn Write) -> io::Result<()> {
    let mut event = "";
    let mut all = 0;
    let mut is_followed = false;
    let mut hidden = 0;
    CallTree::new(graph).visit(|TreePlace { node, depth }| {
        if depth == 0 {
            event = graph.event(node.kind);
            all = node.total;
            let gap = if is_followed { "\n" } else { "" };
            is_followed = true;
            writeln!(out, "{gap}# {}", printable(event))?;
            writeln!(out, "  total     weight     self  call chain")?;
            return Ok::<bool, io::Error>(true);
        }
        if node.total.saturating_mul(SMALLEST_PART) < all {
            hidden += 1;
            return Ok(false);
        }
        let share = |part: i64| Cell::Share(part as f64 / all.max(1) as f64).to_text();
        writeln!(
            out,
            "{:>7}  {:>9}  {:>7}  {}{}",
            share(node.total),
            weight(event, node.total).to_text(),
            share(node.own),
            "  ".repeat(depth - 1),
            printable(&graph.name(node.kind))
        )?;
        Ok(true)
    })?;
    if !is_followed {
        writeln!(out, "there are no samples")?;
    } else if hidden > 0 {
        writeln!(out, "\n{hidden} branches below 0.5% aren't shown; --json has all")?;
    }
    Ok(())
}

/// Writes a document with a row for each node, after that of its parent.
pub(super) fn json(graph: &FlameGraph, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{{\n  \"version\": {VERSION},\n  \"question\": \"flame\",\n  \"rows\": [")?;
    let mut rows: usize = 0;
    // Numbers of the nodes from the root to the last one.
    let mut path: Vec<usize> = Vec::new();
    CallTree::new(graph).visit(|TreePlace { node, depth }| {
        path.truncate(depth);
        let gap = if rows == 0 { "\n" } else { ",\n" };
        write!(out, "{gap}    {}", json_row(graph, &node, path.last().copied()))?;
        path.push(rows);
        rows += 1;
        Ok::<bool, io::Error>(true)
    })?;
    writeln!(out, "\n  ],\n  \"remarks\": []\n}}")
}

fn json_row(graph: &FlameGraph, node: &CallNode, parent: Option<usize>) -> Value {
    let (kind, name, module) = match node.kind {
        NodeKind::Event(number) => ("event", graph.text(number), None),
        NodeKind::Label(number) => ("label", graph.text(number), None),
        NodeKind::Reason(number) => ("reason", graph.text(number), None),
        NodeKind::Frame(frame) => {
            let [function, module] = graph.frame(frame);
            ("frame", function, module)
        }
    };
    json!({
        "parent": parent,
        "kind": kind,
        "name": name,
        "module": module,
        "total": node.total,
        "self": node.own,
        "samples": node.samples,
    })
}

/// Writes a line for each call chain, outermost function first.
pub(super) fn csv(graph: &FlameGraph, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "event,stack,samples,weight")?;
    let mut event = String::new();
    // The text from the label to the last node, and its length at each depth.
    let mut stack = String::new();
    let mut lengths: Vec<usize> = Vec::new();
    CallTree::new(graph).visit(|TreePlace { node, depth }| {
        if depth == 0 {
            event = csv_field(graph.event(node.kind));
            return Ok(true);
        }
        stack.truncate(if depth > 1 { lengths[depth - 2] } else { 0 });
        lengths.truncate(depth - 1);
        if depth > 1 {
            stack.push(';');
        }
        stack.push_str(&printable(&graph.name(node.kind)).replace(';', ":"));
        lengths.push(stack.len());
        if node.own != 0 || node.own_samples != 0 {
            writeln!(out, "{event},{},{},{}", csv_field(&stack), node.own_samples, node.own)?;
        }
        Ok::<bool, io::Error>(true)
    })
}
