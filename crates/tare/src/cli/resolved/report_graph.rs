//! `-g` of `tare report`, in the form of `perf report`.

use tare_profile::Order;
use tare_render::{Amount, Style};

use crate::exit::Refusal;

/// Shown call graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraphs {
    /// The default order, if call chains were recorded.
    IfRecorded,
    /// From the callers (`-G`), if call chains were recorded.
    Inverted,
    /// With this end as the root; `None`: the default order.
    Asked(Option<Order>),
    /// No graphs. Rows for functions that only call others stay.
    None,
}

/// Parsed value of `-g`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CallGraph {
    pub(super) wanted: CallGraphs,
    pub(super) limit: Option<f64>,
    pub(super) style: Style,
    pub(super) amount: Amount,
}

impl Default for CallGraph {
    fn default() -> Self {
        Self {
            wanted: CallGraphs::IfRecorded,
            limit: None,
            style: Style::default(),
            amount: Amount::default(),
        }
    }
}

/// Parses `graph,0.5,caller,function,percent` or parts of it, as in `perf report -g`.
pub(super) fn call_graph(text: &str) -> Result<CallGraph, Refusal> {
    let mut graph = CallGraph { wanted: CallGraphs::Asked(None), ..CallGraph::default() };
    for word in text.split(',').filter(|word| !word.is_empty()) {
        match word {
            "none" => graph.wanted = CallGraphs::None,
            "caller" => graph.wanted = CallGraphs::Asked(Some(Order::Caller)),
            "callee" => graph.wanted = CallGraphs::Asked(Some(Order::Callee)),
            "graph" => graph.style = Style::Graph,
            "fractal" => graph.style = Style::Fractal,
            "flat" => graph.style = Style::Flat,
            "folded" => graph.style = Style::Folded,
            "percent" => graph.amount = Amount::Percent,
            "period" => graph.amount = Amount::Period,
            "count" => graph.amount = Amount::Count,
            "function" => {}
            "address" | "branch" => {
                return Err(Refusal::usage(format!(
                    "-g {text}: '{word}' is not supported: graphs show functions"
                )));
            }
            _ => match word.parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => graph.limit = Some(percent),
                _ => {
                    return Err(Refusal::usage(format!(
                        "-g {text}: '{word}' is not graph, fractal, flat, folded, caller, callee, percent, period, count, none or a percentage"
                    )));
                }
            },
        }
    }
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_perfs_call_graph_options() {
        let parsed = |text: &str| call_graph(text).unwrap();
        assert_eq!(parsed("graph").wanted, CallGraphs::Asked(None));
        let graph = parsed("caller,0.1,function,percent");
        let caller = CallGraphs::Asked(Some(Order::Caller));
        assert_eq!((graph.wanted, graph.limit), (caller, Some(0.1)));
        assert_eq!(parsed("none").wanted, CallGraphs::None);
        let folded = parsed("folded,count");
        assert_eq!((folded.style, folded.amount), (Style::Folded, Amount::Count));
        assert!(call_graph("address").is_err() && call_graph("x").is_err());
    }
}
