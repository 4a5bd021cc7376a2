//! Resolves parsed events: looks their names up and applies terms and modifiers.

use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_PMU_TYPE_SHIFT, PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE,
    PERF_TYPE_HW_CACHE, PERF_TYPE_RAW, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};

use super::error::{LocatedProblem, Problem};
use super::modifiers::{self, Modifiers, apply_terms_and_modifiers};
use super::names::{self, GenericEvent, find_generic};
use super::syntax::{self, EventText, Item, Term, Word, parse_number};
use super::{Event, EventGroup, OWN_TIME_PMU, Sources, breakpoint, pmu, terms, tracepoint, uprobe};

/// PMUs that the kernel treats as software, so their events fit into any group (`perf_sw_context`
/// in the kernel).
const SOFTWARE_PMUS: [&str; 3] = ["msr", "kprobe", "uprobe"];

/// Resolves an item to groups: usually one, more if a name matches several events or PMUs.
pub(super) fn resolve(
    item: &Item<'_>,
    sources: &Sources,
) -> Result<Vec<EventGroup>, LocatedProblem> {
    match item {
        Item::Event(typed) => {
            let modifiers = Modifiers::parse(find_modifiers(typed))?;
            let alone = |event| EventGroup {
                events: vec![event],
                weak: modifiers.weak,
                sample_read: modifiers.sample_read,
            };
            Ok(resolve_event(typed, sources)?.into_iter().map(alone).collect())
        }
        Item::Group { events: members, modifiers } => {
            resolve_group(members, Modifiers::parse(*modifiers)?, sources)
        }
    }
}

fn resolve_group(
    members: &[EventText<'_>],
    modifiers: Modifiers,
    sources: &Sources,
) -> Result<Vec<EventGroup>, LocatedProblem> {
    let mut all = Vec::new();
    let mut weak = modifiers.weak;
    let mut sample_read = modifiers.sample_read;
    for (index, typed) in members.iter().enumerate() {
        let word = find_modifiers(typed);
        let own = Modifiers::parse(word)?;
        if let (Some(letter), Some(word)) = (own.leader_only().filter(|_| index > 0), word) {
            return Err(LocatedProblem::new(word.at, Problem::LeaderOnly(letter)));
        }
        weak |= own.weak;
        sample_read |= own.sample_read;
        all.extend(resolve_event(typed, sources)?);
    }
    let mut groups = split_by_pmu(all, sources);
    for group in &mut groups {
        group.weak = weak;
        group.sample_read = sample_read;
        for (index, event) in group.events.iter_mut().enumerate() {
            modifiers.apply(event, index == 0);
        }
    }
    Ok(groups)
}

/// Splits a group into one for each PMU, as the kernel requires. Software events go into the first
/// group, of whatever PMU.
fn split_by_pmu(events: Vec<Event>, sources: &Sources) -> Vec<EventGroup> {
    let mut groups: Vec<(Option<u32>, EventGroup)> = Vec::new();
    for event in events {
        let pmu = find_pmu_type(&event, sources);
        let fits = |(group_pmu, _): &&mut (Option<u32>, EventGroup)| {
            pmu.is_none() || group_pmu.is_none() || *group_pmu == pmu
        };
        match groups.iter_mut().find(fits) {
            Some((group_pmu, group)) => {
                *group_pmu = group_pmu.or(pmu);
                group.events.push(event);
            }
            None => groups.push((pmu, EventGroup { events: vec![event], ..EventGroup::default() })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// Finds the type of the PMU whose counters an event uses; `None` for software events, tracepoints
/// and breakpoints, which fit into any group.
fn find_pmu_type(event: &Event, sources: &Sources) -> Option<u32> {
    match event.attr.kind {
        PERF_TYPE_SOFTWARE | PERF_TYPE_TRACEPOINT | PERF_TYPE_BREAKPOINT => None,
        PERF_TYPE_RAW => Some(PERF_TYPE_RAW),
        PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE => match event.attr.config >> PERF_PMU_TYPE_SHIFT {
            0 => Some(PERF_TYPE_RAW),
            pmu => u32::try_from(pmu).ok(),
        },
        kind => match event.pmu.as_deref() {
            Some(name) if SOFTWARE_PMUS.contains(&name) => None,
            // The only core PMU also counts the generic events.
            Some(name) if matches!(sources.cores(), [only] if only.name() == name) => {
                Some(PERF_TYPE_RAW)
            }
            _ => Some(kind),
        },
    }
}

/// Finds an event's modifiers: after its terms, or its last word.
fn find_modifiers<'a>(typed: &EventText<'a>) -> Option<Word<'a>> {
    if syntax::is_probe(typed.words[0].text) && typed.words.len() <= 3 {
        return typed.tail; // a function may be called k
    }
    typed.tail.or_else(|| {
        typed
            .words
            .last()
            .copied()
            .filter(|word| typed.words.len() > 1 && modifiers::has_only_modifiers(word.text))
    })
}

fn resolve_event(typed: &EventText<'_>, sources: &Sources) -> Result<Vec<Event>, LocatedProblem> {
    let first = typed.words[0];
    let second = typed.words.get(1).copied();
    if first.text == "mem" && second.is_some() {
        return breakpoint::resolve(typed).map(|event| vec![event]);
    }
    if syntax::is_probe(first.text) && second.is_some() {
        return uprobe::resolve(typed, sources).map(|event| vec![event]);
    }
    if let (Some(kind), Some(config)) = (parse_number(first.text), second) {
        return resolve_numbers(typed, kind, config).map(|event| vec![event]);
    }
    if names::own_time(first.text).is_some() && typed.terms.is_none() && sources.takes_own_times() {
        return resolve_own_time(typed).map(|event| vec![event]);
    }
    match find_generic(first.text) {
        Some(Ok(found)) => return resolve_generic(typed, found, sources),
        Some(Err(names::NoSuchUse)) => {
            return Err(LocatedProblem::new(first.at, Problem::CacheUse(first.text.to_owned())));
        }
        None => {}
    }
    if let (Some(given), None) = (&typed.terms, second) {
        let pmus = pmu::find_matching(first.text, sources);
        if !pmus.is_empty() {
            return resolve_on_pmus(typed, &pmus, given, sources);
        }
    }
    if second.is_none_or(|word| modifiers::has_only_modifiers(word.text)) && typed.words.len() <= 2
    {
        let pmus = pmu::find_naming(first.text, sources);
        if !pmus.is_empty() {
            return resolve_without_pmu(typed, &pmus, sources);
        }
    }
    // An unknown name with modifiers looks like a tracepoint.
    let is_modifiers =
        |word: Word<'_>| !word.text.is_empty() && modifiers::has_only_modifiers(word.text);
    let is_tracepoint =
        |word: Word<'_>| !is_modifiers(word) || tracepoint::may_be_system(first.text, sources);
    if second.is_some_and(is_tracepoint) {
        tracepoint::resolve(typed, sources)
    } else {
        Err(unknown_event(typed, sources))
    }
}

/// Resolves a tool event of perf to an event that counts nothing.
fn resolve_own_time(typed: &EventText<'_>) -> Result<Event, LocatedProblem> {
    let name = typed.words[0].text;
    let attr =
        Attr { kind: PERF_TYPE_SOFTWARE, config: PERF_COUNT_SW_DUMMY.into(), ..Attr::default() };
    let mut event = Event {
        pmu: Some(OWN_TIME_PMU.to_owned()),
        unit: "ns".to_owned(),
        ..Event::new(name, attr)
    };
    apply_terms_and_modifiers(&mut event, None, take_modifiers(typed)?)?;
    Ok(event)
}

/// Resolves `type:config[:modifiers]`.
fn resolve_numbers(
    typed: &EventText<'_>,
    kind: u64,
    config: Word<'_>,
) -> Result<Event, LocatedProblem> {
    let shape = |at| {
        LocatedProblem::new(
            at,
            Problem::Syntax("numbers have the form TYPE:CONFIG[:MODIFIERS], like 0:1:u or 4:0x1a8"),
        )
    };
    let kind = u32::try_from(kind).map_err(|_| shape(typed.whole.at))?;
    let config = parse_number(config.text).ok_or_else(|| shape(config.at))?;
    let mut event = Event::new(typed.whole.text, Attr { kind, config, ..Attr::default() });
    let modifiers = match (&typed.words[2..], typed.tail) {
        ([], tail) => tail,
        ([word], None) => Some(*word),
        ([word, ..], _) => return Err(shape(word.at)),
    };
    apply_terms_and_modifiers(&mut event, typed.terms.as_deref(), modifiers)?;
    Ok(event)
}

/// Takes the modifiers of a name that contains no colon itself.
fn take_modifiers<'a>(typed: &EventText<'a>) -> Result<Option<Word<'a>>, LocatedProblem> {
    match (&typed.words[1..], typed.tail) {
        ([], tail) => Ok(tail),
        ([word], None) => Ok(Some(*word)),
        ([word, ..], _) => Err(LocatedProblem::new(
            word.at,
            Problem::Syntax("modifiers belong at the end of an event, once"),
        )),
    }
}

/// Resolves a fixed name: on a hybrid machine to one event for each kind of core.
fn resolve_generic(
    typed: &EventText<'_>,
    found: GenericEvent,
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let modifiers = take_modifiers(typed)?;
    let name = typed.words[0];
    let mut events = if found.is_core_event() && sources.cores().len() > 1 {
        pmu::resolve_on_each_core(
            found,
            name.text,
            modifiers.map_or("", |word| word.text),
            name.at,
            sources,
        )?
    } else {
        // perf accepts a colon without modifiers.
        vec![Event::new(
            typed.whole.text.trim_end_matches(':'),
            Attr { kind: found.kind, config: found.config, ..Attr::default() },
        )]
    };
    for event in &mut events {
        if found.is_clock() {
            event.scale = 1e-6;
            event.unit = "msec".to_owned();
        }
        let mut others = Vec::new();
        for term in typed.terms.iter().flatten() {
            if !terms::apply_config(event, term)? {
                others.push(*term);
            }
        }
        apply_terms_and_modifiers(event, Some(&others), modifiers)?;
    }
    Ok(events)
}

/// Resolves `pmu/terms/`: one event for each of the PMUs that has such an event.
fn resolve_on_pmus(
    typed: &EventText<'_>,
    pmus: &[tare_kernel::host::Pmu],
    given: &[Term<'_>],
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let modifiers = take_modifiers(typed)?;
    let mut events = Vec::new();
    let mut refused = None;
    for one in pmus {
        match pmu::resolve(one, typed.whole.text, given, sources) {
            Ok(mut event) => {
                apply_terms_and_modifiers(&mut event, None, modifiers)?;
                events.push(event);
            }
            Err(at) => refused = refused.or(Some(at)),
        }
    }
    match refused {
        Some(at) if events.is_empty() => Err(at),
        _ => Ok(events),
    }
}

/// Resolves an event of PMUs that was typed without its PMU: `mem-loads`, `tsc`. On a hybrid
/// machine the names of core events get the PMU.
fn resolve_without_pmu(
    typed: &EventText<'_>,
    pmus: &[tare_kernel::host::Pmu],
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let mut given = vec![Term { name: typed.words[0], value: None }];
    given.extend(typed.terms.iter().flatten());
    let mut events = resolve_on_pmus(typed, pmus, &given, sources)?;
    let is_core_event = |event: &Event| {
        sources.cores().iter().any(|core| Some(core.name()) == event.pmu.as_deref())
    };
    if sources.cores().len() > 1 {
        let modifiers = take_modifiers(typed)?.map_or("", |word| word.text);
        for event in
            events.iter_mut().filter(|event| event.name == typed.whole.text && is_core_event(event))
        {
            event.name = format!(
                "{}/{}/{modifiers}",
                event.pmu.as_deref().unwrap_or_default(),
                typed.words[0].text
            );
        }
    }
    Ok(events)
}

fn unknown_event(typed: &EventText<'_>, sources: &Sources) -> LocatedProblem {
    let name = typed.words[0];
    if names::own_time(name.text).is_some() {
        return LocatedProblem::new(name.at, Problem::OwnTime(name.text.to_owned()));
    }
    if typed.terms.is_some() {
        let pmus = sources.pmus().iter().map(tare_kernel::host::Pmu::name);
        return LocatedProblem::new(name.at, Problem::UnknownPmu(name.text.to_owned()))
            .with_nearest(name.text, pmus);
    }
    LocatedProblem::new(name.at, Problem::UnknownEvent(name.text.to_owned()))
        .with_nearest(name.text, names::all_names().chain(pmu::all_event_names(sources)))
}
