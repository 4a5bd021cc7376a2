//! What this machine has, by kind.

use crate::Sources;
use crate::names::{HARDWARE, NamedEvent, SOFTWARE, cache_names};
use serde::Serialize;
use tare_kernel::host::{Host, Pmu};
use tare_kernel::open::Kernel;

use super::probe::{Answer, Probe};
use super::selection::{Kind, Selection};

/// The events of one kind.
#[derive(Debug, Serialize)]
pub(super) struct Section {
    pub(super) kind: Kind,
    /// Why there are none, if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lacks: Option<String>,
    pub(super) events: Vec<Entry>,
    /// The tracepoints as numbers, where they are not listed one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) systems: Vec<System>,
}

/// One event, or a form that stands for many.
#[derive(Debug, Default, Serialize)]
pub(super) struct Entry {
    pub(super) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) alias: Option<&'static str>,
    pub(super) available: bool,
    /// Why it isn't available.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) lacks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<&'static str>,
    /// The unit in which results are shown.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) unit: String,
}

/// A system of tracepoints.
#[derive(Debug, Serialize)]
pub(super) struct System {
    pub(super) name: String,
    /// How many tracepoints it has.
    pub(super) events: usize,
}

/// The kinds that the selection wants, without those where nothing was found for a name.
pub(super) fn sections(selection: &Selection, host: &Host, kernel: &dyn Kernel) -> Vec<Section> {
    let sources = Sources::new(host.clone());
    let probe = Probe::new(kernel, host, &sources);
    let section = |kind| match kind {
        Kind::Hardware => fixed(kind, &HARDWARE, selection, &probe),
        Kind::Software => fixed(kind, &SOFTWARE, selection, &probe),
        Kind::Cache => {
            let names = cache_names().filter(|name| selection.takes(kind, name));
            summed_up(
                kind,
                selection,
                names.map(|name| entry(&name, None, probe.name(&name))).collect(),
            )
        }
        Kind::Pmu => pmus(selection, &probe),
        Kind::Raw => raw(selection, &probe),
        Kind::Tracepoint => tracepoints(selection, &sources),
        Kind::Breakpoint => breakpoints(selection, &probe),
    };
    let wanted = Kind::ALL.into_iter().filter(|&kind| selection.some_of(kind)).map(section);
    wanted.filter(|section| selection.all_of(section.kind) || !section.events.is_empty()).collect()
}

fn entry(name: &str, alias: Option<&'static str>, answer: Answer) -> Entry {
    Entry {
        name: name.to_owned(),
        alias,
        available: answer.lacks.is_none(),
        lacks: answer.lacks,
        note: answer.note,
        unit: String::new(),
    }
}

/// A reason that all events of a kind share is the section's.
fn summed_up(kind: Kind, selection: &Selection, events: Vec<Entry>) -> Section {
    let shared =
        selection.all_of(kind) && events.iter().all(|entry| entry.lacks == events[0].lacks);
    let lacks = events.first().and_then(|first| first.lacks.clone()).filter(|_| shared);
    Section { kind, lacks, events, systems: Vec::new() }
}

fn fixed(kind: Kind, table: &[NamedEvent], selection: &Selection, probe: &Probe<'_>) -> Section {
    let wanted = |event: &&NamedEvent| {
        [Some(event.name), event.alias]
            .into_iter()
            .flatten()
            .any(|name| selection.takes(kind, name))
    };
    let clock = |name: &str| {
        if ["task-clock", "cpu-clock"].contains(&name) { "msec".to_owned() } else { String::new() }
    };
    let entry = |event: &NamedEvent| Entry {
        unit: clock(event.name),
        ..entry(event.name, event.alias, probe.name(event.name))
    };
    summed_up(kind, selection, table.iter().filter(wanted).map(entry).collect())
}

/// The events that PMUs name in sysfs.
fn pmus(selection: &Selection, probe: &Probe<'_>) -> Section {
    let mut events = Vec::new();
    for pmu in probe.sources.pmus() {
        for name in pmu.events().unwrap_or_default() {
            let typed = format!("{}/{name}/", pmu.name());
            if selection.takes(Kind::Pmu, &typed) {
                events.push(named(pmu, &name, &typed, probe));
            }
        }
    }
    let lacks = events.is_empty().then(|| "no PMU of this machine names events".to_owned());
    Section { kind: Kind::Pmu, lacks, events, systems: Vec::new() }
}

fn named(pmu: &Pmu, name: &str, typed: &str, probe: &Probe<'_>) -> Entry {
    let described = match pmu.event(name) {
        Ok(described) => described,
        Err(error) => {
            return entry(typed, None, Answer { lacks: Some(error.to_string()), note: None });
        }
    };
    let (terms, unit) = described.map_or_else(Default::default, |event| (event.terms, event.unit));
    let open: Vec<&str> = terms.split(',').filter(|term| term.ends_with("=?")).collect();
    if open.is_empty() {
        return Entry { unit, ..entry(typed, None, probe.name(typed)) };
    }
    let shown = format!("{}/{name},{}/", pmu.name(), open.join(","));
    let answer = Answer { lacks: None, note: Some("not tried: put numbers in place of ?") };
    Entry { unit, ..entry(&shown, None, answer) }
}

/// The forms that take numbers, with the terms of each PMU.
fn raw(selection: &Selection, probe: &Probe<'_>) -> Section {
    let of_cores = match probe.sources.cores() {
        [] => Answer { lacks: Some(probe.no_cores()), note: None },
        _ => Answer {
            lacks: None,
            note: Some("NNN: the number from the CPU's manual, in hexadecimal"),
        },
    };
    let mut events = vec![entry("rNNN", None, of_cores)];
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
    events.retain(|entry| selection.takes(Kind::Raw, &entry.name));
    Section { kind: Kind::Raw, lacks: None, events, systems: Vec::new() }
}

fn tracepoints(selection: &Selection, sources: &Sources) -> Section {
    let mut section =
        Section { kind: Kind::Tracepoint, lacks: None, events: Vec::new(), systems: Vec::new() };
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
            let wanted = names.filter(|name| selection.takes(Kind::Tracepoint, name));
            section.events = wanted.map(|name| entry(&name, None, Answer::default())).collect();
        }
    }
    section
}

/// Tries one on the first page of an address space, which no program has: it never counts, and
/// shows whether the CPU takes it.
fn breakpoints(selection: &Selection, probe: &Probe<'_>) -> Section {
    let form = "mem:ADDRESS[/LENGTH][:rwx]";
    let events = if selection.takes(Kind::Breakpoint, form) {
        vec![entry(form, None, probe.name("mem:0x10/1:w:u"))]
    } else {
        Vec::new()
    };
    summed_up(Kind::Breakpoint, selection, events)
}
