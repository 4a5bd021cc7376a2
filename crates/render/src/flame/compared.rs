//! The call chains of two sides as one tree, for the terminal.

use super::graph::Graph;

/// A function in the call chains of two sides. Its caller, and heavier siblings with their callees,
/// precede it in the list.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedNode {
    /// The index of its caller. The first node is the root of all chains and its own caller.
    pub parent: usize,
    /// Its depth; 0 for the root.
    pub depth: u32,
    /// The function's name, printable.
    pub name: String,
    /// Its file, printable.
    pub dso: String,
    /// Its share of the event's weight in the second side, with callees: 0 to 1.
    pub before: f64,
    /// Its share in the first side, with callees: 0 to 1.
    pub now: f64,
}

impl Graph {
    /// Returns the call chains of an event with this name, without functions whose share is below
    /// `least` on both sides; empty if there is no such event.
    #[must_use]
    pub fn compared(&self, event: &str, least: f64) -> Vec<ComparedNode> {
        let Some(at) = self.events.iter().position(|one| one.name == event) else {
            return Vec::new();
        };
        let shares = |side: usize| {
            let all = self.events[at].all[side].period.max(1) as f64;
            let totals = self.totals(side, at).into_iter();
            totals.map(|total| total.period as f64 / all).collect::<Vec<_>>()
        };
        let now = shares(0);
        let before = shares(1);
        let mut places = vec![None; self.nodes.len()];
        let mut nodes = Vec::new();
        for (place, node) in self.nodes.iter().enumerate() {
            let is_kept = now[place].max(before[place]) >= least;
            let Some(parent) = (if place == 0 { Some(0) } else { places[node.parent] }) else {
                continue;
            };
            if place == 0 || is_kept {
                let function = &self.functions[node.function];
                places[place] = Some(nodes.len());
                let name = function.name.clone();
                let dso = function.dso.clone();
                let before = before[place];
                let now = now[place];
                nodes.push(ComparedNode { parent, depth: node.depth, name, dso, before, now });
            }
        }
        nodes
    }
}
