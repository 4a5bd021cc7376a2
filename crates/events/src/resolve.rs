//! Finds out what a typed event means.

use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    PERF_PMU_TYPE_SHIFT, PERF_TYPE_BREAKPOINT, PERF_TYPE_HARDWARE, PERF_TYPE_HW_CACHE,
    PERF_TYPE_RAW, PERF_TYPE_SOFTWARE, PERF_TYPE_TRACEPOINT,
};

use super::error::{LocatedProblem, Problem};
use super::modifiers::{self, Modifiers, finish};
use super::names::{self, GenericEvent, generic};
use super::syntax::{self, EventText, Item, Term, Word, number};
use super::{Event, EventGroup, Sources, breakpoint, pmu, terms, tracepoint, uprobe};

/// PMUs of the kernel's own, whose events go into any group (`perf_sw_context` in the kernel).
const SOFTWARE_PMUS: [&str; 3] = ["msr", "kprobe", "uprobe"];

/// The groups that an item stands for: one for a plain event, more where a name stands for several
/// events or PMUs.
pub(super) fn item(item: &Item<'_>, sources: &Sources) -> Result<Vec<EventGroup>, LocatedProblem> {
    match item {
        Item::Event(typed) => {
            let modifiers = Modifiers::parse(modifiers_of(typed))?;
            let alone = |event| EventGroup {
                events: vec![event],
                weak: modifiers.weak,
                sample_read: modifiers.sample_read,
            };
            Ok(events(typed, sources)?.into_iter().map(alone).collect())
        }
        Item::Group { events: members, modifiers } => {
            group(members, Modifiers::parse(*modifiers)?, sources)
        }
    }
}

fn group(
    members: &[EventText<'_>],
    of_group: Modifiers,
    sources: &Sources,
) -> Result<Vec<EventGroup>, LocatedProblem> {
    let mut all = Vec::new();
    let mut weak = of_group.weak;
    let mut sample_read = of_group.sample_read;
    for (index, typed) in members.iter().enumerate() {
        let word = modifiers_of(typed);
        let own = Modifiers::parse(word)?;
        if let (Some(letter), Some(word)) = (own.leader_only().filter(|_| index > 0), word) {
            return Err(LocatedProblem::new(word.at, Problem::LeaderOnly(letter)));
        }
        (weak, sample_read) = (weak || own.weak, sample_read || own.sample_read);
        all.extend(events(typed, sources)?);
    }
    let mut groups = one_pmu_each(all, sources);
    for group in &mut groups {
        (group.weak, group.sample_read) = (weak, sample_read);
        group
            .events
            .iter_mut()
            .enumerate()
            .for_each(|(index, event)| of_group.apply(event, index == 0));
    }
    Ok(groups)
}

/// The kernel takes events of one PMU in a group, and those of software with any: a group over
/// several PMUs becomes one for each.
fn one_pmu_each(events: Vec<Event>, sources: &Sources) -> Vec<EventGroup> {
    let mut groups: Vec<(Option<u32>, EventGroup)> = Vec::new();
    for event in events {
        let pmu = pmu_of(&event, sources);
        let fits = |(of_group, _): &&mut (Option<u32>, EventGroup)| {
            pmu.is_none() || of_group.is_none() || *of_group == pmu
        };
        match groups.iter_mut().find(fits) {
            Some((of_group, group)) => {
                *of_group = of_group.or(pmu);
                group.events.push(event);
            }
            None => groups.push((pmu, EventGroup { events: vec![event], ..EventGroup::default() })),
        }
    }
    groups.into_iter().map(|(_, group)| group).collect()
}

/// The type of the PMU whose counters an event takes; none for software.
fn pmu_of(event: &Event, sources: &Sources) -> Option<u32> {
    match event.attr.kind {
        PERF_TYPE_SOFTWARE | PERF_TYPE_TRACEPOINT | PERF_TYPE_BREAKPOINT => None,
        PERF_TYPE_RAW => Some(PERF_TYPE_RAW),
        PERF_TYPE_HARDWARE | PERF_TYPE_HW_CACHE => match event.attr.config >> PERF_PMU_TYPE_SHIFT {
            0 => Some(PERF_TYPE_RAW),
            pmu => u32::try_from(pmu).ok(),
        },
        kind => match event.pmu.as_deref() {
            Some(name) if SOFTWARE_PMUS.contains(&name) => None,
            // The only PMU of the cores also takes the generic events.
            Some(name) if matches!(sources.cores(), [only] if only.name() == name) => {
                Some(PERF_TYPE_RAW)
            }
            _ => Some(kind),
        },
    }
}

/// The word that holds an event's modifiers, wherever it stands.
fn modifiers_of<'a>(typed: &EventText<'a>) -> Option<Word<'a>> {
    if syntax::is_probe(typed.words[0].text) && typed.words.len() <= 3 {
        return typed.tail; // a function can be called k
    }
    typed.tail.or_else(|| {
        typed
            .words
            .last()
            .copied()
            .filter(|word| typed.words.len() > 1 && modifiers::could_be(word.text))
    })
}

fn events(typed: &EventText<'_>, sources: &Sources) -> Result<Vec<Event>, LocatedProblem> {
    let first = typed.words[0];
    let second = typed.words.get(1).copied();
    if first.text == "mem" && second.is_some() {
        return breakpoint::event(typed).map(|event| vec![event]);
    }
    if syntax::is_probe(first.text) && second.is_some() {
        return uprobe::event(typed, sources).map(|event| vec![event]);
    }
    if let (Some(kind), Some(config)) = (number(first.text), second) {
        return numeric(typed, kind, config).map(|event| vec![event]);
    }
    match generic(first.text) {
        Some(Ok(found)) => return of_known(typed, found, sources),
        Some(Err(names::NoSuchUse)) => {
            return Err(LocatedProblem::new(first.at, Problem::CacheUse(first.text.to_owned())));
        }
        None => {}
    }
    if let (Some(given), None) = (&typed.terms, second) {
        let pmus = pmu::matching(first.text, sources);
        if !pmus.is_empty() {
            return of_pmus(typed, &pmus, given, sources);
        }
    }
    if second.is_none_or(|word| modifiers::could_be(word.text)) && typed.words.len() <= 2 {
        let pmus = pmu::that_name(first.text, sources);
        if !pmus.is_empty() {
            return named_by_pmus(typed, &pmus, sources);
        }
    }
    // A wrong name with modifiers has the shape of a tracepoint.
    let modified = |word: Word<'_>| !word.text.is_empty() && modifiers::could_be(word.text);
    let meant = |word: Word<'_>| !modified(word) || tracepoint::is_system(first.text, sources);
    if second.is_some_and(meant) {
        tracepoint::events(typed, sources)
    } else {
        Err(unknown(typed, sources))
    }
}

/// `type:config[:modifiers]`
fn numeric(typed: &EventText<'_>, kind: u64, config: Word<'_>) -> Result<Event, LocatedProblem> {
    let shape = |at| {
        LocatedProblem::new(
            at,
            Problem::Syntax("numbers have the form TYPE:CONFIG[:MODIFIERS], like 0:1:u or 4:0x1a8"),
        )
    };
    let kind = u32::try_from(kind).map_err(|_| shape(typed.whole.at))?;
    let config = number(config.text).ok_or_else(|| shape(config.at))?;
    let mut event = Event::new(typed.whole.text, Attr { kind, config, ..Attr::default() });
    let modifiers = match (&typed.words[2..], typed.tail) {
        ([], tail) => tail,
        ([word], None) => Some(*word),
        ([word, ..], _) => return Err(shape(word.at)),
    };
    finish(&mut event, typed.terms.as_deref(), modifiers)?;
    Ok(event)
}

/// The modifiers after a name that takes at most one colon.
fn only_modifiers<'a>(typed: &EventText<'a>) -> Result<Option<Word<'a>>, LocatedProblem> {
    match (&typed.words[1..], typed.tail) {
        ([], tail) => Ok(tail),
        ([word], None) => Ok(Some(*word)),
        ([word, ..], _) => Err(LocatedProblem::new(
            word.at,
            Problem::Syntax("an event takes modifiers once, at its end"),
        )),
    }
}

/// A name that every kernel knows; on a hybrid machine one event for each kind of core.
fn of_known(
    typed: &EventText<'_>,
    found: GenericEvent,
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let modifiers = only_modifiers(typed)?;
    let name = typed.words[0];
    let mut events = if found.is_of_cores() && sources.cores().len() > 1 {
        pmu::on_each_core(
            found,
            name.text,
            modifiers.map_or("", |word| word.text),
            name.at,
            sources,
        )?
    } else {
        vec![Event::new(
            typed.whole.text,
            Attr { kind: found.kind, config: found.config, ..Attr::default() },
        )]
    };
    for event in &mut events {
        if found.is_clock() {
            (event.scale, event.unit) = (1e-6, "msec".to_owned());
        }
        let mut others = Vec::new();
        for term in typed.terms.iter().flatten() {
            if !terms::apply_config(event, term)? {
                others.push(*term);
            }
        }
        finish(event, Some(&others), modifiers)?;
    }
    Ok(events)
}

/// `pmu/terms/`: one event for each PMU that the name stands for and that has such an event.
fn of_pmus(
    typed: &EventText<'_>,
    pmus: &[tare_kernel::host::Pmu],
    given: &[Term<'_>],
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let modifiers = only_modifiers(typed)?;
    let mut events = Vec::new();
    let mut refused = None;
    for one in pmus {
        match pmu::event(one, typed.whole.text, given, sources) {
            Ok(mut event) => {
                finish(&mut event, None, modifiers)?;
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

/// An event by the name that PMUs give it, without the PMU: `mem-loads`, `tsc`. Kinds of cores are
/// told apart in the names.
fn named_by_pmus(
    typed: &EventText<'_>,
    pmus: &[tare_kernel::host::Pmu],
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let mut given = vec![Term { name: typed.words[0], value: None }];
    given.extend(typed.terms.iter().flatten());
    let mut events = of_pmus(typed, pmus, &given, sources)?;
    let of_cores = |event: &Event| {
        sources.cores().iter().any(|core| Some(core.name()) == event.pmu.as_deref())
    };
    if sources.cores().len() > 1 {
        let modifiers = only_modifiers(typed)?.map_or("", |word| word.text);
        for event in
            events.iter_mut().filter(|event| event.name == typed.whole.text && of_cores(event))
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

fn unknown(typed: &EventText<'_>, sources: &Sources) -> LocatedProblem {
    let name = typed.words[0];
    if names::OWN_TIMES.contains(&name.text) {
        return LocatedProblem::new(name.at, Problem::OwnTime(name.text.to_owned()));
    }
    if typed.terms.is_some() {
        let pmus = sources.pmus().iter().map(tare_kernel::host::Pmu::name);
        return LocatedProblem::new(name.at, Problem::UnknownPmu(name.text.to_owned()))
            .near(name.text, pmus);
    }
    LocatedProblem::new(name.at, Problem::UnknownEvent(name.text.to_owned()))
        .near(name.text, names::all().chain(pmu::all_named(sources)))
}
