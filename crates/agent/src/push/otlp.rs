//! A window as requests of the OpenTelemetry protocol.
//!
//! Source: `opentelemetry/proto/profiles/v1development/profiles.proto` of opentelemetry-proto
//! 1.10.0, whose messages `opentelemetry-proto` has.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use indexmap::{IndexMap, IndexSet};
use opentelemetry_proto::tonic::collector::profiles::v1development::{
    ExportProfilesServiceRequest, ExportProfilesServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::profiles::v1development::{
    Function, KeyValueAndUnit, Line, Link, Location, Mapping, Profile, ProfilesDictionary,
    ResourceProfiles, Sample, ScopeProfiles, Stack, ValueType,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use tare_store::{LabelSet, Segment, SegmentRow, StackId, TextId};
use twox_hash::XxHash64;

use super::request::{PushRequest, REQUEST_BYTES, gzip};
use super::sender::TargetAnswer;
use super::tables::Tables;
use super::window_rows::{ServiceRows, ValueKind, by_service, further_labels, signed};

/// Path of the service, for HTTP.
const PATH: &str = "/v1development/profiles";

/// Characters of a collector's message that an error shows.
const ERROR_CHARS: usize = 200;

/// Bytes of a sample in a request, about, without its stack.
const SAMPLE_BYTES: usize = 24;

/// Returns the requests that a window takes.
pub(super) fn encode(segment: &Segment) -> Vec<PushRequest> {
    let mut requests = Vec::new();
    let mut builder = RequestBuilder::new(segment);
    for (labels, ServiceRows { rows }) in by_service(segment) {
        builder.begin_service(&labels);
        for row in rows {
            builder.add(&row);
            if builder.bytes() >= REQUEST_BYTES {
                let full = std::mem::replace(&mut builder, RequestBuilder::new(segment));
                requests.push(full.finish(requests.len()));
                builder.begin_service(&labels);
            }
        }
        builder.end_service();
    }
    if builder.samples > 0 {
        requests.push(builder.finish(requests.len()));
    }
    requests
}

/// The profiles of an event and a service: weights, and numbers of samples.
#[derive(Default)]
struct EventProfiles {
    weights: Vec<Sample>,
    counts: Vec<Sample>,
    weight: u64,
    samples: u64,
}

/// What the samples of a row have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct SampleLabels {
    labels: LabelSet,
    wait_reason: Option<TextId>,
}

/// Attributes of samples, frames and modules: a name and a value, both numbers of texts.
type Attributes = IndexSet<[u32; 2], RandomState>;

struct RequestBuilder<'a> {
    segment: &'a Segment,
    tables: Tables<'a>,
    attributes: Attributes,
    /// Attributes of samples with the same labels.
    known: HashMap<SampleLabels, Vec<i32>, RandomState>,
    stacks: IndexMap<StackId, Vec<i32>, RandomState>,
    finished: Vec<ResourceProfiles>,
    service: LabelSet,
    events: IndexMap<TextId, EventProfiles, RandomState>,
    samples: u64,
    sample_bytes: usize,
}

impl<'a> RequestBuilder<'a> {
    fn new(segment: &'a Segment) -> Self {
        Self {
            segment,
            tables: Tables::new(segment),
            attributes: IndexSet::default(),
            known: HashMap::default(),
            stacks: IndexMap::default(),
            finished: Vec::new(),
            service: LabelSet::default(),
            events: IndexMap::default(),
            samples: 0,
            sample_bytes: 0,
        }
    }

    fn bytes(&self) -> usize {
        self.tables.bytes() + self.sample_bytes + self.attributes.len() * SAMPLE_BYTES
    }

    fn begin_service(&mut self, labels: &LabelSet) {
        self.service = *labels;
    }

    fn add(&mut self, row: &SegmentRow) {
        let stack_index = self.stack(row.stack);
        let labels = SampleLabels { labels: row.labels, wait_reason: row.wait_reason };
        let attribute_indices = self.sample_attributes(labels);
        let profiles = self.events.entry(row.event).or_default();
        let sample = |value| Sample {
            stack_index,
            attribute_indices: attribute_indices.clone(),
            values: vec![signed(value)],
            ..Sample::default()
        };
        profiles.weights.push(sample(row.weight));
        profiles.counts.push(sample(row.samples));
        profiles.weight = profiles.weight.saturating_add(row.weight);
        profiles.samples = profiles.samples.saturating_add(row.samples);
        self.samples = self.samples.saturating_add(row.samples);
        self.sample_bytes += 2 * (SAMPLE_BYTES + 2 * attribute_indices.len());
    }

    fn stack(&mut self, id: StackId) -> i32 {
        if let Some(at) = self.stacks.get_index_of(&id) {
            return index(at + 1);
        }
        let mut locations = Vec::new();
        self.tables.stack(id, &mut locations);
        self.sample_bytes += 3 * locations.len();
        let locations = locations.into_iter().map(u32::cast_signed).collect();
        index(self.stacks.insert_full(id, locations).0 + 1)
    }

    fn attribute(&mut self, name: u32, value: u32) -> i32 {
        index(self.attributes.insert_full([name, value]).0 + 1)
    }

    fn sample_attributes(&mut self, of: SampleLabels) -> Vec<i32> {
        if let Some(known) = self.known.get(&of) {
            return known.clone();
        }
        let mut indices = Vec::new();
        for (name, label) in [
            ("process.executable.name", of.labels.process),
            ("thread.name", of.labels.thread),
            ("tare.wait_reason", of.wait_reason),
        ] {
            if label.is_some() {
                let [name, value] = [self.tables.string(name), self.tables.text(label)];
                indices.push(self.attribute(name, value));
            }
        }
        for label in further_labels(self.segment, of.labels.extra) {
            let [name, value] = label.map(|text| self.tables.string(text));
            indices.push(self.attribute(name, value));
        }
        self.known.insert(of, indices.clone());
        indices
    }

    /// Turns the rows of the service into profiles.
    fn end_service(&mut self) {
        let events = std::mem::take(&mut self.events);
        if events.is_empty() {
            return;
        }
        let mut profiles = Vec::new();
        for (event, sums) in events {
            let kind = ValueKind::for_event(self.segment.text(event));
            let EventProfiles { weights, counts, weight, samples } = sums;
            let period = signed(weight.checked_div(samples).unwrap_or(0));
            let weights = Profile { samples: weights, period, ..Profile::default() };
            let counts = Profile { samples: counts, period, ..Profile::default() };
            let period_type = self.value_type(&kind.name, kind.unit);
            let count_type = self.value_type(&kind.count_name, "count");
            profiles.push(self.described(weights, period_type, period_type));
            profiles.push(self.described(counts, count_type, period_type));
        }
        self.finished.push(ResourceProfiles {
            resource: Some(self.resource()),
            scope_profiles: vec![ScopeProfiles {
                scope: Some(self.scope()),
                profiles,
                ..ScopeProfiles::default()
            }],
            ..ResourceProfiles::default()
        });
    }

    fn value_type(&mut self, name: &str, unit: &'static str) -> ValueType {
        let type_strindex = self.tables.string(name.to_owned()).cast_signed();
        let unit_strindex = self.tables.string(unit).cast_signed();
        ValueType { type_strindex, unit_strindex }
    }

    /// Adds time and types to a profile.
    fn described(&self, profile: Profile, values: ValueType, period: ValueType) -> Profile {
        let info = self.segment.info();
        let ns = |us: i64| u64::try_from(us).unwrap_or(0).saturating_mul(1000);
        Profile {
            sample_type: Some(values),
            period_type: Some(period),
            time_unix_nano: ns(info.start_us),
            duration_nano: ns(info.end_us.saturating_sub(info.start_us)),
            ..profile
        }
    }

    fn resource(&self) -> Resource {
        let host = self.segment.info().host.clone();
        let labels = [
            ("service.name", self.service.service),
            ("service.version", self.service.version),
            ("container.id", self.service.container),
            ("container.image.name", self.service.image),
            ("k8s.namespace.name", self.service.namespace),
            ("k8s.pod.name", self.service.pod),
            ("tare.owner", self.service.owner),
            ("tare.unit", self.service.unit),
        ];
        let text = |label: Option<TextId>| label.map(|label| self.segment.text(label).to_owned());
        let labels = labels.into_iter().filter_map(|(name, id)| Some((name, text(id)?)));
        let attributes = std::iter::once(("host.name", host)).chain(labels);
        Resource {
            attributes: attributes
                .map(|(name, text)| pair(name, Value::StringValue(text)))
                .collect(),
            ..Resource::default()
        }
    }

    /// Returns the scope, whose attributes are the figures of the host's window.
    fn scope(&self) -> InstrumentationScope {
        let figures = self.segment.figures();
        let counts = [
            ("tare.window.samples", figures.samples),
            ("tare.window.lost", figures.lost),
            ("tare.window.truncated", figures.truncated),
            ("tare.window.unnamed", figures.unnamed),
        ];
        InstrumentationScope {
            name: "tare".to_owned(),
            version: self.segment.info().agent_version.clone(),
            attributes: counts
                .into_iter()
                .map(|(name, count)| pair(name, Value::IntValue(signed(count))))
                .collect(),
            ..InstrumentationScope::default()
        }
    }

    fn finish(mut self, part: usize) -> PushRequest {
        self.end_service();
        self.identify(part);
        let dictionary = self.dictionary();
        let request = ExportProfilesServiceRequest {
            resource_profiles: self.finished,
            dictionary: Some(dictionary),
        };
        PushRequest {
            path: PATH.to_owned(),
            content_type: "application/x-protobuf".to_owned(),
            body: gzip(&request.encode_to_vec()),
            is_gzip: true,
            samples: self.samples,
        }
    }

    /// Gives each profile an id that it also has if the request is sent twice.
    fn identify(&mut self, part: usize) {
        let info = self.segment.info();
        let window = format!("{}\n{}\n{}\n{part}\n", info.host, info.boot, info.start_us);
        let profiles = self.finished.iter_mut().flat_map(|resource| &mut resource.scope_profiles);
        for (at, profile) in profiles.flat_map(|scope| &mut scope.profiles).enumerate() {
            let name = format!("{window}{at}");
            let halves = [1, 2].map(|seed| XxHash64::oneshot(seed, name.as_bytes()).to_be_bytes());
            profile.profile_id = halves.concat();
        }
    }

    fn dictionary(&mut self) -> ProfilesDictionary {
        let build_id_name = self.tables.string("process.executable.build_id.gnu");
        let frame_type_name = self.tables.string("profile.frame.type");
        let [native, kernel] = ["native", "kernel"].map(|text| self.tables.string(text));
        let frame_types = [native, kernel].map(|value| self.attribute(frame_type_name, value));
        let modules: Vec<_> = self.tables.modules().collect();
        let mapping = |module: &super::tables::ModuleRow| Mapping {
            memory_limit: module.end,
            filename_strindex: module.path.cast_signed(),
            attribute_indices: match module.build_id {
                0 => Vec::new(),
                id => vec![self.attribute(build_id_name, id)],
            },
            ..Mapping::default()
        };
        let mapping_table = with_null(modules.iter().map(mapping));
        let location = |row: super::tables::LocationRow| Location {
            mapping_index: row.module.cast_signed(),
            address: row.address,
            lines: match row.function {
                0 => Vec::new(),
                function => {
                    let function_index = function.cast_signed();
                    vec![Line { function_index, line: row.line.into(), column: 0 }]
                }
            },
            attribute_indices: vec![frame_types[usize::from(row.is_kernel)]],
        };
        let location_table = with_null(self.tables.locations().map(location));
        let function = |row: super::tables::FunctionRow| Function {
            name_strindex: row.name.cast_signed(),
            filename_strindex: row.file.cast_signed(),
            ..Function::default()
        };
        let function_table = with_null(self.tables.functions().map(function));
        let stacks = std::mem::take(&mut self.stacks);
        let stack_table =
            with_null(stacks.into_values().map(|location_indices| Stack { location_indices }));
        let string_table = self.tables.take_strings();
        let attribute = |[name, value]: &[u32; 2]| KeyValueAndUnit {
            key_strindex: name.cast_signed(),
            value: Some(AnyValue {
                value: Some(Value::StringValue(string_table[*value as usize].clone())),
            }),
            unit_strindex: 0,
        };
        let attribute_table = with_null(self.attributes.iter().map(attribute));
        ProfilesDictionary {
            mapping_table,
            location_table,
            function_table,
            link_table: vec![Link::default()],
            attribute_table,
            stack_table,
            string_table,
        }
    }
}

/// Returns a table, whose first row stands for none.
fn with_null<T: Default>(rows: impl Iterator<Item = T>) -> Vec<T> {
    std::iter::once(T::default()).chain(rows).collect()
}

fn pair(name: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: name.to_owned(), value, ..KeyValue::default() }
}

fn index(at: usize) -> i32 {
    i32::try_from(at).unwrap_or(i32::MAX)
}

/// Reads whether a collector accepted all profiles. Of how many samples those that it rejected are,
/// it doesn't tell.
pub(super) fn accepted(body: &[u8]) -> TargetAnswer {
    let response = ExportProfilesServiceResponse::decode(body).unwrap_or_default();
    match response.partial_success {
        Some(partial) if partial.rejected_profiles > 0 => {
            let text: String = partial.error_message.chars().take(ERROR_CHARS).collect();
            TargetAnswer::Refused(format!(
                "it rejected {} profiles: {text}",
                partial.rejected_profiles
            ))
        }
        _ => TargetAnswer::Accepted,
    }
}
