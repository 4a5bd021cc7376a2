//! A page that stands for itself: script, style and data in one file, and no request.

use std::io::{self, Write};

use serde::Serialize;

use super::graph::{Graph, GraphFunction};
use super::{RecordingInfo, Style, encode};
use crate::samples::{FrameKind, Unit};

/// The most bytes of a page's data, by far the largest part of it.
pub const PAGE_BYTES: usize = 5 << 20;

/// The slices of time that a page keeps, however large it gets.
const LEAST_SLICES: u32 = 64;

/// A 20th of a pixel of a window of 2000: the first limit when something has to go.
const NARROW: f64 = 1.0 / (20.0 * 2000.0);

const PAGE: &str = include_str!("page/page.html");
const CSS: &str = include_str!("page/page.css");
const SCRIPTS: [&str; 6] = [
    include_str!("page/data.js"),
    include_str!("page/tree.js"),
    include_str!("page/layout.js"),
    include_str!("page/timeline.js"),
    include_str!("page/lists.js"),
    include_str!("page/app.js"),
];

/// Raised when the script reads something else.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Data<'a> {
    version: u32,
    title: &'a str,
    icicle: bool,
    callee: bool,
    accounts: &'a [RecordingInfo],
    events: Vec<PageEvent<'a>>,
    threads: &'a [String],
    slices: PageSlices,
    dsos: Vec<&'a str>,
    kinds: [&'static str; FrameKind::ALL.len()],
    /// Columns of one table.
    names: Vec<&'a str>,
    dso: Vec<usize>,
    kind: Vec<usize>,
    count: usize,
    nodes: String,
    rows: String,
    merged: usize,
}

#[derive(Serialize)]
struct PageEvent<'a> {
    name: &'a str,
    unit: Unit,
    usual: u64,
    /// Of each recording.
    samples: [u64; 2],
}

impl<'a> PageEvent<'a> {
    fn new(event: &'a super::graph::GraphEvent, usual: u64) -> Self {
        let name = &event.name[..];
        let unit = event.unit;
        Self { name, unit, usual, samples: event.all.map(|all| all.samples) }
    }
}

#[derive(Serialize)]
struct PageSlices {
    width_ns: u64,
    count: u32,
}

/// Writes the page. What doesn't fit into `most_bytes` of data is merged: first slices of time, then
/// what is narrower than a 20th of a pixel, then what is twice as wide, and so on.
///
/// # Errors
/// Those of `out`.
pub fn page(
    out: &mut dyn Write,
    graph: &mut Graph,
    accounts: &[RecordingInfo],
    style: &Style,
    most_bytes: usize,
) -> io::Result<()> {
    let mut least = NARROW;
    let data = loop {
        let data = encoded(graph, accounts, style)?;
        if data.len() <= most_bytes {
            break data;
        }
        let is_row_heavy = graph.rows.len() > 2 * graph.nodes.len();
        if is_row_heavy && graph.slices.count > LEAST_SLICES {
            graph.widen();
        } else if least < 1.0 {
            graph.merge_narrow(least);
            least *= 2.0;
        } else {
            break data;
        }
    };
    // The page runs scripts with this word alone. It depends on all of the data: no name in them can
    // hold it.
    let hash = data.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let nonce = format!("{hash:016x}");
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("@@") {
        out.write_all(before.as_bytes())?;
        let Some((name, after)) = after.split_once("@@") else { break };
        match name {
            "NONCE" => out.write_all(nonce.as_bytes())?,
            "TITLE" => out.write_all(super::svg::escaped(&style.title).as_bytes())?,
            "STYLE" => out.write_all(CSS.as_bytes())?,
            "DATA" => out.write_all(data.as_bytes())?,
            _ => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn encoded(graph: &mut Graph, accounts: &[RecordingInfo], style: &Style) -> io::Result<String> {
    forget_unused(graph);
    let usual = encode::usual_periods(graph);
    let dsos: indexmap::IndexSet<&str> =
        graph.functions.iter().map(|function| &function.dso[..]).collect();
    let kind_of = |function: &GraphFunction| {
        FrameKind::ALL.iter().position(|kind| *kind == function.kind).unwrap_or(0)
    };
    let data = Data {
        version: VERSION,
        title: &style.title,
        icicle: style.icicle,
        callee: style.callee,
        accounts,
        events: graph
            .events
            .iter()
            .zip(&usual)
            .map(|(event, usual)| PageEvent::new(event, *usual))
            .collect(),
        threads: &graph.threads,
        slices: PageSlices { width_ns: graph.slices.width_ns, count: graph.slices.count.max(1) },
        dsos: dsos.iter().copied().collect(),
        kinds: FrameKind::ALL.map(FrameKind::name),
        names: graph.functions.iter().map(|function| &function.name[..]).collect(),
        dso: graph
            .functions
            .iter()
            .map(|function| dsos.get_index_of(&function.dso[..]).unwrap_or(0))
            .collect(),
        kind: graph.functions.iter().map(kind_of).collect(),
        count: graph.nodes.len(),
        nodes: encode::nodes(graph),
        rows: encode::rows(graph, &usual),
        merged: graph.merged,
    };
    // Within a script element, HTML knows one character that JSON can do without.
    Ok(serde_json::to_string(&data)?.replace('<', "\\u003c"))
}

/// Leaves out functions that no node has, and gives the most frequent ones the smallest numbers.
fn forget_unused(graph: &mut Graph) {
    let mut uses = vec![0_u64; graph.functions.len()];
    graph.nodes.iter().for_each(|node| uses[node.function] += 1);
    // The root and what stands for merged nodes keep their places.
    let mut order: Vec<usize> = (2..graph.functions.len()).filter(|at| uses[*at] > 0).collect();
    order.sort_by_key(|at| std::cmp::Reverse(uses[*at]));
    let order: Vec<usize> = [0, 1].into_iter().chain(order).collect();
    let mut moved = vec![0; graph.functions.len()];
    for (new, old) in order.iter().enumerate() {
        moved[*old] = new;
    }
    graph.functions = order.iter().map(|old| graph.functions[*old].clone()).collect();
    graph.nodes.iter_mut().for_each(|node| node.function = moved[node.function]);
}
