//! A window as requests of Parca: profiles of pprof with labels, in JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tare_store::{LabelSet, Segment};

use super::pprof;
use super::request::{PushRequest, REQUEST_BYTES};
use super::window_rows::{by_service, service_labels};

const PATH: &str = "/api/profiles/writeraw";

/// First part of the names of profile types in Parca.
const NAME: &str = "tare";

/// Returns the requests that a window takes.
pub(super) fn encode(segment: &Segment) -> Vec<PushRequest> {
    let mut requests = Vec::new();
    let mut series = Vec::new();
    let mut samples = 0;
    let mut bytes = 0;
    for (labels, service) in by_service(segment) {
        for profile in pprof::encode(segment, &service) {
            if bytes > 0 && bytes + profile.bytes.len() > REQUEST_BYTES {
                requests.push(request(&series, samples));
                series.clear();
                (samples, bytes) = (0, 0);
            }
            samples += profile.samples;
            bytes += profile.bytes.len();
            series.push(json!({
                "labels": {"labels": label_list(segment, &labels)},
                "samples": [{"rawProfile": STANDARD.encode(&profile.bytes)}],
            }));
        }
    }
    if !series.is_empty() {
        requests.push(request(&series, samples));
    }
    requests
}

fn label_list(segment: &Segment, labels: &LabelSet) -> Vec<Value> {
    let named = std::iter::once(("__name__", NAME)).chain(service_labels(segment, labels));
    named.map(|(name, value)| json!({"name": name, "value": value})).collect()
}

fn request(series: &[Value], samples: u64) -> PushRequest {
    PushRequest {
        path: PATH.to_owned(),
        content_type: "application/json".to_owned(),
        body: json!({"series": series}).to_string().into_bytes(),
        // The profiles are compressed.
        is_gzip: false,
        samples,
    }
}
