//! PMUs: their numbers and capabilities.

use tare_format::file::writer::Feature;
use tare_kernel::host::{Host, Pmu};

pub(super) fn features(host: &Host) -> Vec<Feature> {
    let pmus = host.pmus().unwrap_or_default();
    let mut features = Vec::new();
    let mappings: Vec<_> =
        pmus.iter().filter_map(|pmu| Some((pmu.kind().ok()?, pmu.name().to_owned()))).collect();
    if !mappings.is_empty() {
        features.push(Feature::PmuMappings(mappings));
    }
    let kinds_of_cores: Vec<_> =
        pmus.iter().filter(|pmu| pmu.name().starts_with("cpu_")).filter_map(cpus).collect();
    let mut others = Vec::new();
    for pmu in &pmus {
        let caps = pmu.caps();
        match caps {
            _ if caps.is_empty() => {}
            caps if pmu.name() == "cpu" => features.push(Feature::CpuPmuCaps(caps)),
            caps => others.push((pmu.name().to_owned(), caps)),
        }
    }
    if !others.is_empty() {
        features.push(Feature::PmuCaps(others));
    }
    if !kinds_of_cores.is_empty() {
        features.push(Feature::HybridTopology(kinds_of_cores));
    }
    features
}

fn cpus(pmu: &Pmu) -> Option<(String, String)> {
    Some((pmu.name().to_owned(), pmu.cpus().ok()??.to_string()))
}
