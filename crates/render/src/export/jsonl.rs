//! JSON lines: an object per sample.
//!
//! ```text
//! {"kind":"recording","version":1,"tool":"tare export"}
//! {"kind":"sample","event":"cpu-clock","time_ns":..,"pid":..,"tid":..,"comm":..,"cpu":..,"period":..,"stack":[{"function":..,"dso":..,"code":".."},..]}
//! {"kind":"end","samples":..,"session":{..},"losses":[..],"ledger":{..}}
//! ```

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;

use serde::Serialize;
use serde_json::value::RawValue;
use tare_format::ledger::Ledger;
use tare_profile::{FrameId, Profile, StringId};

use super::cached::CACHED;
use super::{ExportFormat, ExportWriter, Exporter};
use crate::samples::{
    FrameKind, FrameText, LocatedSample, RecordingOrigin, RecordingSummary, SampleSink,
};
use crate::{json_header, json_line};

/// Version of the layout: see [`json_header`].
const VERSION: u32 = 1;

/// Writes one object per line.
pub struct JsonLines {
    out: ExportWriter,
    has_begun: bool,
    samples: u64,
    frames: HashMap<FrameId, Box<RawValue>, foldhash::fast::RandomState>,
    chain: Vec<FrameId>,
}

#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum JsonLine<'a> {
    Sample(SampleLine<'a>),
    End {
        samples: u64,
        session: &'a RecordingOrigin,
        losses: Vec<String>,
        ledger: Option<&'a Ledger>,
    },
}

/// A sample; fields that the event doesn't record are left out.
#[derive(Serialize)]
struct SampleLine<'a> {
    event: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tid: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    comm: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<u32>,
    period: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<Cow<'a, str>>,
    /// The innermost function first.
    stack: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct FrameObject<'a> {
    function: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    dso: Option<&'a str>,
    code: FrameKind,
    /// Of a frame without a symbol. In hexadecimal, because JavaScript's numbers have only 53 bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    address: Option<String>,
}

impl ExportFormat for JsonLines {
    const NAME: &'static str = "jsonl";
    const HELP: &'static str = "a JSON object per sample";
    const READERS: &'static str = "jq, scripts";
    const EXTENSION: &'static str = "jsonl";
    const HAS_TRACES: bool = true;

    fn create(out: ExportWriter) -> io::Result<Self> {
        let frames = HashMap::default();
        Ok(Self { out, has_begun: false, samples: 0, frames, chain: Vec::new() })
    }
}

impl JsonLines {
    /// Writes the first line, once.
    fn begin(&mut self) -> io::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        json_header(&mut self.out, VERSION, "tare export")
    }
}

/// Serializes a frame; the caller keeps the text.
fn serialize_frame(profile: &Profile, id: FrameId) -> io::Result<Box<RawValue>> {
    let place = FrameText::new(profile, id);
    let is_unnamed = profile.frame(id).is_none_or(|frame| frame.function.is_err());
    let frame = FrameObject {
        function: &place.name,
        dso: place.dso.as_deref(),
        code: place.kind,
        address: is_unnamed.then(|| format!("{:#x}", place.address)),
    };
    let mut text = Vec::new();
    json_line(&mut text, &frame)?;
    let text = String::from_utf8(text).map_err(io::Error::other)?;
    Ok(RawValue::from_string(text.trim_end().to_owned())?)
}

impl SampleSink for JsonLines {
    fn sample(&mut self, profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        self.begin()?;
        self.samples += 1;
        let text = |id: StringId| String::from_utf8_lossy(profile.string(id));
        let Self { out, frames, chain, .. } = self;
        profile.frames_of_row(&sample.row, chain);
        if frames.len() >= CACHED {
            frames.clear();
        }
        for id in chain.iter() {
            if !frames.contains_key(id) {
                frames.insert(*id, serialize_frame(profile, *id)?);
            }
        }
        let row = &sample.row;
        let thread = row.thread.and_then(|thread| profile.thread(thread));
        let event = profile.event(row.event).map(|event| text(event.name));
        let line = SampleLine {
            event: event.unwrap_or_default(),
            time_ns: sample.time_ns,
            pid: thread.map(|thread| thread.pid),
            tid: thread.map(|thread| thread.tid),
            comm: row.comm.map(text),
            cpu: row.cpu,
            period: sample.weight.period,
            trace: row.trace.map(text),
            stack: chain.iter().filter_map(|id| frames.get(id)).map(|frame| &**frame).collect(),
        };
        json_line(out, &JsonLine::Sample(line))
    }
}

impl Exporter for JsonLines {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        self.begin()?;
        let samples = self.samples;
        let session = whole.session;
        let ledger = whole.ledger;
        let losses = whole.loss_lines();
        json_line(&mut self.out, &JsonLine::End { samples, session, losses, ledger })?;
        self.out.flush()
    }
}
