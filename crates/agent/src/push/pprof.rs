//! A service's part of a window as a profile of pprof.
//!
//! Source: `proto/profile.proto` of pprof, which defines the field numbers.

use indexmap::IndexSet;
use prost::Message;
use tare_store::{Segment, SegmentRow, TextId};

use super::request::{REQUEST_BYTES, gzip};
use super::tables::Tables;
use super::window_rows::{ServiceRows, ValueKind, further_labels, signed};

/// Bytes of a sample in a profile, about, without its stack.
const SAMPLE_BYTES: usize = 32;

#[derive(Clone, PartialEq, Message)]
struct PprofProfile {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<PprofType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<PprofSample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<PprofMapping>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<PprofLocation>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<PprofFunction>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<PprofType>,
    #[prost(int64, tag = "12")]
    period: i64,
    #[prost(int64, repeated, tag = "13")]
    comment: Vec<i64>,
    #[prost(int64, tag = "14")]
    default_sample_type: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct PprofSample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<PprofLabel>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofLabel {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    str: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofMapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    /// Readers needn't look for symbols.
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct PprofLocation {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<PprofLine>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofLine {
    #[prost(uint64, tag = "1")]
    function_id: u64,
    #[prost(int64, tag = "2")]
    line: i64,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct PprofFunction {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "4")]
    filename: i64,
}

/// A compressed profile.
pub(super) struct EncodedProfile {
    pub(super) bytes: Vec<u8>,
    pub(super) samples: u64,
    /// Values of its samples.
    pub(super) kinds: Vec<ValueKind>,
}

/// Returns the profiles that the rows of a service take.
pub(super) fn encode(segment: &Segment, service: &ServiceRows) -> Vec<EncodedProfile> {
    let events: IndexSet<TextId> = service.rows.iter().map(|row| row.event).collect();
    let mut profiles = Vec::new();
    let mut builder = ProfileBuilder::new(segment, events.clone());
    for row in &service.rows {
        builder.add(row);
        if builder.tables.bytes() + builder.sample_bytes >= REQUEST_BYTES {
            let next = ProfileBuilder::new(segment, events.clone());
            profiles.push(std::mem::replace(&mut builder, next).finish());
        }
    }
    if builder.samples > 0 {
        profiles.push(builder.finish());
    }
    profiles
}

struct ProfileBuilder<'a> {
    segment: &'a Segment,
    tables: Tables<'a>,
    /// Each has two values: the number of samples, and their weight.
    events: IndexSet<TextId>,
    profile: PprofProfile,
    samples: u64,
    /// Samples and weight of the first event, for its period.
    first: [u64; 2],
    sample_bytes: usize,
}

impl<'a> ProfileBuilder<'a> {
    fn new(segment: &'a Segment, events: IndexSet<TextId>) -> Self {
        Self {
            segment,
            tables: Tables::new(segment),
            events,
            profile: PprofProfile::default(),
            samples: 0,
            first: [0; 2],
            sample_bytes: 0,
        }
    }

    fn add(&mut self, row: &SegmentRow) {
        let mut locations = Vec::new();
        self.tables.stack(row.stack, &mut locations);
        let event = self.events.get_index_of(&row.event).unwrap_or(0);
        let mut value = vec![0; 2 * self.events.len()];
        value[2 * event] = signed(row.samples);
        value[2 * event + 1] = signed(row.weight);
        if event == 0 {
            let [samples, weight] = self.first;
            self.first = [samples + row.samples, weight.saturating_add(row.weight)];
        }
        let label = self.labels(row);
        self.samples = self.samples.saturating_add(row.samples);
        self.sample_bytes += SAMPLE_BYTES + 3 * locations.len() + 8 * (label.len() + value.len());
        let location_id = locations.into_iter().map(u64::from).collect();
        self.profile.sample.push(PprofSample { location_id, value, label });
    }

    fn labels(&mut self, row: &SegmentRow) -> Vec<PprofLabel> {
        let own = [
            ("process", row.labels.process),
            ("thread", row.labels.thread),
            ("wait_reason", row.wait_reason),
        ];
        let mut labels = Vec::new();
        for (name, label) in own.into_iter().filter(|(_, label)| label.is_some()) {
            let [key, text] = [self.tables.string(name), self.tables.text(label)];
            labels.push(PprofLabel { key: key.into(), str: text.into() });
        }
        for label in further_labels(self.segment, row.labels.extra) {
            let [key, text] = label.map(|text| self.tables.string(text));
            labels.push(PprofLabel { key: key.into(), str: text.into() });
        }
        labels
    }

    fn value_type(&mut self, name: &str, unit: &'static str) -> PprofType {
        let [kind, unit] = [self.tables.string(name.to_owned()), self.tables.string(unit)];
        PprofType { kind: kind.into(), unit: unit.into() }
    }

    /// Names the values. Two clocks of one service keep the events' own names.
    fn kinds(&self) -> Vec<ValueKind> {
        let mut kinds: Vec<ValueKind> = Vec::new();
        for event in &self.events {
            let event = self.segment.text(*event);
            let kind = ValueKind::for_event(event);
            let is_free = kinds.iter().all(|known| known.name != kind.name);
            kinds.push(if is_free { kind } else { kind.renamed(event) });
        }
        kinds
    }

    fn finish(mut self) -> EncodedProfile {
        let kinds = self.kinds();
        for kind in &kinds {
            let count = self.value_type(&kind.count_name, "count");
            let weight = self.value_type(&kind.name, kind.unit);
            self.profile.sample_type.extend([count, weight]);
        }
        let period_type = self.profile.sample_type.get(1).copied();
        let [samples, weight] = self.first;
        let info = self.segment.info();
        let figures = self.segment.figures();
        let comment = format!(
            "{}: window of {} samples, {} lost, {} with an incomplete stack, {} without a name",
            info.host, figures.samples, figures.lost, figures.truncated, figures.unnamed
        );
        let comment = self.tables.string(comment);
        let profile = PprofProfile {
            time_nanos: info.start_us.saturating_mul(1000),
            duration_nanos: info.end_us.saturating_sub(info.start_us).saturating_mul(1000),
            period: signed(weight.checked_div(samples).unwrap_or(0)),
            default_sample_type: period_type.map_or(0, |kind| kind.kind),
            period_type,
            comment: vec![comment.into()],
            ..self.tables_of_profile()
        };
        EncodedProfile { bytes: gzip(&profile.encode_to_vec()), samples: self.samples, kinds }
    }

    fn tables_of_profile(&mut self) -> PprofProfile {
        let mapping = (1..).zip(self.tables.modules()).map(|(id, module)| PprofMapping {
            id,
            memory_limit: module.end,
            filename: module.path.into(),
            build_id: module.build_id.into(),
            has_functions: true,
        });
        let location = (1..).zip(self.tables.locations()).map(|(id, row)| PprofLocation {
            id,
            mapping_id: row.module.into(),
            address: row.address,
            line: match row.function {
                0 => Vec::new(),
                function => {
                    vec![PprofLine { function_id: function.into(), line: row.line.into() }]
                }
            },
        });
        let function = (1..).zip(self.tables.functions()).map(|(id, row)| PprofFunction {
            id,
            name: row.name.into(),
            filename: row.file.into(),
        });
        let mut profile = std::mem::take(&mut self.profile);
        profile.mapping = mapping.collect();
        profile.location = location.collect();
        profile.function = function.collect();
        profile.string_table = self.tables.take_strings();
        profile
    }
}
