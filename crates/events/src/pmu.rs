//! `pmu/term=value,.../`: terms whose bits sysfs describes, and events that PMUs name in sysfs.

use std::io;

use tare_format::abi::bindings::{PERF_PMU_TYPE_SHIFT, PERF_TYPE_RAW};
use tare_format::abi::{Attr, Sampling};
use tare_kernel::host::{ConfigWord, Format, Pmu};

use super::error::{LocatedProblem, Problem};
use super::names::{self, find_generic};
use super::syntax::{Term, Word, glob_matches};
use super::{Event, PmuCpus, Sources, terms};

/// Finds the PMUs of a typed name: the PMU of exactly this name, or else those that the pattern
/// matches or that append an instance number (`uncore_imc` and `imc`: `uncore_imc_0`,
/// `uncore_imc_1`).
pub(super) fn find_matching(name: &str, sources: &Sources) -> Vec<Pmu> {
    if let Some(exact) = sources.pmu(name) {
        return vec![exact];
    }
    sources.find_pmus(|pmu| is_name_for(name, pmu.name()))
}

fn is_name_for(typed: &str, pmu: &str) -> bool {
    let short = pmu.strip_prefix("uncore_").unwrap_or(pmu);
    [pmu, short].into_iter().any(|pmu| {
        let numbered = pmu
            .strip_prefix(typed)
            .is_some_and(|rest| is_instance_number(rest.strip_prefix('_').unwrap_or(rest)));
        pmu == typed || numbered || glob_matches(typed, pmu)
    })
}

/// Whether the text is decimal digits, or a hexadecimal address: some uncore PMUs of arm64 end in
/// one.
fn is_instance_number(text: &str) -> bool {
    let all = |test: fn(&u8) -> bool| text.bytes().all(|b| test(&b));
    !text.is_empty() && (all(u8::is_ascii_digit) || text.len() >= 3 && all(u8::is_ascii_hexdigit))
}

/// Resolves the event that the terms describe on this PMU. Results show `name` unless a term
/// replaces it.
pub(super) fn resolve(
    pmu: &Pmu,
    name: &str,
    given: &[Term<'_>],
    sources: &Sources,
) -> Result<Event, LocatedProblem> {
    let start = given.first().map_or(0, |term| term.name.at);
    let kind = pmu.kind().map_err(|error| sysfs(pmu, start, &error))?;
    let mut event = Event::new(name, Attr { kind, ..Attr::default() });
    event.pmu = Some(pmu.name().to_owned());
    event.cpus = find_cpus(pmu, sources).map_err(|error| sysfs(pmu, start, &error))?;
    // Named events are applied first, so that the user's terms override theirs in any order.
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
            && !apply_generic(&mut event, pmu, term, sources)?
        {
            return Err(unknown_term(pmu, term));
        }
    }
    Ok(event)
}

/// Finds the CPUs on which events of this PMU are opened; `None` for all.
fn find_cpus(pmu: &Pmu, sources: &Sources) -> io::Result<Option<PmuCpus>> {
    if let Some(list) = pmu.cpumask()? {
        return Ok(Some(PmuCpus::OnePerPackage(list)));
    }
    // A single core PMU is on every CPU.
    let one_of_several = pmu.is_core() && sources.cores().len() > 1;
    Ok(if one_of_several { pmu.cpus()?.map(PmuCpus::Those) } else { None })
}

/// Applies the term if it is an event that the PMU names. Returns whether it is.
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
            // One of the user's terms must set it.
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
            event.sampling.rate = Sampling::Period(terms::parse_value(&part)?);
        } else if !terms::apply_config(event, &part)? && !apply_format(event, pmu, &part)? {
            return Err(unknown_term(pmu, &part));
        }
    }
    event.scale = named.scale;
    event.unit = named.unit;
    Ok(true)
}

/// Applies the term if the PMU describes its bits. Returns whether it does.
fn apply_format(event: &mut Event, pmu: &Pmu, term: &Term<'_>) -> Result<bool, LocatedProblem> {
    let format = pmu.format(term.name.text).map_err(|error| sysfs(pmu, term.name.at, &error))?;
    let Some(format) = format else { return Ok(false) };
    let value = terms::parse_value(term)?;
    if value > format.max() {
        let at = term.value.unwrap_or(term.name).at;
        return Err(LocatedProblem::new(
            at,
            Problem::TooLarge { term: term.name.text.to_owned(), max: format.max() },
        ));
    }
    put_bits(&format, value, &mut event.attr);
    Ok(true)
}

fn put_bits(format: &Format, value: u64, attr: &mut Attr) {
    let word = match format.word {
        ConfigWord::Config => &mut attr.config,
        ConfigWord::Config1 => &mut attr.config1,
        ConfigWord::Config2 => &mut attr.config2,
        ConfigWord::Config3 => &mut attr.config3,
    };
    *word = format.put(value, *word);
}

/// Applies the term if it is a raw event, or on a core PMU a hardware or cache event: `cpu/r1a8/`,
/// `cpu_core/cycles/`. Returns whether it is.
fn apply_generic(
    event: &mut Event,
    pmu: &Pmu,
    term: &Term<'_>,
    sources: &Sources,
) -> Result<bool, LocatedProblem> {
    if term.value.is_some() {
        return Ok(false);
    }
    // Any PMU has raw events; they keep the PMU's type.
    if let Some(config) = names::parse_raw(term.name.text) {
        event.attr.config = config;
        return Ok(true);
    }
    let Some(Ok(found)) = find_generic(term.name.text).filter(|_| pmu.is_core()) else {
        return Ok(false);
    };
    if !found.is_core_event() {
        return Ok(false);
    }
    let pmu_kind = event.attr.kind;
    (event.attr.kind, event.attr.config) = (found.kind, found.config);
    if sources.cores().len() > 1 {
        event.attr.config |= u64::from(pmu_kind) << PERF_PMU_TYPE_SHIFT;
    }
    Ok(true)
}

/// Creates the event for each core PMU of a hybrid machine. The PMU's type goes into the upper half
/// of `config`; for a raw event it is the type of the event.
pub(super) fn resolve_on_each_core(
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

/// Finds the PMUs that name this event in sysfs.
pub(super) fn find_naming(event: &str, sources: &Sources) -> Vec<Pmu> {
    sources.find_pmus(|pmu| matches!(pmu.event(event), Ok(Some(_))))
}

/// Returns all events that PMUs name, for suggestions.
pub(super) fn all_event_names(sources: &Sources) -> Vec<String> {
    sources.pmus().iter().flat_map(|pmu| pmu.events().unwrap_or_default()).collect()
}

fn unknown_term(pmu: &Pmu, term: &Term<'_>) -> LocatedProblem {
    let name = term.name.text;
    let near =
        pmu.events().unwrap_or_default().into_iter().chain(pmu.formats().unwrap_or_default());
    let problem = Problem::UnknownTerm { term: name.to_owned(), pmu: pmu.name().to_owned() };
    LocatedProblem::new(term.name.at, problem).with_nearest(
        name,
        near.chain(terms::NAMES.into_iter().chain(terms::CONFIG_NAMES).map(str::to_owned)),
    )
}

fn sysfs(pmu: &Pmu, at: usize, error: &io::Error) -> LocatedProblem {
    LocatedProblem::new(at, Problem::Sysfs { pmu: pmu.name().to_owned(), why: error.to_string() })
}
