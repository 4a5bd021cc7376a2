//! Call chains of two sides as one tree, for whoever draws it otherwise.

use super::graph::Graph;

/// A function in the call chains of two sides. Before it stand its caller and its heavier siblings
/// with all that they call.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparedNode {
    /// The place of its caller; the first node, which stands for all chains, has its own.
    pub parent: usize,
    /// How many functions are above it.
    pub depth: u32,
    /// The function's name, printable.
    pub name: String,
    /// Its file, printable.
    pub dso: String,
    /// The part of an event's weight that goes through it in what is compared with: 0 to 1.
    pub before: f64,
    /// The same in the first side of the graph.
    pub now: f64,
}

impl Graph {
    /// What goes through each function in an event of this name, without what has less than `least`
    /// on both sides.
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
