//! `tare evlist`: lists the events of a recording, as `perf evlist` does.

use std::io::Write;

use serde_json::{Value, json};
use tare_format::abi::Sampling;
use tare_format::file::{Description, RecordedEvent};
use tare_format::printable;
use tare_format::record::kind;
use tare_render::script::attr_line;
use tare_replay::{Recording, Tracepoints};
use tare_symbols::SymbolOptions;
use tare_tui::ProgressLine;

use crate::Outcome;
use crate::cli::raw::EvlistArgs;
use crate::command::recording::open;
use crate::exit::Exit;

pub(crate) fn run(raw: &EvlistArgs) -> Outcome {
    let progress = ProgressLine::begin();
    let mut recording = open(&raw.input.path(), &mut SymbolOptions::default(), &progress)?;
    learn(&mut recording)?;
    drop(progress);
    let description = recording.description();
    let mut tracepoints = Tracepoints::default();
    tracepoints.learn(description);
    let names: Vec<String> = description
        .events()
        .iter()
        .map(|event| printable(&tracepoints.event_name(event)).into_owned())
        .collect();
    let mut out = std::io::stdout().lock();
    if raw.json.json {
        let events = description.events().iter().zip(&names);
        let events: Vec<Value> = events.map(|(event, name)| document(event, name)).collect();
        let groups: Vec<_> = groups(description).filter(|members| members.len() > 1).collect();
        let document = json!({ "version": 1, "events": events, "groups": groups });
        tare_render::json_line(&mut out, &document)?;
        return Ok(Exit::Success);
    }
    if raw.group {
        for members in groups(description) {
            let members: Vec<_> = members.iter().filter_map(|at| names.get(*at)).collect();
            match members.as_slice() {
                [only] => writeln!(out, "{only}")?,
                members => {
                    let names: Vec<_> = members.iter().map(|name| name.as_str()).collect();
                    writeln!(out, "{{{}}}", names.join(","))?;
                }
            }
        }
        return Ok(Exit::Success);
    }
    for (event, name) in description.events().iter().zip(&names) {
        writeln!(out, "{name}{}", details(raw, event, &tracepoints))?;
    }
    Ok(Exit::Success)
}

/// Reads the records of a stream that describe its events, and the kernel's first record, which
/// follows them.
fn learn(recording: &mut Recording) -> anyhow::Result<()> {
    if recording.description().events().is_empty() {
        while recording
            .next_record()?
            .is_some_and(|entry| entry.record.kind >= kind::USER_TYPE_START)
        {}
    }
    Ok(())
}

/// The text after the event's name.
fn details(raw: &EvlistArgs, event: &RecordedEvent, tracepoints: &Tracepoints) -> String {
    if raw.verbose > 0 {
        return format!(": {}", attr_line(&event.attr));
    }
    let fields = raw.trace_fields.then(|| tracepoints.field_names(event)).flatten();
    if let Some(fields) = fields {
        return format!(": trace_fields: {}", printable(fields.join(",").as_bytes()));
    }
    match event.attr.sampling {
        Sampling::Period(period) if raw.freq => format!(": sample_period={period}"),
        Sampling::Frequency(hertz) if raw.freq => format!(": sample_freq={hertz}"),
        _ => String::new(),
    }
}

/// Indexes of the events, by group. An event without a group is a group of one.
fn groups(description: &Description) -> impl Iterator<Item = Vec<usize>> {
    let recorded = description.features().group_desc().unwrap_or_default();
    let events = description.events().len();
    let ranges: Vec<_> = recorded.iter().map(|group| group.places(events)).collect();
    (0..events).filter_map(move |place| match ranges.iter().find(|range| range.contains(&place)) {
        Some(range) if range.start == place => Some(range.clone().collect()),
        Some(_) => None,
        None => Some(vec![place]),
    })
}

fn document(event: &RecordedEvent, name: &str) -> Value {
    let attr = &event.attr;
    let (period, frequency) = match attr.sampling {
        Sampling::None => (None, None),
        Sampling::Period(period) => (Some(period), None),
        Sampling::Frequency(hertz) => (None, Some(hertz)),
    };
    json!({
        "name": name,
        "type": attr.kind,
        "config": format!("{:#x}", attr.config),
        "sample_period": period,
        "sample_freq": frequency,
        "sample_type": format!("{:#x}", attr.sample_type),
        "attributes": attr_line(attr),
    })
}
