//! The Firefox Profiler's own format ('processed profile').
//!
//! A thread has a track for each of its names and events: the samples of a track have one unit.
//! Columns are written one after the other and not kept: stacks are sorted, so that a walk through
//! them meets the nodes of their tree in order.
//! Source: `src/types/profile.js` and `docs-developer/CHANGELOG-formats.md` of the Firefox
//! Profiler, format version 48; later versions read it.

use std::io::{self, Write};

use indexmap::{IndexMap, IndexSet};
use serde::{Serialize, Serializer as _};
use serde_json::{Value, json};
use tare_profile::{EventId, FrameId, Profile, SourceLine, StackId, StringId, Thread, ThreadId};

use super::sums::event_name;
use super::{ExportFormat, ExportWriter, Exporter, TimeSpan};
use crate::json::{json_text, json_texts};
use crate::samples::{FrameKind, FrameText, LocatedSample, RecordingSummary, SampleSink, Unit};

/// Version of the format.
const VERSION: u32 = 48;

/// Version of the format that Firefox itself writes.
const GECKO_VERSION: u32 = 27;

/// Writes a processed profile. A sample takes 24 bytes of memory until the end.
pub struct Firefox {
    out: ExportWriter,
    tracks: IndexMap<Track, TrackSamples, foldhash::fast::RandomState>,
    span: TimeSpan,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Track {
    event: EventId,
    thread: Option<ThreadId>,
    comm: Option<StringId>,
}

/// The samples of a track, as columns.
#[derive(Default)]
struct TrackSamples {
    chains: Vec<TrackChain>,
    times_ns: Vec<u64>,
    periods: Vec<u64>,
}

/// A call chain, see [`Profile::chain_of_row`].
#[derive(Clone, Copy, PartialEq, Eq)]
struct TrackChain {
    leaf: Option<FrameId>,
    stack: Option<StackId>,
}

impl TrackChain {
    /// Iterates over its frames, the outermost first.
    fn frames(self, profile: &Profile) -> impl Iterator<Item = FrameId> {
        profile.frames_of(self.stack).iter().rev().copied().chain(self.leaf)
    }
}

/// A node of the tree of stacks.
#[derive(Clone, Copy)]
struct StackNode {
    number: u32,
    /// The number of the node of its caller.
    prefix: Option<u32>,
    frame: FrameId,
    /// Number of functions that it is inlined into.
    inline_depth: u32,
}

/// The samples of a track in the order of their call chains.
struct SortedStacks<'a> {
    profile: &'a Profile,
    chains: &'a [TrackChain],
    order: Vec<u32>,
}

impl<'a> SortedStacks<'a> {
    fn new(profile: &'a Profile, chains: &'a [TrackChain]) -> Self {
        let mut order: Vec<u32> = (0..).take(chains.len()).collect();
        order.sort_unstable_by(|left, right| {
            let [left, right] = [left, right].map(|at| chains[*at as usize]);
            if left == right {
                return std::cmp::Ordering::Equal;
            }
            left.frames(profile).cmp(right.frames(profile))
        });
        Self { profile, chains, order }
    }

    /// Calls `visit` with each node, in the order of their numbers. Returns the node of each
    /// sample.
    fn walk(&self, mut visit: impl FnMut(StackNode) -> io::Result<()>) -> io::Result<SampleNodes> {
        let mut nodes = vec![None; self.chains.len()];
        let mut path: Vec<StackNode> = Vec::new();
        let mut number = 0;
        for at in &self.order {
            let frames = self.chains[*at as usize].frames(self.profile);
            let mut depth = 0;
            for frame in frames {
                if path.get(depth).is_none_or(|open| open.frame != frame) {
                    path.truncate(depth);
                    let is_inlined =
                        self.profile.frame(frame).is_some_and(|frame| frame.is_inlined);
                    let outer = path.last().map_or(0, |outer| outer.inline_depth);
                    let inline_depth = if is_inlined { outer + 1 } else { 0 };
                    let prefix = path.last().map(|outer| outer.number);
                    let node = StackNode { number, prefix, frame, inline_depth };
                    visit(node)?;
                    path.push(node);
                    number += 1;
                }
                depth += 1;
            }
            path.truncate(depth);
            nodes[*at as usize] = path.last().map(|node| node.number);
        }
        Ok(SampleNodes { nodes, count: number })
    }

    /// Writes a column with a value for each node.
    fn write_column(
        &self,
        out: &mut dyn Write,
        name: &str,
        value: impl Fn(StackNode) -> Option<usize>,
    ) -> io::Result<()> {
        write!(out, ",\"{name}\":[")?;
        self.walk(|node| {
            out.write_all(if node.number > 0 { b"," } else { b"" })?;
            match value(node) {
                Some(value) => write!(out, "{value}"),
                None => out.write_all(b"null"),
            }
        })?;
        out.write_all(b"]")
    }
}

/// The node of each sample, in the order of the samples, and the number of nodes.
struct SampleNodes {
    nodes: Vec<Option<u32>>,
    count: u32,
}

/// Writes a member of an object: a column of these values.
fn write_values(
    out: &mut dyn Write,
    name: &str,
    values: impl Iterator<Item = impl Serialize>,
) -> io::Result<()> {
    write!(out, ",\"{name}\":")?;
    Ok(serde_json::Serializer::new(out).collect_seq(values)?)
}

impl ExportFormat for Firefox {
    const NAME: &'static str = "firefox";
    const HELP: &'static str = "samples on a time line, by thread";
    const READERS: &'static str = "Firefox Profiler";
    const EXTENSION: &'static str = "json";

    fn create(out: ExportWriter) -> io::Result<Self> {
        let tracks = IndexMap::default();
        Ok(Self { out, tracks, span: TimeSpan::default() })
    }
}

impl SampleSink for Firefox {
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        let time_ns = sample.time_ns.unwrap_or(0);
        self.span.add(time_ns);
        let event = sample.row.event;
        let thread = sample.row.thread;
        let comm = sample.row.comm;
        let samples = self.tracks.entry(Track { event, thread, comm }).or_default();
        let (leaf, _) = profile.chain_of_row(&sample.row);
        samples.chains.push(TrackChain { leaf, stack: sample.row.stack });
        samples.times_ns.push(time_ns);
        samples.periods.push(sample.weight.period);
        Ok(())
    }
}

impl Exporter for Firefox {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        let first_ns = self.span.start_ns();
        let several = self
            .tracks
            .keys()
            .any(|track| Some(track.event) != self.tracks.keys().next().map(|first| first.event));
        let meta = meta(whole, &self.span, &self.tracks);
        self.out.write_all(b"{\"meta\":")?;
        json_text(&mut self.out, &meta)?;
        self.out.write_all(b",\"libs\":[],\"pages\":[],\"counters\":[],\"threads\":[")?;
        for (at, (track, samples)) in self.tracks.iter().enumerate() {
            self.out.write_all(if at > 0 { b",\n" } else { b"\n" })?;
            let writer = TrackWriter { whole, track: *track, samples, first_ns, several };
            writer.write(&mut self.out)?;
        }
        writeln!(self.out, "]}}")?;
        self.out.flush()
    }
}

fn milliseconds(ns: u64) -> f64 {
    ns as f64 / 1e6
}

/// Returns the colour of a kind's category.
fn colour(kind: FrameKind) -> &'static str {
    match kind {
        FrameKind::Kernel => "orange",
        FrameKind::Program => "yellow",
        FrameKind::Library => "blue",
        FrameKind::Jit => "green",
        FrameKind::Inlined => "purple",
        FrameKind::Unresolved | FrameKind::Thread => "lightblue",
    }
}

fn meta(
    whole: &RecordingSummary<'_>,
    span: &TimeSpan,
    tracks: &IndexMap<Track, TrackSamples, foldhash::fast::RandomState>,
) -> Value {
    let session = whole.session;
    let mut categories =
        vec![json!({"name": "Other", "color": "grey", "subcategories": ["Other"]})];
    categories.extend(FrameKind::ALL.map(
        |kind| json!({"name": kind.name(), "color": colour(kind), "subcategories": ["Other"]}),
    ));
    let entries = |title: &str, lines: Vec<String>, none: &str| {
        let lines = if lines.is_empty() { vec![none.to_owned()] } else { lines };
        let entry = |line| json!({"label": title, "format": "string", "value": line});
        json!({"label": title, "entries": lines.into_iter().map(entry).collect::<Vec<_>>()})
    };
    // The average time between samples, by which the activity graph is scaled.
    let samples: usize = tracks.values().map(|samples| samples.chains.len()).sum();
    let interval = (milliseconds(span.length_ns()) / samples.max(1) as f64).clamp(0.001, 1000.0);
    json!({
        "interval": interval,
        "startTime": milliseconds(span.wall_start_ns(whole)),
        "processType": 0,
        "product": session.command(),
        "stackwalk": 1,
        "debug": false,
        "version": GECKO_VERSION,
        "preprocessedProfileVersion": VERSION,
        "symbolicated": true,
        "usesOnlyOneStackType": true,
        "doesNotUseFrameImplementation": true,
        "sourceCodeIsNotOnSearchfox": true,
        "categories": categories,
        "markerSchema": [],
        "importedFrom": session.tool,
        "oscpu": session.os_release,
        "abi": session.arch,
        "CPUName": session.cpu,
        "arguments": session.command(),
        "extra": [
            entries("Losses", whole.loss_lines(), "no known losses"),
            entries("Ledger", whole.ledger_lines(), "the recording has no ledger"),
        ],
    })
}

/// A track's tables, which refer to each other by index.
#[derive(Default)]
struct ThreadTables {
    strings: IndexSet<String, foldhash::fast::RandomState>,
    frames: IndexMap<(FrameId, u32), FrameRow, foldhash::fast::RandomState>,
    functions: IndexSet<FunctionEntry, foldhash::fast::RandomState>,
    resources: IndexSet<usize, foldhash::fast::RandomState>,
}

/// A row of Firefox's `frameTable`. `function` is an index into [`ThreadTables::functions`]. There
/// may be millions.
struct FrameRow {
    function: u32,
    kind: FrameKind,
}

/// A function by the indexes of its name, library and source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct FunctionEntry {
    name: usize,
    resource: Option<usize>,
    file: Option<usize>,
}

impl ThreadTables {
    fn string(&mut self, text: &str) -> usize {
        self.strings
            .get_index_of(text)
            .unwrap_or_else(|| self.strings.insert_full(text.to_owned()).0)
    }

    /// Returns the index of a frame that is inlined `depth` functions deep.
    fn frame(&mut self, profile: &Profile, id: FrameId, depth: u32) -> usize {
        if let Some(known) = self.frames.get_index_of(&(id, depth)) {
            return known;
        }
        let place = FrameText::new(profile, id);
        let name = self.string(&place.name);
        let dso = place.dso.as_deref().map(|dso| self.string(dso));
        let resource = dso.map(|dso| self.resources.insert_full(dso).0);
        let source = profile.frame(id).and_then(|frame| frame.line);
        let file = source.map(|at| String::from_utf8_lossy(profile.string(at.file)));
        let file = file.map(|file| self.string(&file));
        let function = self.functions.insert_full(FunctionEntry { name, resource, file }).0;
        let function = u32::try_from(function).unwrap_or(u32::MAX);
        self.frames.insert_full((id, depth), FrameRow { function, kind: place.kind }).0
    }

    /// Writes the tables as members of an object, column by column.
    fn write(&self, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        self.write_frames(profile, out)?;
        self.write_functions(out)?;
        let Self { resources, strings, .. } = self;
        let length = resources.len();
        let nulls = || std::iter::repeat_n((), length);
        write!(out, ",\"resourceTable\":{{\"length\":{length}")?;
        write_values(out, "lib", nulls())?;
        write_values(out, "name", resources.iter())?;
        write_values(out, "host", nulls())?;
        // The type of a library.
        write_values(out, "type", std::iter::repeat_n(1, length))?;
        out.write_all(b"},\"stringArray\":")?;
        json_texts(out, strings.iter())
    }

    fn write_frames(&self, profile: &Profile, out: &mut dyn Write) -> io::Result<()> {
        let Self { frames, .. } = self;
        let length = frames.len();
        let zeros = || std::iter::repeat_n(0, length);
        let nulls = || std::iter::repeat_n((), length);
        let numbers = |field: fn(&SourceLine) -> u32| {
            let source = |id: FrameId| profile.frame(id).and_then(|frame| frame.line);
            let number = move |(id, _): &(FrameId, u32)| source(*id).as_ref().map(field);
            frames.keys().map(number).map(|number| number.filter(|number| *number > 0))
        };
        write!(out, ",\"frameTable\":{{\"length\":{length}")?;
        write_values(out, "address", std::iter::repeat_n(-1, length))?;
        write_values(out, "inlineDepth", frames.keys().map(|(_, depth)| *depth))?;
        write_values(out, "category", frames.values().map(|row| category(row.kind)))?;
        write_values(out, "subcategory", zeros())?;
        write_values(out, "func", frames.values().map(|row| row.function))?;
        write_values(out, "nativeSymbol", nulls())?;
        write_values(out, "innerWindowID", zeros())?;
        write_values(out, "implementation", nulls())?;
        write_values(out, "line", numbers(|at| at.line))?;
        write_values(out, "column", numbers(|at| at.column))?;
        out.write_all(b"}")
    }

    fn write_functions(&self, out: &mut dyn Write) -> io::Result<()> {
        let Self { functions, .. } = self;
        let length = functions.len();
        let is_script = || std::iter::repeat_n(false, length);
        let nulls = || std::iter::repeat_n((), length);
        let resource = |function: &FunctionEntry| match function.resource {
            Some(resource) => i64::try_from(resource).unwrap_or(-1),
            None => -1,
        };
        write!(out, ",\"funcTable\":{{\"length\":{length}")?;
        write_values(out, "isJS", is_script())?;
        write_values(out, "relevantForJS", is_script())?;
        write_values(out, "name", functions.iter().map(|function| function.name))?;
        write_values(out, "resource", functions.iter().map(resource))?;
        write_values(out, "fileName", functions.iter().map(|function| function.file))?;
        write_values(out, "lineNumber", nulls())?;
        write_values(out, "columnNumber", nulls())?;
        out.write_all(b"}")
    }
}

/// Writes a track as a thread.
struct TrackWriter<'a> {
    whole: &'a RecordingSummary<'a>,
    track: Track,
    samples: &'a TrackSamples,
    /// Time of the recording's first sample.
    first_ns: u64,
    /// Whether the recording has several events.
    several: bool,
}

impl TrackWriter<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.whole.profile;
        let stacks = SortedStacks::new(profile, &self.samples.chains);
        let mut tables = ThreadTables::default();
        let nodes = stacks.walk(|node| {
            tables.frame(profile, node.frame, node.inline_depth);
            Ok(())
        })?;
        let mut front = Vec::new();
        json_text(&mut front, &self.front())?;
        out.write_all(front.strip_suffix(b"}").unwrap_or(&front))?;
        tables.write(profile, out)?;
        self.write_samples(out, &nodes)?;
        let frame = |node: StackNode| tables.frames.get_index_of(&(node.frame, node.inline_depth));
        let category = |node: StackNode| {
            Some(tables.frames.get_index(frame(node)?).map_or(0, |(_, row)| category(row.kind)))
        };
        write!(out, ",\"stackTable\":{{\"length\":{}", nodes.count)?;
        stacks.write_column(out, "prefix", |node| node.prefix.map(|prefix| prefix as usize))?;
        stacks.write_column(out, "category", category)?;
        stacks.write_column(out, "subcategory", |_| Some(0))?;
        stacks.write_column(out, "frame", frame)?;
        out.write_all(b"}}")
    }

    /// Returns everything but the samples and the tables that they refer to.
    fn front(&self) -> Value {
        let Self { samples, track, first_ns, several, .. } = *self;
        let profile = self.whole.profile;
        let Thread { pid, tid } = *track
            .thread
            .and_then(|thread| profile.thread(thread))
            .unwrap_or(&Thread { pid: -1, tid: -1 });
        let comm = track.comm.map(|comm| profile.string(comm)).unwrap_or_default();
        let comm = String::from_utf8_lossy(comm);
        let event = event_name(profile, track.event);
        let name = if several { format!("{comm} ({event})") } else { comm.to_string() };
        let begin = samples.times_ns.first().map_or(0, |time_ns| time_ns.saturating_sub(first_ns));
        json!({
            "processType": "default",
            "processStartupTime": 0,
            "processShutdownTime": null,
            "registerTime": milliseconds(begin),
            "unregisterTime": null,
            "pausedRanges": [],
            "name": name,
            "processName": comm,
            "isMainThread": pid == tid && !several,
            "pid": pid.to_string(),
            "tid": tid,
            "markers": {"length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": []},
            "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
        })
    }

    fn write_samples(&self, out: &mut dyn Write, nodes: &SampleNodes) -> io::Result<()> {
        let TrackSamples { times_ns, periods, .. } = self.samples;
        let length = times_ns.len();
        let unit = self.whole.session.unit(self.whole.profile, self.track.event);
        let kind = if unit == Unit::Nanoseconds { "tracing-ms" } else { "samples" };
        write!(out, ",\"samples\":{{\"length\":{length},\"weightType\":\"{kind}\"")?;
        match unit {
            Unit::Nanoseconds => {
                write_values(out, "weight", periods.iter().map(|ns| milliseconds(*ns)))?;
            }
            Unit::Count => write_values(out, "weight", periods.iter())?,
        }
        write_values(out, "stack", nodes.nodes.iter())?;
        let since = |time_ns: &u64| milliseconds(time_ns.saturating_sub(self.first_ns));
        write_values(out, "time", times_ns.iter().map(since))?;
        out.write_all(b"}")
    }
}

fn category(kind: FrameKind) -> usize {
    1 + FrameKind::ALL.iter().position(|known| *known == kind).unwrap_or(0)
}
