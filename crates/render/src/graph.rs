//! The options of call graphs in tables.

use tare_format::printable;
use tare_profile::{FunctionKey, Node, Order, Profile, Weight};

use crate::column::{inlined, percent};

/// How call graphs are built and displayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graph {
    /// Which end of the call chains is the root.
    pub order: Order,
    /// Branches below this percentage of all samples (with [`Style::Fractal`] of the parent branch)
    /// are left out.
    pub percent_limit: f64,
    /// Whether the first function of a tree with a single root is left out, as in perf. With
    /// [`Order::Callee`] the row names it. [`Style::Flat`] and [`Style::Folded`] ignore this.
    pub skips_first: bool,
    /// Their form.
    pub style: Style,
    /// The figure at each branch.
    pub amount: Amount,
}

/// The form of a call graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A tree, with shares of all samples.
    #[default]
    Graph,
    /// A tree, with shares of the parent branch; the limit refers to the parent too.
    Fractal,
    /// Separate chains, one frame per line.
    Flat,
    /// Separate chains, each on one line.
    Folded,
}

/// The figure at a branch of a call graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// Its share of the weight.
    #[default]
    Percent,
    /// The sum of its periods.
    Period,
    /// The number of its samples.
    Count,
}

impl Amount {
    /// Formats the figure.
    pub(crate) fn text(self, part: Weight, all: Weight) -> String {
        match self {
            Self::Percent => format!("{:.2}%", percent(part, all)),
            Self::Period => part.period.to_string(),
            Self::Count => part.samples.to_string(),
        }
    }
}

impl Graph {
    /// Returns the smallest period of a branch that is kept when trees are built.
    pub(crate) fn least(&self, all: Weight) -> f64 {
        if self.style == Style::Fractal {
            // The limit refers to the parent branch, so it is applied when the tree is drawn.
            return 0.0;
        }
        (all.period as f64 * self.percent_limit / 100.0).floor()
    }
}

/// Returns the name of a node, safe to print on a terminal.
pub(crate) fn frame_name(profile: &Profile, node: &Node) -> String {
    match FunctionKey::at_frame(profile, Some(node.frame)) {
        FunctionKey::Named(symbol) => profile.symbol(symbol).map_or_else(String::new, |symbol| {
            let name = printable(profile.string(symbol.name)).into_owned();
            name + inlined(profile, Some(node.frame))
        }),
        _ => profile.frame(node.frame).map_or_else(
            || "[unknown]".into(),
            |frame| if frame.address == 0 { "0".into() } else { format!("{:#x}", frame.address) },
        ),
    }
}
