//! Call chains as the page of `tare flame`.

use std::io::{self, Write};

use tare_profile::{
    Dso, EventId, FrameId, Order, Profile, ProfileFrame, Row, Space, Symbol, Weight,
};
use tare_render::flame::{
    Collector, FlameInput, FlameRoot, Graph, PAGE_BYTES, RecordingInfo, Style, page,
};
use tare_render::{LocatedSample, RecordingOrigin, RecordingSummary, SampleSink, Unit};

use crate::answer::flame::FlameGraph;
use crate::answer::flame::tree::NodeKind;
use crate::answer::is_time;

/// Writes the page. Labels take the place of the threads' names.
pub(super) fn write(graph: &FlameGraph, out: &mut dyn Write) -> io::Result<()> {
    let mut profile = Profile::default();
    let mut session = RecordingOrigin::default();
    let mut samples = Collector::default();
    let frames: Vec<FrameId> =
        graph.frames.iter().map(|[f, m]| add_frame(&mut profile, graph, *f, *m)).collect();
    let mut events: Vec<(u32, EventId)> = Vec::new();
    for sum in &graph.sums {
        let known = events.iter().find(|(number, _)| *number == sum.event);
        let event = known.map(|(_, event)| *event).unwrap_or_else(|| {
            let name = graph.text(sum.event).unwrap_or_default();
            let text = profile.add_string(name.as_bytes());
            session.units.push(if is_time(name) { Unit::Nanoseconds } else { Unit::Count });
            let event = profile.name_event(events.len(), text);
            events.push((sum.event, event));
            event
        });
        let comm = profile.add_string(graph.name(NodeKind::Label(sum.name)).as_bytes());
        let reason = (sum.reason != 0).then(|| {
            let name = graph.name(NodeKind::Reason(sum.reason));
            add_function(&mut profile, Some(&name), &name, Space::Kernel)
        });
        let stored = graph.chain(sum.stack).iter().map(|frame| frames[*frame as usize]);
        let chain: Vec<FrameId> = reason.into_iter().chain(stored).collect();
        let stack = profile.add_stack(&chain);
        let row = Row { comm: Some(comm), leaf: chain.first().copied(), stack, ..Row::new(event) };
        let weight =
            Weight { samples: sum.samples.unsigned_abs(), period: sum.weight.unsigned_abs() };
        let sample = LocatedSample { row, weight, time_ns: None, switch: None };
        samples.sample(&profile, &sample)?;
    }
    let whole = RecordingSummary { profile: &profile, ledger: None, session: &session };
    let accounts = [RecordingInfo::new(&graph.title, &whole)];
    let style = Style { title: accounts[0].name.clone(), ..Style::default() };
    let input = FlameInput { whole, samples };
    let mut drawn = Graph::new(vec![vec![input]], Order::Caller, FlameRoot::Comm);
    page(out, &mut drawn, &accounts, &style, PAGE_BYTES)
}

fn add_frame(profile: &mut Profile, graph: &FlameGraph, function: u32, module: u32) -> FrameId {
    let module = graph.text(module);
    let is_user = module.is_some_and(|module| module.starts_with('/') || module == "[vdso]");
    let space = match module {
        None => Space::Unknown,
        Some(_) if is_user => Space::User,
        Some(_) => Space::Kernel,
    };
    add_function(profile, graph.text(function), module.unwrap_or("[unknown]"), space)
}

fn add_function(
    profile: &mut Profile,
    function: Option<&str>,
    module: &str,
    space: Space,
) -> FrameId {
    let short = module.rsplit_once('/').map_or(module, |(_, name)| name);
    let [path, short] = [module, short].map(|text| profile.add_string(text.as_bytes()));
    let dso = profile.add_dso(Dso { path, short });
    let function = match function {
        Some(name) => {
            let name = profile.add_string(name.as_bytes());
            Ok(profile.add_symbol(Symbol { dso, name, start: 0 }))
        }
        None => Err(profile.add_string(b"no symbol")),
    };
    profile.add_frame(ProfileFrame {
        space,
        dso: Some(dso),
        function,
        address: 0,
        is_inlined: false,
        line: None,
    })
}
