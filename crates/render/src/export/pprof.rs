//! pprof's format: a message of protocol buffers, compressed with gzip.
//!
//! Locations are the sampled addresses, at the place where the first process mapped their file, so
//! that pprof can disassemble it.
//!
//! Source: `proto/profile.proto` of pprof, which defines the field numbers.

use std::collections::HashMap;
use std::io::{self, Write};
use std::num::NonZeroU32;

use flate2::Compression;
use flate2::write::GzEncoder;
use indexmap::{IndexMap, IndexSet};
use tare_profile::{DsoId, EventId, FrameId, FrameNumbers, Profile, ProfileFrame, Space};

use super::sums::{SumKey, Sums, event_name};
use super::{ExportFormat, ExportWriter, Exporter, TimeSpan};
use crate::samples::{FrameText, LocatedSample, RecordingSummary, SampleSink, Unit};

/// Bytes of a message that are collected before they are compressed.
const FLUSHED_BYTES: usize = 1 << 16;

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
    const HAS_ADDRESSES: bool = true;

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
        let mut gzip = GzEncoder::new(&mut self.out, Compression::default());
        let mut builder = ProfileBuilder::new(whole, &self.sums, &mut gzip);
        let mut frames = Vec::new();
        for (key, weight) in &self.sums.rows {
            key.frames(whole.profile, &mut frames);
            builder.add_sample(key, [weight.samples, weight.period], &frames);
            builder.flush(FLUSHED_BYTES)?;
        }
        builder.add_period(&self.sums);
        builder.finish(&self.span)?;
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

/// An event as pprof names it.
struct ValueType {
    event: EventId,
    /// `cpu` for the first clock; otherwise the event's name with `_` for characters that some
    /// readers split names at.
    name: String,
    unit: &'static str,
}

impl ValueType {
    /// Names the events with samples, the one with the most samples first.
    fn list(whole: &RecordingSummary<'_>, sums: &Sums) -> Vec<Self> {
        let mut types: Vec<Self> = Vec::new();
        for (event, _) in sums.events() {
            let recorded = event_name(whole.profile, event);
            let unit = unit_name(whole.session.unit(whole.profile, event));
            let is_clock = ["cpu-clock", "task-clock"].iter().any(|clock| {
                let rest = recorded.strip_prefix(clock);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
            });
            let name = match is_clock && types.iter().all(|known| known.name != "cpu") {
                true => "cpu".to_owned(),
                false => recorded.replace(|c: char| !c.is_ascii_alphanumeric(), "_"),
            };
            types.push(Self { event, name, unit });
        }
        types
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

/// A function by its file and by the string indexes of its names and source file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PprofFunction {
    name: u64,
    system_name: u64,
    dso: Option<DsoId>,
    file: u64,
    first_line: u32,
}

/// A mapped part of a file: an index into [`MappedFile::ranges`], or `None` if no known range
/// contains the address.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct PprofMapping {
    dso: DsoId,
    range: Option<usize>,
}

/// Location ids by their frames: inlined functions, then the function that contains them. Most
/// locations have one frame, and there may be millions.
#[derive(Default)]
struct LocationIds {
    single: FrameNumbers,
    inlined: HashMap<Box<[FrameId]>, NonZeroU32, foldhash::fast::RandomState>,
    last: u32,
}

/// The id of a location.
struct PprofLocation {
    number: u64,
    is_new: bool,
}

impl LocationIds {
    /// Returns the id of a location, which is added if it is new.
    fn find_or_add(&mut self, frames: &[FrameId]) -> PprofLocation {
        let Self { single, inlined, last } = self;
        let known = match frames {
            [only] => single.get(*only),
            _ => inlined.get(frames).copied(),
        };
        if let Some(number) = known {
            return PprofLocation { number: number.get().into(), is_new: false };
        }
        *last = last.saturating_add(1);
        let number = NonZeroU32::new(*last).unwrap_or(NonZeroU32::MAX);
        match frames {
            [only] => single.insert(*only, number),
            _ => _ = inlined.insert(frames.into(), number),
        }
        PprofLocation { number: number.get().into(), is_new: true }
    }
}

/// Builds a profile. Ids of functions, mappings and locations begin with 1.
struct ProfileBuilder<'a, W> {
    out: W,
    whole: &'a RecordingSummary<'a>,
    message: Message,
    strings: IndexSet<Box<[u8]>, foldhash::fast::RandomState>,
    types: Vec<ValueType>,
    locations: LocationIds,
    functions: IndexSet<PprofFunction, foldhash::fast::RandomState>,
    /// The mappings, and whether any of their locations has a source line.
    mappings: IndexMap<PprofMapping, bool, foldhash::fast::RandomState>,
}

impl<'a, W: Write> ProfileBuilder<'a, W> {
    fn new(whole: &'a RecordingSummary<'a>, sums: &Sums, out: W) -> Self {
        let mut strings = IndexSet::default();
        strings.insert(Box::default());
        let mut builder = Self {
            out,
            whole,
            message: Message::default(),
            strings,
            types: ValueType::list(whole, sums),
            locations: LocationIds::default(),
            functions: IndexSet::default(),
            mappings: IndexMap::default(),
        };
        builder.add_sample_types();
        // pprof takes the first mapping for the program.
        if let Some(dso) = find_program(whole.profile, sums) {
            let range = whole.profile.mapped_file(dso).map(|_| 0);
            builder.mappings.insert(PprofMapping { dso, range }, false);
        }
        builder
    }

    fn string(&mut self, text: &[u8]) -> u64 {
        // protobuf strings are UTF-8.
        let text = String::from_utf8_lossy(text);
        let known = self.strings.get_index_of(text.as_bytes());
        known.unwrap_or_else(|| self.strings.insert_full(text.as_bytes().into()).0) as u64
    }

    /// Writes the message so far if it has at least this many bytes.
    fn flush(&mut self, least: usize) -> io::Result<()> {
        if self.message.0.len() >= least {
            self.out.write_all(&self.message.0)?;
            self.message.0.clear();
        }
        Ok(())
    }

    /// Adds two types of values per event: the number of samples, and their weight.
    fn add_sample_types(&mut self) {
        let types = std::mem::take(&mut self.types);
        for known in &types {
            let samples = if types.len() == 1 {
                "samples".to_owned()
            } else {
                format!("{}_samples", known.name)
            };
            for (name, unit) in [(&samples, "count"), (&known.name, known.unit)] {
                let value_type = self.value_type(name, unit);
                self.message.bytes(1, &value_type);
            }
        }
        if let Some(first) = types.first() {
            let name = self.string(first.name.as_bytes());
            self.message.number(14, name);
        }
        self.types = types;
    }

    /// Adds the average weight of a sample of the first event as the sampling period.
    fn add_period(&mut self, sums: &Sums) {
        let types = std::mem::take(&mut self.types);
        let Some(ValueType { event, name, unit }) = types.first() else { return };
        let rows = sums.rows.iter().filter(|(key, _)| key.event == *event);
        let all = rows.fold([0_u64; 2], |[samples, period], (_, weight)| {
            [samples + weight.samples, period.saturating_add(weight.period)]
        });
        let [samples, period] = all;
        let period_type = self.value_type(name, unit);
        self.message.bytes(11, &period_type);
        self.message.number(12, period.checked_div(samples).unwrap_or(0));
        self.types = types;
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
        let event_values =
            |known: &ValueType| if known.event == key.event { values } else { [0, 0] };
        sample.numbers(2, self.types.iter().flat_map(event_values));
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
        let PprofLocation { number, is_new } = self.locations.find_or_add(frames);
        if !is_new {
            return number;
        }
        let profile = self.whole.profile;
        let outer = frames.last().and_then(|outer| profile.frame(*outer));
        let dso = outer.and_then(|outer| outer.dso);
        let mut location = Message::default();
        location.number(1, number);
        if let Some((outer, dso)) = outer.zip(dso) {
            let has_line = frames.iter().any(|id| has_line(profile, *id));
            let (range, address) = find_range(profile, &outer, dso);
            let entry = self.mappings.entry(PprofMapping { dso, range });
            location.number(2, entry.index() as u64 + 1);
            *entry.or_default() |= has_line;
            location.number(3, address);
        } else {
            location.number(3, outer.map_or(0, |outer| outer.address));
        }
        for frame in frames {
            location.bytes(4, &self.line(*frame, dso));
        }
        self.message.bytes(4, &location.0);
        number
    }

    fn line(&mut self, id: FrameId, dso: Option<DsoId>) -> Vec<u8> {
        let profile = self.whole.profile;
        let frame = profile.frame(id);
        let source = frame.and_then(|frame| frame.line);
        let name = self.string(FrameText::new(profile, id).name.as_bytes());
        let linkage = frame.and_then(|frame| profile.linkage_name(frame.function.ok()?));
        let system_name = linkage.map_or(name, |linkage| self.string(profile.string(linkage)));
        let file = source.map_or(0, |source| self.string(profile.string(source.file)));
        let first_line = source.map_or(0, |source| source.first_line);
        let function = PprofFunction { name, system_name, dso, file, first_line };
        let mut line = Message::default();
        line.number(1, self.functions.insert_full(function).0 as u64 + 1);
        line.number(2, source.map_or(0, |source| source.line.into()));
        line.number(3, source.map_or(0, |source| source.column.into()));
        line.0
    }

    /// Adds the tables that samples refer to and the comments.
    fn finish(mut self, span: &TimeSpan) -> io::Result<()> {
        self.locations = LocationIds::default();
        self.add_mappings()?;
        for (number, function) in (1..).zip(std::mem::take(&mut self.functions)) {
            let PprofFunction { name, system_name, file, first_line, .. } = function;
            let mut message = Message::default();
            let fields = [number, name, system_name, file, first_line.into()];
            (1..).zip(fields).for_each(|(field, value)| message.number(field, value));
            self.message.bytes(5, &message.0);
            self.flush(FLUSHED_BYTES)?;
        }
        self.message.number(9, span.wall_start_ns(self.whole));
        self.message.number(10, span.length_ns());
        let tool = &self.whole.session.tool;
        let lines = [tool.clone(), self.whole.session.command()].into_iter();
        for line in lines.chain(self.whole.loss_lines()).chain(self.whole.ledger_lines()) {
            let comment = self.string(line.as_bytes());
            self.message.number(13, comment);
        }
        for text in std::mem::take(&mut self.strings) {
            self.message.bytes(6, &text);
            self.flush(FLUSHED_BYTES)?;
        }
        self.flush(0)
    }

    fn add_mappings(&mut self) -> io::Result<()> {
        let profile = self.whole.profile;
        for (number, (mapping, has_lines)) in (1..).zip(std::mem::take(&mut self.mappings)) {
            let path = profile.dso(mapping.dso).map(|dso| profile.string(dso.path));
            let file = profile.mapped_file(mapping.dso);
            let range = file.and_then(|file| file.ranges.get(mapping.range?));
            let mut message = Message::default();
            message.number(1, number);
            if let Some(range) = range {
                message.number(2, range.start);
                message.number(3, range.end);
                // The kernel's addresses aren't offsets.
                message.number(4, if range.offset == range.start { 0 } else { range.offset });
            }
            message.number(5, self.string(path.unwrap_or_default()));
            let build_id = file.map_or(&[][..], |file| &file.build_id);
            let build_id: String = build_id.iter().map(|byte| format!("{byte:02x}")).collect();
            message.number(6, self.string(build_id.as_bytes()));
            // has_functions: pprof needn't look for symbols. Then files, lines, inlined functions.
            message.number(7, 1);
            (8..=10).for_each(|field| message.number(field, has_lines.into()));
            self.message.bytes(3, &message.0);
            self.flush(FLUSHED_BYTES)?;
        }
        Ok(())
    }
}

fn has_line(profile: &Profile, frame: FrameId) -> bool {
    profile.frame(frame).is_some_and(|frame| frame.line.is_some())
}

/// Returns the index of the range that contains a frame, and the frame's mapped address. Without
/// such a range, returns `None` and the address in the file.
fn find_range(profile: &Profile, frame: &ProfileFrame, dso: DsoId) -> (Option<usize>, u64) {
    let ranges = profile.mapped_file(dso).map_or(&[][..], |file| &file.ranges);
    let mut mapped = ranges.iter().map(|range| range.to_mapped(frame.address)).enumerate();
    let found = mapped.find_map(|(at, address)| Some((at, address?)));
    found.map_or((None, frame.address), |(at, address)| (Some(at), address))
}

/// Returns the program whose code is in the most samples.
fn find_program(profile: &Profile, sums: &Sums) -> Option<DsoId> {
    let mut programs: HashMap<DsoId, bool> = HashMap::new();
    let mut samples: IndexMap<DsoId, u64> = IndexMap::new();
    let mut frames = Vec::new();
    for (key, weight) in &sums.rows {
        key.frames(profile, &mut frames);
        let dsos = frames.iter().filter_map(|frame| {
            let frame = profile.frame(*frame).filter(|frame| frame.space == Space::User)?;
            let dso = frame.dso?;
            programs.entry(dso).or_insert_with(|| is_program(profile, dso)).then_some(dso)
        });
        let found: IndexSet<DsoId> = dsos.collect();
        for dso in found {
            *samples.entry(dso).or_default() += weight.samples;
        }
    }
    // Among equals the first.
    samples.into_iter().rev().max_by_key(|(_, samples)| *samples).map(|(dso, _)| dso)
}

/// Whether a file is a program, by its path: neither a library nor memory.
fn is_program(profile: &Profile, dso: DsoId) -> bool {
    let path = profile.dso(dso).map(|dso| profile.string(dso.path)).unwrap_or_default();
    let base = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let is_memory = [&b"//"[..], b"/dev/", b"/memfd:", b"/SYSV", b"/tmp/perf-"];
    path.starts_with(b"/")
        && !is_memory.iter().any(|front| path.starts_with(front))
        && !base.windows(3).any(|part| part == b".so")
}
