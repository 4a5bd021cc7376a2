//! `pmu/term=value,.../`: terms whose bits sysfs describes, and events that a PMU names itself.

use std::io;

use tare_format::abi::bindings::{PERF_PMU_TYPE_SHIFT, PERF_TYPE_RAW};
use tare_format::abi::{Attr, Sampling};
use tare_kernel::host::{ConfigWord, Format, Pmu};

use super::error::{LocatedProblem, Problem};
use super::names::{self, generic};
use super::syntax::{Term, Word, glob_matches};
use super::{Event, PmuCpus, Sources, terms};

/// The PMUs that a user's name stands for: the one of this name, or those that a pattern matches or
/// that only have a number more (`uncore_imc` and `imc`: `uncore_imc_0`, `uncore_imc_1`).
pub(super) fn matching(name: &str, sources: &Sources) -> Vec<Pmu> {
    if let Some(exact) = sources.pmu(name) {
        return vec![exact];
    }
    sources.pmus_that(|pmu| stands_for(name, pmu.name()))
}

fn stands_for(typed: &str, pmu: &str) -> bool {
    let short = pmu.strip_prefix("uncore_").unwrap_or(pmu);
    [pmu, short].into_iter().any(|pmu| {
        let numbered = pmu
            .strip_prefix(typed)
            .is_some_and(|rest| is_number_of_instance(rest.strip_prefix('_').unwrap_or(rest)));
        pmu == typed || numbered || glob_matches(typed, pmu)
    })
}

/// Decimal digits, or the address in hexadecimal digits that some uncore PMUs of arm64 carry.
fn is_number_of_instance(text: &str) -> bool {
    let all = |test: fn(&u8) -> bool| text.bytes().all(|b| test(&b));
    !text.is_empty() && (all(u8::is_ascii_digit) || text.len() >= 3 && all(u8::is_ascii_hexdigit))
}

/// The event of this PMU that the terms describe. `name` is what results carry where no term says
/// otherwise.
pub(super) fn event(
    pmu: &Pmu,
    name: &str,
    given: &[Term<'_>],
    sources: &Sources,
) -> Result<Event, LocatedProblem> {
    let start = given.first().map_or(0, |term| term.name.at);
    let kind = pmu.kind().map_err(|error| sysfs(pmu, start, &error))?;
    let mut event = Event::new(name, Attr { kind, ..Attr::default() });
    event.pmu = Some(pmu.name().to_owned());
    event.cpus = cpus(pmu, sources).map_err(|error| sysfs(pmu, start, &error))?;
    // What an event that the PMU names stands for comes first, so that the user's own terms change
    // it wherever they stand.
    let mut own = Vec::new();
    for term in given {
        if !apply_named(&mut event, pmu, term, given)? {
            own.push(term);
        }
    }
    for term in own {
        let done = terms::apply(&mut event, term)? || terms::apply_config(&mut event, term)?;
        if !done
            && !apply_format(&mut event, pmu, term)?
            && !apply_known(&mut event, pmu, term, sources)?
        {
            return Err(unknown_term(pmu, term));
        }
    }
    Ok(event)
}

/// On which CPUs events of this PMU are opened.
fn cpus(pmu: &Pmu, sources: &Sources) -> io::Result<Option<PmuCpus>> {
    if let Some(list) = pmu.cpumask()? {
        return Ok(Some(PmuCpus::OnePerPackage(list)));
    }
    // Where all cores are of one kind, its PMU is on every CPU.
    let one_of_several = pmu.is_core() && sources.cores().len() > 1;
    Ok(if one_of_several { pmu.cpus()?.map(PmuCpus::Those) } else { None })
}

/// Applies an event that the PMU names; whether the term is one.
fn apply_named(
    event: &mut Event,
    pmu: &Pmu,
    term: &Term<'_>,
    given: &[Term<'_>],
) -> Result<bool, LocatedProblem> {
    let at = term.name.at;
    let failed = |error: io::Error| sysfs(pmu, at, &error);
    if term.value.is_some() || pmu.format(term.name.text).map_err(failed)?.is_some() {
        return Ok(false);
    }
    let Some(named) = pmu.event(term.name.text).map_err(failed)? else { return Ok(false) };
    for part in named.terms.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part
            .split_once('=')
            .map_or((part, None), |(name, value)| (name.trim(), Some(value.trim())));
        if value == Some("?") {
            // The user's own term sets it.
            if !given.iter().any(|own| own.name.text == name && own.value.is_some()) {
                return Err(LocatedProblem::new(
                    at,
                    Problem::MissingParameter {
                        event: term.name.text.to_owned(),
                        parameter: name.to_owned(),
                    },
                ));
            }
            continue;
        }
        let word = |text| Word { at, text };
        let part = Term { name: word(name), value: value.map(word) };
        if name == "period" {
            event.sampling.rate = Sampling::Period(terms::value(&part)?);
        } else if !terms::apply_config(event, &part)? && !apply_format(event, pmu, &part)? {
            return Err(unknown_term(pmu, &part));
        }
    }
    event.scale = named.scale;
    event.unit = named.unit;
    Ok(true)
}

/// Applies a term whose bits the PMU describes; whether it is one.
fn apply_format(event: &mut Event, pmu: &Pmu, term: &Term<'_>) -> Result<bool, LocatedProblem> {
    let format = pmu.format(term.name.text).map_err(|error| sysfs(pmu, term.name.at, &error))?;
    let Some(format) = format else { return Ok(false) };
    let value = terms::value(term)?;
    if value > format.max() {
        let at = term.value.unwrap_or(term.name).at;
        return Err(LocatedProblem::new(
            at,
            Problem::TooLarge { term: term.name.text.to_owned(), max: format.max() },
        ));
    }
    put(&format, value, &mut event.attr);
    Ok(true)
}

fn put(format: &Format, value: u64, attr: &mut Attr) {
    let word = match format.word {
        ConfigWord::Config => &mut attr.config,
        ConfigWord::Config1 => &mut attr.config1,
        ConfigWord::Config2 => &mut attr.config2,
        ConfigWord::Config3 => &mut attr.config3,
    };
    *word = format.put(value, *word);
}

/// Applies a name that every kernel knows to the PMU of a kind of core: `cpu_core/cycles/`,
/// `cpu/r1a8/`; whether it is one.
fn apply_known(
    event: &mut Event,
    pmu: &Pmu,
    term: &Term<'_>,
    sources: &Sources,
) -> Result<bool, LocatedProblem> {
    if term.value.is_some() {
        return Ok(false);
    }
    // The number of a raw event belongs to the PMU's own type, whatever the PMU is.
    if let Some(config) = names::raw(term.name.text) {
        event.attr.config = config;
        return Ok(true);
    }
    let Some(Ok(found)) = generic(term.name.text).filter(|_| pmu.is_core()) else {
        return Ok(false);
    };
    if !found.is_of_cores() {
        return Ok(false);
    }
    let pmu_kind = event.attr.kind;
    (event.attr.kind, event.attr.config) = (found.kind, found.config);
    if sources.cores().len() > 1 {
        event.attr.config |= u64::from(pmu_kind) << PERF_PMU_TYPE_SHIFT;
    }
    Ok(true)
}

/// An event that every kernel knows, on each of the PMUs of a hybrid machine: the PMU's type goes
/// into the upper half of `config`.
pub(super) fn on_each_core(
    found: names::GenericEvent,
    name: &str,
    modifiers: &str,
    at: usize,
    sources: &Sources,
) -> Result<Vec<Event>, LocatedProblem> {
    let one = |pmu: &Pmu| {
        let failed = |error: io::Error| sysfs(pmu, at, &error);
        let kind = pmu.kind().map_err(failed)?;
        let attr = if found.kind == PERF_TYPE_RAW {
            Attr { kind, config: found.config, ..Attr::default() }
        } else {
            Attr {
                kind: found.kind,
                config: found.config | u64::from(kind) << PERF_PMU_TYPE_SHIFT,
                ..Attr::default()
            }
        };
        let mut event = Event::new(format!("{}/{name}/{modifiers}", pmu.name()), attr);
        event.pmu = Some(pmu.name().to_owned());
        event.cpus = pmu.cpus().map_err(failed)?.map(PmuCpus::Those);
        Ok(event)
    };
    sources.cores().iter().map(one).collect()
}

/// The PMUs that name this event themselves.
pub(super) fn that_name(event: &str, sources: &Sources) -> Vec<Pmu> {
    sources.pmus_that(|pmu| matches!(pmu.event(event), Ok(Some(_))))
}

/// All events that PMUs name, to find those near a wrong one.
pub(super) fn all_named(sources: &Sources) -> Vec<String> {
    sources.pmus().iter().flat_map(|pmu| pmu.events().unwrap_or_default()).collect()
}

fn unknown_term(pmu: &Pmu, term: &Term<'_>) -> LocatedProblem {
    let name = term.name.text;
    let near =
        pmu.events().unwrap_or_default().into_iter().chain(pmu.formats().unwrap_or_default());
    let problem = Problem::UnknownTerm { term: name.to_owned(), pmu: pmu.name().to_owned() };
    LocatedProblem::new(term.name.at, problem).near(
        name,
        near.chain(terms::NAMES.into_iter().chain(terms::CONFIG_NAMES).map(str::to_owned)),
    )
}

fn sysfs(pmu: &Pmu, at: usize, error: &io::Error) -> LocatedProblem {
    LocatedProblem::new(at, Problem::Sysfs { pmu: pmu.name().to_owned(), why: error.to_string() })
}
