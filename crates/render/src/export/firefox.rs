//! The Firefox Profiler's own format ('processed profile').
//!
//! A thread has a track for each of its names and events: the samples of a track have one unit.
//! Source: `src/types/profile.js` and `docs-developer/CHANGELOG-formats.md` of the Firefox
//! Profiler, format version 48; later versions read it.

use std::io;

use indexmap::{IndexMap, IndexSet};
use serde_json::{Value, json};
use tare_profile::{EventId, FrameId, Profile, StringId, Thread, ThreadId};

use super::sums::event_name;
use super::{ExportFormat, ExportWriter, Exporter, TimeSpan};
use crate::samples::{FrameKind, FrameText, LocatedSample, RecordingSummary, SampleSink, Unit};

/// Version of the format.
const VERSION: u32 = 48;

/// Version of the format that Firefox itself writes.
const GECKO_VERSION: u32 = 27;

/// Writes a processed profile. A sample takes 32 bytes of memory until the end.
pub struct Firefox {
    out: ExportWriter,
    tracks: IndexMap<Track, TrackSamples, foldhash::fast::RandomState>,
    span: TimeSpan,
    chain: Vec<FrameId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Track {
    event: EventId,
    thread: Option<ThreadId>,
    comm: Option<StringId>,
}

/// The columns of a track, and the tree of stacks that they refer to.
#[derive(Default)]
struct TrackSamples {
    stacks: Vec<Option<usize>>,
    times_ns: Vec<u64>,
    periods: Vec<u64>,
    /// Prefix and frame of each stack.
    nodes: IndexSet<(Option<usize>, FrameId), foldhash::fast::RandomState>,
}

impl ExportFormat for Firefox {
    const NAME: &'static str = "firefox";
    const HELP: &'static str = "samples on a time line, by thread";
    const READERS: &'static str = "Firefox Profiler";
    const EXTENSION: &'static str = "json";

    fn create(out: ExportWriter) -> io::Result<Self> {
        let tracks = IndexMap::default();
        Ok(Self { out, tracks, span: TimeSpan::default(), chain: Vec::new() })
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
        profile.frames_of_row(&sample.row, &mut self.chain);
        let mut stack = None;
        for frame in self.chain.iter().rev() {
            stack = Some(samples.nodes.insert_full((stack, *frame)).0);
        }
        samples.stacks.push(stack);
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
        write!(
            self.out,
            "{{\"meta\":{meta},\"libs\":[],\"pages\":[],\"counters\":[],\"threads\":["
        )?;
        for (at, (track, samples)) in self.tracks.iter().enumerate() {
            self.out.write_all(if at > 0 { b",\n" } else { b"\n" })?;
            let thread = thread(whole, track, samples, first_ns, several);
            serde_json::to_writer(&mut self.out, &thread)?;
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
    let samples: usize = tracks.values().map(|samples| samples.stacks.len()).sum();
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

/// A row of the frame table.
struct FrameRow {
    function: usize,
    kind: FrameKind,
    line: Option<u32>,
    column: Option<u32>,
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
        let number = |field: fn(&tare_profile::SourceLine) -> u32| {
            source.as_ref().map(field).filter(|number| *number > 0)
        };
        let line = number(|at| at.line);
        let column = number(|at| at.column);
        let row = FrameRow { function, kind: place.kind, line, column };
        self.frames.insert_full((id, depth), row).0
    }
}

fn thread(
    whole: &RecordingSummary<'_>,
    track: &Track,
    samples: &TrackSamples,
    first_ns: u64,
    several: bool,
) -> Value {
    let profile = whole.profile;
    let mut tables = ThreadTables::default();
    let stack_table = stack_table(&mut tables, profile, samples);
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
        "samples": sample_table(samples, whole.session.unit(profile, track.event), first_ns),
        "markers": {"length": 0, "category": [], "data": [], "endTime": [], "name": [], "phase": [], "startTime": []},
        "stackTable": stack_table,
        "frameTable": frame_table(&tables),
        "funcTable": function_table(&tables),
        "resourceTable": {
            "length": tables.resources.len(),
            "lib": vec![Value::Null; tables.resources.len()],
            "name": tables.resources.iter().collect::<Vec<_>>(),
            "host": vec![Value::Null; tables.resources.len()],
            // The type of a library.
            "type": vec![1; tables.resources.len()],
        },
        "nativeSymbols": {"length": 0, "address": [], "functionSize": [], "libIndex": [], "name": []},
        "stringArray": tables.strings.iter().collect::<Vec<_>>(),
    })
}

fn sample_table(samples: &TrackSamples, unit: Unit, first_ns: u64) -> Value {
    let weights: Vec<Value> = match unit {
        Unit::Nanoseconds => samples.periods.iter().map(|ns| json!(milliseconds(*ns))).collect(),
        Unit::Count => samples.periods.iter().map(|period| json!(period)).collect(),
    };
    let times = samples.times_ns.iter().map(|time| milliseconds(time.saturating_sub(first_ns)));
    json!({
        "length": samples.stacks.len(),
        "weightType": if unit == Unit::Nanoseconds { "tracing-ms" } else { "samples" },
        "weight": weights,
        "stack": samples.stacks,
        "time": times.collect::<Vec<_>>(),
    })
}

fn category(kind: FrameKind) -> usize {
    1 + FrameKind::ALL.iter().position(|known| *known == kind).unwrap_or(0)
}

fn stack_table(tables: &mut ThreadTables, profile: &Profile, samples: &TrackSamples) -> Value {
    let mut frames: Vec<usize> = Vec::new();
    let mut depths: Vec<u32> = Vec::new();
    for (prefix, frame) in &samples.nodes {
        let is_inlined = profile.frame(*frame).is_some_and(|frame| frame.is_inlined);
        let outer = prefix.and_then(|prefix| depths.get(prefix).copied()).unwrap_or(0);
        let depth = if is_inlined { outer + 1 } else { 0 };
        depths.push(depth);
        frames.push(tables.frame(profile, *frame, depth));
    }
    let frame_category =
        |at: &usize| tables.frames.get_index(*at).map_or(0, |(_, row)| category(row.kind));
    json!({
        "length": frames.len(),
        "prefix": samples.nodes.iter().map(|(prefix, _)| *prefix).collect::<Vec<_>>(),
        "category": frames.iter().map(frame_category).collect::<Vec<_>>(),
        "subcategory": vec![0; frames.len()],
        "frame": frames,
    })
}

fn frame_table(tables: &ThreadTables) -> Value {
    let length = tables.frames.len();
    let nulls = vec![Value::Null; length];
    json!({
        "length": length,
        "address": vec![-1; length],
        "inlineDepth": tables.frames.keys().map(|(_, depth)| *depth).collect::<Vec<_>>(),
        "category": tables.frames.values().map(|row| category(row.kind)).collect::<Vec<_>>(),
        "subcategory": vec![0; length],
        "func": tables.frames.values().map(|row| row.function).collect::<Vec<_>>(),
        "nativeSymbol": nulls,
        "innerWindowID": vec![0; length],
        "implementation": nulls,
        "line": tables.frames.values().map(|row| row.line).collect::<Vec<_>>(),
        "column": tables.frames.values().map(|row| row.column).collect::<Vec<_>>(),
    })
}

fn function_table(tables: &ThreadTables) -> Value {
    let length = tables.functions.len();
    let nulls = vec![Value::Null; length];
    let resource = |function: &FunctionEntry| match function.resource {
        Some(resource) => json!(resource),
        None => json!(-1),
    };
    json!({
        "length": length,
        "isJS": vec![false; length],
        "relevantForJS": vec![false; length],
        "name": tables.functions.iter().map(|function| function.name).collect::<Vec<_>>(),
        "resource": tables.functions.iter().map(resource).collect::<Vec<_>>(),
        "fileName": tables.functions.iter().map(|function| function.file).collect::<Vec<_>>(),
        "lineNumber": nulls,
        "columnNumber": nulls,
    })
}
