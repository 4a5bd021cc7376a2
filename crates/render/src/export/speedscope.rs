//! speedscope's file format: a profile per event.

use std::collections::HashMap;
use std::io;

use indexmap::IndexSet;
use serde::Serialize;
use tare_format::ledger::Ledger;
use tare_profile::{EventId, FrameId, Profile};

use super::sums::{Sums, event_name};
use super::{ExportFormat, ExportWriter, Exporter};
use crate::json::json_text;
use crate::samples::{FrameText, LocatedSample, RecordingSummary, SampleSink, Unit};

/// Writes speedscope's format. Call chains are summed up, for its views 'left heavy' and
/// 'sandwich'.
pub struct Speedscope {
    out: ExportWriter,
    sums: Sums,
}

impl ExportFormat for Speedscope {
    const NAME: &'static str = "speedscope";
    const HELP: &'static str = "call chains with their weights";
    const READERS: &'static str = "speedscope";
    const EXTENSION: &'static str = "speedscope.json";

    fn create(out: ExportWriter) -> io::Result<Self> {
        Ok(Self { out, sums: Sums::default() })
    }
}

#[derive(Serialize)]
struct SpeedscopeFile<'a> {
    #[serde(rename = "$schema")]
    schema: &'static str,
    shared: SharedFrames,
    profiles: Vec<SampledProfile>,
    name: String,
    exporter: &'a str,
    #[serde(rename = "activeProfileIndex")]
    active: usize,
    /// Losses and ledger for other readers; speedscope ignores this member.
    tare: RecordingInfo<'a>,
}

#[derive(Serialize)]
struct RecordingInfo<'a> {
    losses: Vec<String>,
    ledger: Option<&'a Ledger>,
}

#[derive(Serialize)]
struct SharedFrames {
    frames: Vec<FrameEntry>,
}

#[derive(PartialEq, Eq, Hash, Serialize)]
struct FrameEntry {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
}

#[derive(Serialize)]
struct SampledProfile {
    #[serde(rename = "type")]
    kind: &'static str,
    name: String,
    unit: &'static str,
    #[serde(rename = "startValue")]
    start: u64,
    #[serde(rename = "endValue")]
    end: u64,
    samples: Vec<Vec<usize>>,
    weights: Vec<u64>,
}

impl SampleSink for Speedscope {
    fn sample(&mut self, _profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        self.sums.add(sample, false);
        Ok(())
    }
}

impl Exporter for Speedscope {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        let mut table = FrameTable::default();
        let events = self.sums.events();
        let profiles = events.iter().map(|(event, all)| {
            let mut profile = sampled_profile(&self.sums, whole, *event, &mut table);
            profile.end = all.period;
            profile
        });
        let profiles = profiles.collect();
        let losses = whole.loss_lines();
        let command = whole.session.command();
        let name =
            if losses.is_empty() { command } else { format!("{command} ({})", losses.join("; ")) };
        let document = SpeedscopeFile {
            schema: "https://www.speedscope.app/file-format-schema.json",
            shared: SharedFrames { frames: table.frames.into_iter().collect() },
            profiles,
            name,
            exporter: &whole.session.tool,
            active: 0,
            tare: RecordingInfo { losses, ledger: whole.ledger },
        };
        json_text(&mut self.out, &document)?;
        writeln!(self.out)?;
        self.out.flush()
    }
}

/// The document's frames, without duplicates.
#[derive(Default)]
struct FrameTable {
    frames: IndexSet<FrameEntry, foldhash::fast::RandomState>,
    /// The index of each of the profile's frames in the table.
    known: HashMap<FrameId, usize, foldhash::fast::RandomState>,
}

impl FrameTable {
    fn insert(&mut self, frame: FrameEntry) -> usize {
        self.frames.insert_full(frame).0
    }

    /// Returns the index of one of the profile's frames.
    fn index(&mut self, profile: &Profile, id: FrameId) -> usize {
        if let Some(number) = self.known.get(&id) {
            return *number;
        }
        let text = FrameText::new(profile, id);
        let file = text.dso.map(std::borrow::Cow::into_owned);
        let number = self.insert(FrameEntry { name: text.name.into_owned(), file });
        self.known.insert(id, number);
        number
    }
}

fn sampled_profile(
    sums: &Sums,
    whole: &RecordingSummary<'_>,
    event: EventId,
    table: &mut FrameTable,
) -> SampledProfile {
    let profile = whole.profile;
    let unit = match whole.session.unit(profile, event) {
        Unit::Nanoseconds => "nanoseconds",
        Unit::Count => "none",
    };
    let name = event_name(profile, event);
    let mut sampled = SampledProfile {
        kind: "sampled",
        name,
        unit,
        start: 0,
        end: 0,
        samples: Vec::new(),
        weights: Vec::new(),
    };
    let mut frames = Vec::new();
    for (key, weight) in sums.rows.iter().filter(|(key, _)| key.event == event) {
        key.frames(profile, &mut frames);
        let comm = key.comm.map(|comm| String::from_utf8_lossy(profile.string(comm)).into_owned());
        let thread = FrameEntry { name: comm.unwrap_or_default(), file: None };
        let mut stack = vec![table.insert(thread)];
        stack.extend(frames.iter().rev().map(|frame| table.index(profile, *frame)));
        sampled.samples.push(stack);
        sampled.weights.push(weight.period);
    }
    sampled
}
