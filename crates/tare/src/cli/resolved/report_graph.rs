//! `-g`, `-G` and `--no-call-graph` of `tare report`, in the form of `perf report`.

use tare_profile::Order;
use tare_render::{Amount, Style};

use crate::cli::raw;
use crate::exit::Refusal;

/// Shown call graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraphs {
    /// The default order, if call chains were recorded.
    IfRecorded,
    /// From the callers (`-G`), if call chains were recorded.
    Inverted,
    /// With this end as the root; `None`: the default order, if call chains were recorded.
    Typed(Option<Order>),
    /// No graphs. With `-g none`, rows for functions that only call others stay.
    None,
}

/// Call graphs of `tare report`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GraphOptions {
    /// Which graphs are shown.
    pub graphs: CallGraphs,
    /// Branches below this percentage are hidden.
    pub percent_limit: f64,
    /// Style of the graphs.
    pub style: Style,
    /// Figure at the branches.
    pub amount: Amount,
}

/// Percentage below which branches are hidden, as in perf.
const DEFAULT_LIMIT: f64 = 0.5;

impl GraphOptions {
    /// Resolves `-g`, `-G` and `--no-call-graph`.
    pub(super) fn resolve(raw: &raw::ReportArgs) -> Result<Self, Refusal> {
        // As in perf, the limit of rows also applies to branches.
        let limit = raw.rows.percent_limit.unwrap_or(DEFAULT_LIMIT);
        let mut graph = Self {
            graphs: CallGraphs::IfRecorded,
            percent_limit: limit,
            style: Style::default(),
            amount: Amount::default(),
        };
        if let Some(text) = &raw.calls.call_graph {
            graph.apply(text)?;
        }
        if raw.calls.inverted && graph.graphs != CallGraphs::None {
            graph.graphs = CallGraphs::Inverted;
        }
        if raw.calls.no_call_graph {
            graph.graphs = CallGraphs::None;
        }
        Ok(graph)
    }

    /// Returns the root end of the graphs, if any are shown. `children`: functions that only call
    /// others have rows.
    pub(super) fn order(&self, has_callchains: bool, children: bool) -> Option<Order> {
        match self.graphs {
            CallGraphs::Typed(Some(order)) => Some(order),
            CallGraphs::None => None,
            _ if !has_callchains => None,
            CallGraphs::Inverted => Some(Order::Caller),
            _ => Some(if children { Order::Caller } else { Order::Callee }),
        }
    }

    /// Whether style and figure are the ones that the interactive report can show.
    pub(super) fn has_default_style(&self) -> bool {
        self.style == Style::Graph && self.amount == Amount::Percent
    }

    /// Applies `graph,0.5,caller,function,percent` or parts of it, as in `perf report -g`.
    fn apply(&mut self, text: &str) -> Result<(), Refusal> {
        self.graphs = CallGraphs::Typed(None);
        for word in text.split(',').filter(|word| !word.is_empty()) {
            match word {
                "none" => self.graphs = CallGraphs::None,
                "caller" => self.graphs = CallGraphs::Typed(Some(Order::Caller)),
                "callee" => self.graphs = CallGraphs::Typed(Some(Order::Callee)),
                "graph" => self.style = Style::Graph,
                "fractal" => self.style = Style::Fractal,
                "flat" => self.style = Style::Flat,
                "folded" => self.style = Style::Folded,
                "percent" => self.amount = Amount::Percent,
                "period" => self.amount = Amount::Period,
                "count" => self.amount = Amount::Count,
                "function" => {}
                "address" | "branch" => {
                    return Err(Refusal::usage(format!(
                        "-g {text}: '{word}' is not supported: graphs show functions"
                    )));
                }
                _ => match word.parse() {
                    Ok(percent) if (0.0..=100.0).contains(&percent) => self.percent_limit = percent,
                    _ => {
                        return Err(Refusal::usage(format!(
                            "-g {text}: '{word}' is not graph, fractal, flat, folded, caller, callee, percent, period, count, none or a percentage"
                        )));
                    }
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(call_graph: &str) -> Result<GraphOptions, Refusal> {
        let mut raw = raw::ReportArgs::default();
        raw.calls.call_graph = Some(call_graph.to_owned());
        GraphOptions::resolve(&raw)
    }

    #[test]
    fn parses_perfs_call_graph_options() {
        let parsed = |text: &str| resolved(text).unwrap();
        assert_eq!(parsed("graph").graphs, CallGraphs::Typed(None));
        let graph = parsed("caller,0.1,function,percent");
        assert_eq!(graph.graphs, CallGraphs::Typed(Some(Order::Caller)));
        assert!((graph.percent_limit - 0.1).abs() < f64::EPSILON);
        assert_eq!(parsed("none").graphs, CallGraphs::None);
        let folded = parsed("folded,count");
        assert_eq!((folded.style, folded.amount), (Style::Folded, Amount::Count));
        assert!(resolved("address").is_err() && resolved("x").is_err());
    }

    #[test]
    fn inverts_graphs_unless_they_are_off() {
        let mut raw = raw::ReportArgs::default();
        raw.calls.inverted = true;
        let graph = GraphOptions::resolve(&raw).unwrap();
        assert_eq!(graph.order(true, false), Some(Order::Caller));
        assert_eq!(graph.order(false, false), None);
        raw.calls.call_graph = Some("none".to_owned());
        assert_eq!(GraphOptions::resolve(&raw).unwrap().order(true, false), None);
    }
}
