//! A window as requests of Pyroscope: a form with a profile of pprof for each service.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use tare_store::{LabelSet, Segment};

use super::pprof::{self, EncodedProfile};
use super::request::PushRequest;
use super::window_rows::{ValueKind, by_service, service_labels};

const PATH: &str = "/ingest";

/// Separates the parts of a form. A compressed profile can hold it only by chance.
const BOUNDARY: &str = "tare-7f3c1e5d90ab4628a5c4d2b1";

/// Name of samples without a service.
const UNNAMED: &str = "unknown";

/// Returns the requests that a window takes.
pub(super) fn encode(segment: &Segment) -> Vec<PushRequest> {
    let mut requests = Vec::new();
    for (labels, service) in by_service(segment) {
        let profiles = pprof::encode(segment, &service).into_iter();
        requests.extend(profiles.map(|profile| request(segment, &labels, &profile)));
    }
    requests
}

fn request(segment: &Segment, labels: &LabelSet, profile: &EncodedProfile) -> PushRequest {
    let info = segment.info();
    let mut path = format!("{PATH}?name=");
    push_encoded(&mut path, &name(segment, labels));
    let _ = write!(
        path,
        "&from={}&until={}&format=pprof&spyName=tare",
        info.start_us.div_euclid(1_000_000),
        info.end_us.div_euclid(1_000_000)
    );
    let types = sample_types(&profile.kinds).to_string();
    let mut body = Vec::new();
    for (field, content) in
        [("profile", &profile.bytes[..]), ("sample_type_config", types.as_bytes())]
    {
        let head = format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{field}\"; \
             filename=\"{field}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{BOUNDARY}--\r\n").as_bytes());
    PushRequest {
        path,
        content_type: format!("multipart/form-data; boundary={BOUNDARY}"),
        body,
        // The profile is compressed.
        is_gzip: false,
        samples: profile.samples,
    }
}

/// Describes the values: without it, Pyroscope keeps those that Go's runtime writes.
fn sample_types(kinds: &[ValueKind]) -> Value {
    let mut types = Map::new();
    for kind in kinds {
        for (name, unit) in [(&kind.count_name, "count"), (&kind.name, kind.unit)] {
            types.insert(name.clone(), json!({"units": unit, "display-name": name}));
        }
    }
    types.into()
}

/// Returns a service's name with its labels, such as `api{version=1.2}`. The syntax has no quotes,
/// so characters that it uses become `_`.
fn name(segment: &Segment, labels: &LabelSet) -> String {
    let plain = |text: &str| -> String {
        let is_special = |c: char| c.is_control() || c.is_whitespace() || "{}=,\"".contains(c);
        text.chars().map(|c| if is_special(c) { '_' } else { c }).collect()
    };
    let service = labels.service.map_or(UNNAMED, |service| segment.text(service));
    let labels = service_labels(segment, labels).filter(|(name, _)| *name != "service");
    let labels: Vec<_> = labels.map(|(name, value)| format!("{name}={}", plain(value))).collect();
    format!("{}{{{}}}", plain(service), labels.join(","))
}

/// Appends a text as a query's value.
fn push_encoded(out: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            other => _ = write!(out, "%{other:02X}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tare_store::{Figures, SegmentBuilder, SegmentInfo};

    use super::*;

    #[test]
    fn labels_cannot_break_out_of_the_name() {
        let info = SegmentInfo { host: "h=1,{}".to_owned(), ..SegmentInfo::default() };
        let mut builder = SegmentBuilder::new(info);
        let labels = LabelSet {
            service: Some(builder.text("a{b=\"c\"} d")),
            version: Some(builder.text("1,\n2")),
            ..LabelSet::default()
        };
        let segment = builder.finish(Figures::default());
        assert_eq!(name(&segment, &labels), "a_b__c___d{host=h_1___,version=1__2}");
        let mut query = String::new();
        push_encoded(&mut query, "a&b é");
        assert_eq!(query, "a%26b%20%C3%A9");
    }
}
