//! `-g` of `tare report`, in the form of `perf report`.

use tare_profile::Order;
use tare_render::{Amount, Style};

use crate::exit::Refusal;

/// Which call graphs were asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallGraphs {
    /// Those that fit, where call chains were recorded.
    IfRecorded,
    /// Those from the callers on (`-G`), where call chains were recorded.
    Inverted,
    /// With this end as the root; `None`: the one that fits.
    Asked(Option<Order>),
    /// None; rows for what only calls others stay.
    None,
}

/// What `-g` asks for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CallGraph {
    pub(super) wanted: CallGraphs,
    pub(super) limit: Option<f64>,
    pub(super) style: Style,
    pub(super) amount: Amount,
}

impl Default for CallGraph {
    fn default() -> Self {
        let (style, amount) = Default::default();
        Self { wanted: CallGraphs::IfRecorded, limit: None, style, amount }
    }
}

/// `graph,0.5,caller,function,percent` and parts of it, as `perf report -g` has it.
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
                    "-g {text}: '{word}' is not there: graphs are of functions"
                )));
            }
            _ => match word.parse() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => graph.limit = Some(percent),
                _ => {
                    return Err(Refusal::usage(format!(
                        "-g {text}: '{word}' is none of graph, fractal, flat, folded, caller, callee, percent, period, count, none and a percentage"
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
    fn graphs_are_asked_for_as_in_perf() {
        let asked = |text: &str| call_graph(text).unwrap();
        assert_eq!(asked("graph").wanted, CallGraphs::Asked(None));
        let graph = asked("caller,0.1,function,percent");
        let caller = CallGraphs::Asked(Some(Order::Caller));
        assert_eq!((graph.wanted, graph.limit), (caller, Some(0.1)));
        assert_eq!(asked("none").wanted, CallGraphs::None);
        let folded = asked("folded,count");
        assert_eq!((folded.style, folded.amount), (Style::Folded, Amount::Count));
        assert!(call_graph("address").is_err() && call_graph("x").is_err());
    }
}
