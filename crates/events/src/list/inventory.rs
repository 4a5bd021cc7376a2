//! The events of this machine, by kind.

use crate::Sources;
use crate::names::{HARDWARE, NamedEvent, SOFTWARE, cache_names};
use serde::Serialize;
use tare_kernel::host::{Host, Pmu};
use tare_kernel::open::Kernel;

use super::probe::{Answer, EventProbe};
use super::selection::{EventKind, EventSelection};

/// The events of one kind.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    pub(super) kind: EventKind,
    /// Why no event of this kind is available, if none is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lacks: Option<String>,
    pub(super) events: Vec<ListedEvent>,
    /// Numbers of tracepoints by system, if they are not listed one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) systems: Vec<System>,
}

/// An event, or a form for many events, like `rNNN`.
#[derive(Debug, Default, Serialize)]
pub(super) struct ListedEvent {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alias: Option<&'static str>,
    pub(super) available: bool,
    /// Why it isn't available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lacks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<&'static str>,
    /// The unit of results; empty for plain occurrences.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) unit: String,
}

/// A system of tracepoints.
#[derive(Debug, Serialize)]
pub(super) struct System {
    pub(super) name: String,
    /// Number of tracepoints.
    pub(super) events: usize,
}

/// Lists the selected events by kind. A kind that was selected only by names of events is left out
/// if none of its events matches.
pub(super) fn list_events(
    selection: &EventSelection,
    host: &Host,
    kernel: &dyn Kernel,
) -> Vec<Section> {
    let sources = Sources::new(host.clone());
    let probe = EventProbe::new(kernel, host, &sources);
    let section = |kind| match kind {
        EventKind::Hardware => fixed(kind, &HARDWARE, selection, &probe),
        EventKind::Software => fixed(kind, &SOFTWARE, selection, &probe),
        EventKind::Cache => {
            let names = cache_names().filter(|name| selection.has(kind, name));
            section_with_shared_reason(
                kind,
                selection,
                names.map(|name| entry(&name, None, probe.try_name(&name))).collect(),
            )
        }
        EventKind::Pmu => pmus(selection, &probe),
        EventKind::Raw => raw(selection, &probe),
        EventKind::Tracepoint => tracepoints(selection, &sources),
        EventKind::Breakpoint => breakpoints(selection, &probe),
    };
    let wanted = EventKind::ALL.into_iter().filter(|&kind| selection.may_have(kind)).map(section);
    wanted
        .filter(|section| selection.has_all_of(section.kind) || !section.events.is_empty())
        .collect()
}

fn entry(name: &str, alias: Option<&'static str>, answer: Answer) -> ListedEvent {
    ListedEvent {
        name: name.to_owned(),
        alias,
        available: answer.lacks.is_none(),
        lacks: answer.lacks,
        note: answer.note,
        unit: String::new(),
    }
}

/// Creates a section. If the whole kind is selected, and all of its events are unavailable for the
/// same reason, that is the section's.
fn section_with_shared_reason(
    kind: EventKind,
    selection: &EventSelection,
    events: Vec<ListedEvent>,
) -> Section {
    let shared =
        selection.has_all_of(kind) && events.iter().all(|entry| entry.lacks == events[0].lacks);
    let lacks = events.first().and_then(|first| first.lacks.clone()).filter(|_| shared);
    Section { kind, lacks, events, systems: Vec::new() }
}

fn fixed(
    kind: EventKind,
    table: &[NamedEvent],
    selection: &EventSelection,
    probe: &EventProbe<'_>,
) -> Section {
    let wanted = |event: &&NamedEvent| {
        [Some(event.name), event.alias].into_iter().flatten().any(|name| selection.has(kind, name))
    };
    let clock = |name: &str| {
        if ["task-clock", "cpu-clock"].contains(&name) { "msec".to_owned() } else { String::new() }
    };
    let entry = |event: &NamedEvent| ListedEvent {
        unit: clock(event.name),
        ..entry(event.name, event.alias, probe.try_name(event.name))
    };
    section_with_shared_reason(kind, selection, table.iter().filter(wanted).map(entry).collect())
}

/// Lists the events that PMUs name in sysfs.
fn pmus(selection: &EventSelection, probe: &EventProbe<'_>) -> Section {
    let mut events = Vec::new();
    for pmu in probe.sources.pmus() {
        for name in pmu.events().unwrap_or_default() {
            let typed = format!("{}/{name}/", pmu.name());
            if selection.has(EventKind::Pmu, &typed) {
                events.push(named(pmu, &name, &typed, probe));
            }
        }
    }
    let lacks = events.is_empty().then(|| "no PMU of this machine names events".to_owned());
    Section { kind: EventKind::Pmu, lacks, events, systems: Vec::new() }
}

fn named(pmu: &Pmu, name: &str, typed: &str, probe: &EventProbe<'_>) -> ListedEvent {
    let described = match pmu.event(name) {
        Ok(described) => described,
        Err(error) => {
            return entry(typed, None, Answer { lacks: Some(error.to_string()), note: None });
        }
    };
    let (terms, unit) = described.map_or_else(Default::default, |event| (event.terms, event.unit));
    let open: Vec<&str> = terms.split(',').filter(|term| term.ends_with("=?")).collect();
    if open.is_empty() {
        return ListedEvent { unit, ..entry(typed, None, probe.try_name(typed)) };
    }
    let shown = format!("{}/{name},{}/", pmu.name(), open.join(","));
    let answer = Answer { lacks: None, note: Some("not tried: put numbers in place of ?") };
    ListedEvent { unit, ..entry(&shown, None, answer) }
}

/// Lists the forms that take numbers, with the terms of each PMU.
fn raw(selection: &EventSelection, probe: &EventProbe<'_>) -> Section {
    let cores = match probe.sources.cores() {
        [] => Answer { lacks: Some(probe.no_cores()), note: None },
        _ => Answer {
            lacks: None,
            note: Some("NNN: the number from the CPU's manual, in hexadecimal"),
        },
    };
    let mut events = vec![entry("rNNN", None, cores)];
    for pmu in probe.sources.pmus() {
        let terms = pmu.formats().unwrap_or_default();
        if !terms.is_empty() {
            let terms: Vec<_> = terms.iter().map(|term| format!("{term}=N")).collect();
            events.push(entry(
                &format!("{}/{}/", pmu.name(), terms.join(",")),
                None,
                Answer { lacks: None, note: None },
            ));
        }
    }
    let type_config =
        Answer { lacks: None, note: Some("the type and config that perf_event_open(2) takes") };
    events.push(entry("TYPE:CONFIG", None, type_config));
    events.retain(|entry| selection.has(EventKind::Raw, &entry.name));
    Section { kind: EventKind::Raw, lacks: None, events, systems: Vec::new() }
}

fn tracepoints(selection: &EventSelection, sources: &Sources) -> Section {
    let mut section = Section {
        kind: EventKind::Tracepoint,
        lacks: None,
        events: Vec::new(),
        systems: Vec::new(),
    };
    let listed = || {
        let tracefs = sources.tracefs()?;
        tracefs
            .systems()?
            .into_iter()
            .map(|system| tracefs.events(&system).map(|events| (system, events)))
            .collect::<Result<Vec<_>, _>>()
    };
    match listed() {
        Err(error) => section.lacks = Some(error.to_string()),
        Ok(systems) if selection.is_everything() => {
            section.systems = systems
                .into_iter()
                .map(|(name, events)| System { name, events: events.len() })
                .collect();
        }
        Ok(systems) => {
            let names = systems.iter().flat_map(|(system, events)| {
                events.iter().map(move |event| format!("{system}:{event}"))
            });
            let wanted = names.filter(|name| selection.has(EventKind::Tracepoint, name));
            section.events = wanted.map(|name| entry(&name, None, Answer::default())).collect();
        }
    }
    section
}

/// Tries a breakpoint in the first page of the address space. Programs don't map that page, so the
/// breakpoint never counts, but opening it shows whether the CPU supports breakpoints.
fn breakpoints(selection: &EventSelection, probe: &EventProbe<'_>) -> Section {
    let form = "mem:ADDRESS[/LENGTH][:rwx]";
    let events = if selection.has(EventKind::Breakpoint, form) {
        vec![entry(form, None, probe.try_name("mem:0x10/1:w:u"))]
    } else {
        Vec::new()
    };
    section_with_shared_reason(EventKind::Breakpoint, selection, events)
}
