//! Which call graphs are shown, and what stands in them.

use tare_format::printable;
use tare_profile::{FunctionKey, Node, Order, Profile, Weight};

use crate::column::{inlined, percent};

/// Which call graphs are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Graph {
    /// Which end of the stacks is the root.
    pub order: Order,
    /// Branches below this percentage of all samples are left out.
    pub percent_limit: f64,
    /// Leave out the first function where it is the only one: the row has named it.
    pub skips_first: bool,
    /// In which form.
    pub style: Style,
    /// What stands at a branch.
    pub amount: Amount,
}

/// The form of a call graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// A tree, with shares of all samples.
    #[default]
    Graph,
    /// A tree, with shares of the branch above. The limit is a share of that too.
    Fractal,
    /// Each chain by itself, a frame a line.
    Flat,
    /// Each chain by itself, in one line.
    Folded,
}

/// What stands at a branch of a call graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Amount {
    /// Its share.
    #[default]
    Percent,
    /// The sum of its periods.
    Period,
    /// The number of its samples.
    Count,
}

impl Amount {
    /// What stands at a branch.
    pub(crate) fn text(self, part: Weight, all: Weight) -> String {
        match self {
            Self::Percent => format!("{:.2}%", percent(part, all)),
            Self::Period => part.period.to_string(),
            Self::Count => part.samples.to_string(),
        }
    }
}

impl Graph {
    /// The least period of a branch that is shown.
    pub(crate) fn least(&self, all: Weight) -> f64 {
        if self.style == Style::Fractal {
            // Shares of the branch above are known when that is there.
            return 0.0;
        }
        (all.period as f64 * self.percent_limit / 100.0).floor()
    }
}

/// What graphs call a node, made safe for a terminal.
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
