//! pprof's format: a message of protocol buffers, compressed with gzip.
//!
//! Source: `proto/profile.proto` of pprof, which defines the field numbers.

use std::collections::HashMap;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::IndexSet;
use tare_profile::{DsoId, EventId, FrameId, Profile};

use super::sums::{SumKey, Sums, event_name};
use super::{ExportFormat, ExportWriter, Exporter, TimeSpan};
use crate::samples::{FrameText, LocatedSample, RecordingSummary, SampleSink, Unit};

/// Writes a profile for pprof: call chains summed up by thread, with two values for each event.
pub struct Pprof {
    out: ExportWriter,
    sums: Sums,
    span: TimeSpan,
}

impl ExportFormat for Pprof {
    const NAME: &'static str = "pprof";
    const HELP: &'static str = "a compressed profile";
    const READERS: &'static str = "pprof";
    const EXTENSION: &'static str = "pb.gz";
    const IS_BINARY: bool = true;

    fn create(out: ExportWriter) -> io::Result<Self> {
        Ok(Self { out, sums: Sums::default(), span: TimeSpan::default() })
    }
}

impl SampleSink for Pprof {
    fn sample(&mut self, _profile: &Profile, sample: &LocatedSample) -> io::Result<()> {
        if let Some(time_ns) = sample.time_ns {
            self.span.add(time_ns);
        }
        self.sums.add(sample, true);
        Ok(())
    }
}

impl Exporter for Pprof {
    fn finish(mut self: Box<Self>, whole: &RecordingSummary<'_>) -> io::Result<()> {
        let mut message = ProfileBuilder::new(whole, &self.sums);
        let mut frames = Vec::new();
        for (key, weight) in &self.sums.rows {
            key.frames(whole.profile, &mut frames);
            message.add_sample(key, [weight.samples, weight.period], &frames);
        }
        message.add_period(&self.sums);
        let bytes = message.finish(&self.span);
        let mut gzip = GzEncoder::new(&mut self.out, Compression::default());
        gzip.write_all(&bytes)?;
        gzip.finish()?;
        self.out.flush()
    }
}

/// Returns pprof's name of a unit.
fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Nanoseconds => "nanoseconds",
        Unit::Count => "count",
    }
}

/// A message of protocol buffers.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push(number.to_le_bytes()[0] | 0x80);
            number >>= 7;
        }
        self.0.push(number.to_le_bytes()[0]);
    }

    /// Adds a number; 0 is the default and is left out.
    fn number(&mut self, field: u64, number: u64) {
        if number != 0 {
            self.varint(field << 3);
            self.varint(number);
        }
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn numbers(&mut self, field: u64, numbers: impl IntoIterator<Item = u64>) {
        let mut packed = Self::default();
        numbers.into_iter().for_each(|number| packed.varint(number));
        self.bytes(field, &packed.0);
    }
}

/// A function by its file and by the string indexes of its name and source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PprofFunction {
    name: u64,
    dso: Option<DsoId>,
    file: u64,
}

/// Builds a profile. Ids of functions, mappings and locations begin with 1.
struct ProfileBuilder<'a> {
    whole: &'a RecordingSummary<'a>,
    message: Message,
    strings: IndexSet<Vec<u8>, foldhash::fast::RandomState>,
    events: Vec<EventId>,
    /// Location ids by their frames: inlined functions, then the function that contains them.
    locations: HashMap<Box<[FrameId]>, u64, foldhash::fast::RandomState>,
    functions: IndexSet<PprofFunction, foldhash::fast::RandomState>,
    mappings: IndexSet<DsoId, foldhash::fast::RandomState>,
}

impl<'a> ProfileBuilder<'a> {
    fn new(whole: &'a RecordingSummary<'a>, sums: &Sums) -> Self {
        let events: Vec<EventId> = sums.events().into_iter().map(|(event, _)| event).collect();
        let message = Message::default();
        let mut strings = IndexSet::default();
        strings.insert(Vec::new());
        let mut builder = Self {
            whole,
            message,
            strings,
            events,
            locations: HashMap::default(),
            functions: IndexSet::default(),
            mappings: IndexSet::default(),
        };
        builder.add_sample_types();
        builder
    }

    fn string(&mut self, text: &[u8]) -> u64 {
        // protobuf strings are UTF-8.
        self.strings.insert_full(String::from_utf8_lossy(text).as_bytes().to_vec()).0 as u64
    }

    /// Adds two types of values per event: the number of samples, and their weight.
    fn add_sample_types(&mut self) {
        let profile = self.whole.profile;
        for event in self.events.clone() {
            let name = event_name(profile, event);
            let samples = if self.events.len() == 1 {
                "samples".to_owned()
            } else {
                format!("{name}/samples")
            };
            let unit = unit_name(self.whole.session.unit(profile, event));
            for (name, unit) in [(samples, "count"), (name, unit)] {
                let value_type = self.value_type(&name, unit);
                self.message.bytes(1, &value_type);
            }
        }
        if let Some(event) = self.events.first().copied() {
            let name = self.string(event_name(profile, event).as_bytes());
            self.message.number(14, name);
        }
    }

    /// Adds the average weight of a sample of the first event as the sampling period.
    fn add_period(&mut self, sums: &Sums) {
        let Some(event) = self.events.first().copied() else { return };
        let rows = sums.rows.iter().filter(|(key, _)| key.event == event);
        let all = rows.fold([0_u64; 2], |[samples, period], (_, weight)| {
            [samples + weight.samples, period.saturating_add(weight.period)]
        });
        let [samples, period] = all;
        let profile = self.whole.profile;
        let unit = unit_name(self.whole.session.unit(profile, event));
        let period_type = self.value_type(&event_name(profile, event), unit);
        self.message.bytes(11, &period_type);
        self.message.number(12, period.checked_div(samples).unwrap_or(0));
    }

    fn value_type(&mut self, name: &str, unit: &str) -> Vec<u8> {
        let mut value_type = Message::default();
        value_type.number(1, self.string(name.as_bytes()));
        value_type.number(2, self.string(unit.as_bytes()));
        value_type.0
    }

    fn add_sample(&mut self, key: &SumKey, values: [u64; 2], frames: &[FrameId]) {
        let profile = self.whole.profile;
        let mut sample = Message::default();
        // Inlined functions are lines of the location of the function that contains them.
        let is_inlined = |id: &FrameId| profile.frame(*id).is_some_and(|frame| frame.is_inlined);
        let parts = frames.chunk_by(|frame, _| is_inlined(frame));
        let locations: Vec<u64> = parts.map(|part| self.location(part)).collect();
        sample.numbers(1, locations);
        let event_values = |event: &EventId| if *event == key.event { values } else { [0, 0] };
        sample.numbers(2, self.events.iter().flat_map(event_values));
        if let Some(comm) = key.comm {
            let mut label = Message::default();
            label.number(1, self.string(b"comm"));
            label.number(2, self.string(profile.string(comm)));
            sample.bytes(3, &label.0);
        }
        if let Some(thread) = key.thread.and_then(|thread| profile.thread(thread)) {
            for (name, id) in [("pid", thread.pid), ("tid", thread.tid)] {
                let mut label = Message::default();
                label.number(1, self.string(name.as_bytes()));
                label.number(3, u64::try_from(id).unwrap_or(0));
                sample.bytes(3, &label.0);
            }
        }
        self.message.bytes(2, &sample.0);
    }

    fn location(&mut self, frames: &[FrameId]) -> u64 {
        if let Some(known) = self.locations.get(frames) {
            return *known;
        }
        let profile = self.whole.profile;
        let number = self.locations.len() as u64 + 1;
        self.locations.insert(frames.into(), number);
        let outer = frames.last().copied();
        let dso = outer.and_then(|outer| profile.frame(outer)?.dso);
        let mapping = dso.map_or(0, |dso| self.mappings.insert_full(dso).0 as u64 + 1);
        let mut location = Message::default();
        location.number(1, number);
        location.number(2, mapping);
        location.number(3, outer.map_or(0, |outer| FrameText::new(profile, outer).address));
        for frame in frames {
            location.bytes(4, &self.line(*frame, dso));
        }
        self.message.bytes(4, &location.0);
        number
    }

    fn line(&mut self, id: FrameId, dso: Option<DsoId>) -> Vec<u8> {
        let profile = self.whole.profile;
        let source = profile.frame(id).and_then(|frame| frame.line);
        let name = self.string(FrameText::new(profile, id).name.as_bytes());
        let file = source.map_or(0, |source| self.string(profile.string(source.file)));
        let mut line = Message::default();
        line.number(1, self.functions.insert_full(PprofFunction { name, dso, file }).0 as u64 + 1);
        line.number(2, source.map_or(0, |source| source.line.into()));
        line.number(3, source.map_or(0, |source| source.column.into()));
        line.0
    }

    /// Adds the tables that samples refer to and the comments, and returns the message.
    fn finish(mut self, span: &TimeSpan) -> Vec<u8> {
        let profile = self.whole.profile;
        for (number, dso) in (1..).zip(self.mappings.clone()) {
            let path = profile.dso(dso).map(|dso| profile.string(dso.path)).unwrap_or_default();
            let mut mapping = Message::default();
            mapping.number(1, number);
            mapping.number(5, self.string(path));
            // has_functions: pprof needn't look for symbols.
            mapping.number(7, 1);
            self.message.bytes(3, &mapping.0);
        }
        for (number, PprofFunction { name, file, .. }) in (1..).zip(&self.functions) {
            let mut function = Message::default();
            function.number(1, number);
            function.number(2, *name);
            function.number(3, *name);
            function.number(4, *file);
            self.message.bytes(5, &function.0);
        }
        self.message.number(9, span.wall_start_ns(self.whole));
        self.message.number(10, span.length_ns());
        let tool = &self.whole.session.tool;
        let lines = [tool.clone(), self.whole.session.command()].into_iter();
        for line in lines.chain(self.whole.loss_lines()).chain(self.whole.ledger_lines()) {
            let comment = self.string(line.as_bytes());
            self.message.number(13, comment);
        }
        for text in &self.strings {
            self.message.bytes(6, text);
        }
        self.message.0
    }
}
