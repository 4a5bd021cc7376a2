//! `system:event`; both parts may be patterns.

use tare_format::abi::Attr;
use tare_format::abi::bindings::PERF_TYPE_TRACEPOINT;
use tare_kernel::tracefs::{Tracefs, TracefsError};

use super::error::{LocatedProblem, Problem};
use super::modifiers::apply_terms_and_modifiers;
use super::syntax::{EventText, Word, glob_matches};
use super::{Event, Sources, Tracepoint};

/// The system of the function tracer's own records. Events can't be opened on them, so patterns
/// skip it.
const NOT_FOR_EVENTS: &str = "ftrace";

pub(super) fn resolve(
    typed: &EventText<'_>,
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let system = typed.words[0];
    let name = typed.words[1];
    let modifiers = match (&typed.words[2..], typed.tail) {
        ([], tail) => tail,
        ([word], None) => Some(*word),
        ([word, ..], _) => {
            return Err(LocatedProblem::new(
                word.at,
                Problem::Syntax("a tracepoint has the form SYSTEM:EVENT[:MODIFIERS]"),
            ));
        }
    };
    let full = format!("{}:{}", system.text, name.text);
    let failed = |source| {
        LocatedProblem::new(typed.whole.at, Problem::Tracefs { name: full.clone(), source })
    };
    let tracefs = sources.tracefs().map_err(failed)?;
    let mut events = Vec::new();
    for (system, name) in find_matching(tracefs, system.text, name.text).map_err(failed)? {
        let config = match tracefs.id(&system, &name) {
            Err(TracefsError::NoSuch(_)) => continue,
            id => id.map_err(failed)?,
        };
        let mut event = Event::new(
            format!("{system}:{name}"),
            Attr { kind: PERF_TYPE_TRACEPOINT, config, ..Attr::default() },
        );
        event.tracepoint = Some(Tracepoint { system, name });
        apply_terms_and_modifiers(&mut event, typed.terms.as_deref(), modifiers)?;
        events.push(event);
    }
    if events.is_empty() {
        Err(unknown_tracepoint(tracefs, typed.whole.at, system, name))
    } else {
        Ok(events)
    }
}

/// Whether there are tracepoints of this system, or it is a pattern.
pub(super) fn may_be_system(name: &str, sources: &Sources) -> bool {
    is_pattern(name) || sources.tracefs().is_ok_and(|tracefs| tracefs.events(name).is_ok())
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Finds the tracepoints that match both names, sorted. A name that isn't a pattern is returned
/// without looking it up.
fn find_matching(
    tracefs: &Tracefs,
    system: &str,
    name: &str,
) -> Result<Vec<(String, String)>, TracefsError> {
    let systems = if is_pattern(system) {
        tracefs
            .systems()?
            .into_iter()
            .filter(|one| one != NOT_FOR_EVENTS && glob_matches(system, one))
            .collect()
    } else {
        vec![system.to_owned()]
    };
    let mut found = Vec::new();
    for system in systems {
        if !is_pattern(name) {
            found.push((system, name.to_owned()));
            continue;
        }
        let events = match tracefs.events(&system) {
            Err(TracefsError::NoSuch(_)) => continue,
            events => events?,
        };
        found.extend(
            events
                .into_iter()
                .filter(|event| glob_matches(name, event))
                .map(|event| (system.clone(), event)),
        );
    }
    Ok(found)
}

/// Suggests tracepoints of the same system; if the system is unknown, tracepoints of similar
/// systems and those of the same name in other systems.
fn unknown_tracepoint(
    tracefs: &Tracefs,
    at: usize,
    system: Word<'_>,
    name: Word<'_>,
) -> LocatedProblem {
    let full = format!("{}:{}", system.text, name.text);
    let systems = tracefs.systems().unwrap_or_default();
    let within = |one: &String| {
        tracefs
            .events(one)
            .unwrap_or_default()
            .into_iter()
            .map(|event| format!("{one}:{event}"))
            .collect::<Vec<_>>()
    };
    let elsewhere = |one: &&String| tracefs.id(one, name.text).is_ok();
    let candidates: Vec<String> = match tracefs.events(system.text) {
        Ok(events) => events.into_iter().map(|event| format!("{}:{event}", system.text)).collect(),
        Err(_) => {
            let near = tare_format::nearest::nearest(system.text, &systems);
            let same_name =
                systems.iter().filter(elsewhere).map(|one| format!("{one}:{}", name.text));
            near.iter().flat_map(within).chain(same_name).collect()
        }
    };
    LocatedProblem::new(at, Problem::UnknownTracepoint(full.clone()))
        .with_nearest(&full, candidates)
}
