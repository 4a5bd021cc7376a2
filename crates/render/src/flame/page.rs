//! A self-contained page: script, style and data in one file that loads nothing else.

use std::io::{self, Write};

use serde::Serialize;

use super::graph::{Graph, GraphFunction};
use super::{RecordingInfo, Style, encode};
use crate::samples::{FrameKind, Unit};

/// The usual maximum size of a page's data, in bytes. The rest of a page is small.
pub const PAGE_BYTES: usize = 5 << 20;

/// Time slices are merged to save space only while there are more than this many.
const MIN_SLICES: u32 = 64;

/// First share below which nodes are merged to save space: 1/20 of a pixel in a window of 2,000.
const NARROW: f64 = 1.0 / (20.0 * 2000.0);

const PAGE: &str = include_str!("page/page.html");

/// The page's style, which other pages with the same controls use too.
pub const PAGE_STYLE: &str = include_str!("page/page.css");

const SCRIPTS: [&str; 6] = [
    include_str!("page/data.js"),
    include_str!("page/tree.js"),
    include_str!("page/layout.js"),
    include_str!("page/timeline.js"),
    include_str!("page/lists.js"),
    include_str!("page/app.js"),
];

/// Raised when the encoding changes.
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
    /// `names`, `dso` and `kind` are the columns of the function table.
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
    /// Number of samples, by side.
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

/// Writes the page. If the data exceeds `max_bytes`, time slices are merged while there are more
/// than two rows per node, then functions narrower than 1/20 of a pixel, then those up to twice
/// that width, and so on.
///
/// # Errors
/// Fails if `out` can't be written.
pub fn page(
    out: &mut dyn Write,
    graph: &mut Graph,
    accounts: &[RecordingInfo],
    style: &Style,
    max_bytes: usize,
) -> io::Result<()> {
    let mut least = NARROW;
    let data = loop {
        let data = encoded(graph, accounts, style)?;
        if data.len() <= max_bytes {
            break data;
        }
        let is_row_heavy = graph.rows.len() > 2 * graph.nodes.len();
        if is_row_heavy && graph.slices.count > MIN_SLICES {
            graph.widen();
        } else if least < 1.0 {
            graph.merge_narrow(least);
            least *= 2.0;
        } else {
            break data;
        }
    };
    // The page only runs scripts with this nonce. It is a hash of all data, so a recorded name
    // can't contain it.
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
            "STYLE" => out.write_all(PAGE_STYLE.as_bytes())?,
            "DATA" => out.write_all(data.as_bytes())?,
            _ => SCRIPTS.iter().try_for_each(|script| out.write_all(script.as_bytes()))?,
        }
        rest = after;
    }
    out.write_all(rest.as_bytes())
}

fn encoded(graph: &mut Graph, accounts: &[RecordingInfo], style: &Style) -> io::Result<String> {
    remove_unused(graph);
    let usual = encode::usual_periods(graph);
    let dsos: indexmap::IndexSet<&str> =
        graph.functions.iter().map(|function| &function.dso[..]).collect();
    let kind_index = |function: &GraphFunction| {
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
        kind: graph.functions.iter().map(kind_index).collect(),
        count: graph.nodes.len(),
        nodes: encode::nodes(graph),
        rows: encode::rows(graph, &usual),
        merged: graph.merged,
    };
    // Only `<` can end a script element, and JSON can escape it.
    Ok(serde_json::to_string(&data)?.replace('<', "\\u003c"))
}

/// Removes functions without nodes, and gives the most frequent ones the smallest indexes.
fn remove_unused(graph: &mut Graph) {
    let mut uses = vec![0_u64; graph.functions.len()];
    graph.nodes.iter().for_each(|node| uses[node.function] += 1);
    // ROOT and MERGED keep their indexes.
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
