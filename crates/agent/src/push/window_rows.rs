//! A window as targets see it: its rows by service, and the names of labels and values.

use foldhash::fast::RandomState;
use indexmap::IndexMap;
use tare_store::{LabelSet, Segment, SegmentRow, TextId};

/// Events whose weight is nanoseconds on a CPU.
const CLOCKS: [&str; 2] = ["cpu-clock", "task-clock"];

/// The event of off-CPU time.
const OFF_CPU: &str = "offcpu-time";

/// The rows of a service.
#[derive(Debug, Default)]
pub(super) struct ServiceRows {
    /// Its rows, in the order of the window.
    pub(super) rows: Vec<SegmentRow>,
}

/// A kind of values: the weight of an event's samples, or their number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueKind {
    /// Name of the weight, such as `cpu`.
    pub(super) name: String,
    /// Unit of the weight.
    pub(super) unit: &'static str,
    /// Name of the number of samples.
    pub(super) count_name: String,
}

/// Returns rows by what all of a service's samples have in common: labels without process, thread
/// and further ones.
pub(super) fn by_service(segment: &Segment) -> IndexMap<LabelSet, ServiceRows, RandomState> {
    let mut services = IndexMap::<LabelSet, ServiceRows, RandomState>::default();
    for row in segment.rows() {
        let labels = LabelSet { process: None, thread: None, extra: None, ..row.labels };
        services.entry(labels).or_default().rows.push(row);
    }
    services
}

impl ValueKind {
    /// Names the values of an event. Some receivers split names at characters other than letters,
    /// digits and `_`.
    pub(super) fn for_event(event: &str) -> Self {
        let base = event.split_once(':').map_or(event, |(base, _)| base);
        let (name, unit) = match base {
            base if CLOCKS.contains(&base) => ("cpu", "nanoseconds"),
            OFF_CPU => ("off_cpu", "nanoseconds"),
            _ => (event, "count"),
        };
        let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let count_name = match name.as_str() {
            "cpu" => "samples".to_owned(),
            name => format!("{name}_samples"),
        };
        Self { name, unit, count_name }
    }

    /// Returns it with the event's own name.
    pub(super) fn renamed(self, event: &str) -> Self {
        let name = event.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        Self { count_name: format!("{name}_samples"), name, ..self }
    }
}

/// Returns the host and the labels that all samples of a service have.
pub(super) fn service_labels<'a>(
    segment: &'a Segment,
    labels: &LabelSet,
) -> impl Iterator<Item = (&'static str, &'a str)> {
    let named = [
        ("service", labels.service),
        ("version", labels.version),
        ("container", labels.container),
        ("unit", labels.unit),
        ("namespace", labels.namespace),
        ("pod", labels.pod),
        ("owner", labels.owner),
        ("image", labels.image),
    ];
    let named = named.into_iter().filter_map(|(name, id)| Some((name, segment.text(id?))));
    std::iter::once(("host", segment.info().host.as_str())).chain(named)
}

/// Returns the further labels of rows, which are a JSON object in the window.
pub(super) fn further_labels(segment: &Segment, extra: Option<TextId>) -> Vec<[String; 2]> {
    let json = extra.map_or("{}", |extra| segment.text(extra));
    let object: serde_json::Map<String, serde_json::Value> =
        serde_json::from_str(json).unwrap_or_default();
    let text = |value: serde_json::Value| match value {
        serde_json::Value::String(text) => text,
        other => other.to_string(),
    };
    object.into_iter().map(|(name, value)| [name, text(value)]).collect()
}

/// Returns a count as a signed number, as receivers have it.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_names_and_units() {
        for (event, name, unit, count_name) in [
            ("cpu-clock", "cpu", "nanoseconds", "samples"),
            ("cpu-clock:u", "cpu", "nanoseconds", "samples"),
            ("offcpu-time", "off_cpu", "nanoseconds", "off_cpu_samples"),
            ("cycles", "cycles", "count", "cycles_samples"),
            ("sched:sched_switch", "sched_sched_switch", "count", "sched_sched_switch_samples"),
            ("\u{1b}[1m-", "__1m_", "count", "__1m__samples"),
        ] {
            let kind = ValueKind::for_event(event);
            assert_eq!((&kind.name[..], kind.unit, &kind.count_name[..]), (name, unit, count_name));
        }
    }
}
