//! A recording.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Value, json};
use tare_fleet::{Condition, Selection};
use tare_profile::SliceRow;
use tare_render::flame::{Collector, RecordingInfo};

use crate::error::ServeError;
use crate::job::Job;
use crate::source::functions::{FrameNames, LabelSum, LabelSums, RecordedLabel, row_text, sum_up};
use crate::source::{FlameSide, ProfileSource, RecordedProfile};
use crate::view::SampleView;

/// Version of the documents, as that of `tare fleet`.
const VERSION: u32 = 1;

/// A recording that was read to its end.
pub(super) struct RecordedSource {
    recorded: Arc<RecordedProfile>,
    samples: Collector,
}

/// Slices of a recording: length of one in microseconds, and number.
#[derive(Clone, Copy)]
struct RecordedTimes {
    step_us: i64,
    count: usize,
}

impl RecordedTimes {
    fn slice_start_us(self, slice: u32) -> i64 {
        self.step_us.saturating_mul(i64::from(slice))
    }
}

impl RecordedSource {
    pub(super) fn new(recorded: RecordedProfile, samples: Collector) -> Self {
        Self { recorded: Arc::new(recorded), samples }
    }

    fn times(&self) -> RecordedTimes {
        let (_, width_ns, count) = self.samples.times().unwrap_or((0, 1000, 1));
        let step_us = i64::try_from(width_ns.div_ceil(1000)).unwrap_or(i64::MAX).max(1);
        RecordedTimes { step_us, count: count.max(1) as usize }
    }

    /// Returns the rows that fulfil a selection, whose times begin with the recording.
    fn select(&self, selection: &Selection) -> Result<Collector, ServeError> {
        let mut conditions: Vec<(RecordedLabel, &Condition)> = Vec::new();
        for condition in &selection.conditions {
            let label = label(condition.label())?;
            if matches!(label, RecordedLabel::Function | RecordedLabel::Module) {
                let message = format!("where: {} selects no samples", condition.label());
                return Err(ServeError::Question(message));
            }
            conditions.push((label, condition));
        }
        let times = self.times();
        let profile = &self.recorded.profile;
        Ok(self.samples.filtered(|sliced: &SliceRow| {
            let start_us = times.slice_start_us(sliced.slice);
            selection.since_us.is_none_or(|since| start_us.saturating_add(times.step_us) > since)
                && selection.until_us.is_none_or(|until| start_us < until)
                && conditions.iter().all(|(label, condition)| {
                    condition.is_met_by(Some(&row_text(profile, *label, &sliced.row)))
                })
        }))
    }

    fn sums(&self, selection: &Selection, label: RecordedLabel) -> Result<LabelSums, ServeError> {
        let selected = self.select(selection)?;
        Ok(sum_up(&self.recorded.profile, selected.sliced(), label))
    }
}

fn label(name: &str) -> Result<RecordedLabel, ServeError> {
    RecordedLabel::from_name(name).ok_or_else(|| {
        let names: Vec<&str> = RecordedLabel::ALL.iter().map(|(name, _)| *name).collect();
        ServeError::Question(format!("'{name}': a recording has {}", names.join(", ")))
    })
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn document(question: &str, rows: &[Value], remarks: &[String]) -> Value {
    json!({ "version": VERSION, "question": question, "rows": rows, "remarks": remarks })
}

impl ProfileSource for RecordedSource {
    fn about(&self, _job: &Job) -> Result<Value, ServeError> {
        let times = self.times();
        let mut kept = vec![0_u64; times.count];
        for sliced in self.samples.sliced() {
            if let Some(sum) = kept.get_mut(sliced.slice as usize) {
                *sum = sum.saturating_add(sliced.weight.samples);
            }
        }
        let count = i64::try_from(times.count).unwrap_or(i64::MAX);
        Ok(json!({
            "kind": "recording",
            "name": tare_format::printable(self.recorded.name.as_str()),
            "start_us": 0,
            "end_us": times.step_us.saturating_mul(count),
            "step_us": times.step_us,
            "kept": kept,
            "lost": [],
            "labels": RecordedLabel::ALL.map(|(name, _)| name),
        }))
    }

    fn series(&self, view: &SampleView, _job: &Job) -> Result<Value, ServeError> {
        let labels: Vec<RecordedLabel> =
            view.by.iter().map(|name| label(name)).collect::<Result<_, _>>()?;
        let selected = self.select(&view.selection)?;
        let times = self.times();
        let profile = &self.recorded.profile;
        let mut functions = FrameNames::new(profile, RecordedLabel::Function);
        let mut series: BTreeMap<(String, Vec<String>), [Vec<u64>; 3]> = BTreeMap::new();
        for sliced in selected.sliced() {
            let event = row_text(profile, RecordedLabel::Event, &sliced.row);
            let names = labels.iter().map(|label| row_text(profile, *label, &sliced.row)).collect();
            let one = series.entry((event, names));
            let [samples, weights, parts] =
                one.or_insert_with(|| std::array::from_fn(|_| vec![0; times.count]));
            let at = (sliced.slice as usize).min(times.count - 1);
            samples[at] += sliced.weight.samples;
            weights[at] += sliced.weight.period;
            if let Some(wanted) = &view.function {
                let names = functions.names(&sliced.row);
                let is_in = names.into_iter().any(|name| functions.text(name) == wanted);
                parts[at] += if is_in { sliced.weight.period } else { 0 };
            }
        }
        let series = series.into_iter().map(|((event, names), [samples, weights, parts])| {
            let parts = if view.function.is_some() { parts } else { Vec::new() };
            let samples: u64 = samples.iter().sum();
            json!({ "event": event, "names": names, "samples": samples, "weights": weights, "parts": parts })
        });
        let series: Vec<Value> = series.collect();
        Ok(json!({ "start_us": 0, "step_us": times.step_us, "by": view.by, "series": series }))
    }

    fn top(&self, view: &SampleView, _job: &Job) -> Result<Value, ServeError> {
        let sums = self.sums(&view.selection, label(view.label())?)?;
        let mut groups: Vec<(&(String, String), &LabelSum)> = sums.groups.iter().collect();
        let weight = |sum: &LabelSum| if view.with_total { sum.total } else { sum.own };
        groups.retain(|(_, sum)| weight(sum) > 0);
        groups
            .sort_by(|(a, left), (b, right)| a.0.cmp(&b.0).then(weight(right).cmp(&weight(left))));
        let by_event = groups.chunk_by(|((a, _), _), ((b, _), _)| a == b);
        let listed = by_event.flat_map(|groups| groups.iter().take(view.rows));
        let rows = listed.map(|((event, name), sum)| {
            let all = sums.events.get(event).copied().unwrap_or(0);
            let mut row = json!({
                "event": event,
                "self_share": share(sum.own, all),
                "self": sum.own,
                "total_share": share(sum.total, all),
                "total": sum.total,
                "samples": sum.samples,
            });
            row[view.label()] = json!(name);
            row
        });
        Ok(document("top", &rows.collect::<Vec<_>>(), &[]))
    }

    fn losses(&self, _view: &SampleView, _job: &Job) -> Result<Value, ServeError> {
        let info = RecordingInfo::new(&self.recorded.name, &self.recorded.whole());
        let RecordingInfo { session, losses, ledger, .. } = info;
        let has_losses = !losses.is_empty();
        let lines = losses.into_iter().chain(ledger).chain(session);
        let mut document = document("losses", &[], &lines.collect::<Vec<_>>());
        document["has_losses"] = json!(has_losses);
        Ok(document)
    }

    fn diff(&self, view: &SampleView, _job: &Job) -> Result<Value, ServeError> {
        let versus = view.versus.as_ref();
        let nothing = || ServeError::Question("versus: give a second selection".to_owned());
        let by = label(view.label())?;
        let before = self.sums(&view.selection, by)?;
        let after = self.sums(versus.ok_or_else(nothing)?, by)?;
        let names: BTreeSet<_> = before.groups.keys().chain(after.groups.keys()).collect();
        let mut rows: Vec<(f64, Value)> = Vec::new();
        for key in names {
            let side = |sums: &LabelSums| {
                let sum = sums.groups.get(key).copied().unwrap_or_default();
                let weight = if view.with_total { sum.total } else { sum.own };
                (weight, share(weight, sums.events.get(&key.0).copied().unwrap_or(0)))
            };
            let [(before, before_share), (after, after_share)] = [&before, &after].map(side);
            let difference = after_share - before_share;
            let mut row = json!({
                "event": key.0,
                "difference": difference,
                "before_share": before_share,
                "after_share": after_share,
                "before": before,
                "after": after,
            });
            row[view.label()] = json!(key.1);
            rows.push((difference.abs(), row));
        }
        rows.sort_by(|a, b| b.0.total_cmp(&a.0));
        rows.truncate(view.rows);
        let rows: Vec<Value> = rows.into_iter().map(|(_, row)| row).collect();
        Ok(document("diff", &rows, &[]))
    }

    fn regressions(&self, _view: &SampleView, _job: &Job) -> Result<Value, ServeError> {
        let message = "verdicts need the samples of several hosts: serve a store";
        Ok(document("regressions", &[], &[message.to_owned()]))
    }

    fn side(&self, selection: &Selection, _job: &Job) -> Result<FlameSide, ServeError> {
        let samples = self.select(selection)?;
        if samples.is_empty() {
            return Err(ServeError::Question("no sample is selected".to_owned()));
        }
        Ok(FlameSide { recorded: Arc::clone(&self.recorded), samples })
    }
}
