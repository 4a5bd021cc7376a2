//! The terms between slashes that every event takes: `cycles/period=1000,name=c/`.

use tare_format::abi::Sampling;
use tare_format::abi::bindings::{
    PERF_SAMPLE_BRANCH_ABORT_TX, PERF_SAMPLE_BRANCH_ANY, PERF_SAMPLE_BRANCH_ANY_CALL,
    PERF_SAMPLE_BRANCH_ANY_RETURN, PERF_SAMPLE_BRANCH_CALL, PERF_SAMPLE_BRANCH_CALL_STACK,
    PERF_SAMPLE_BRANCH_COND, PERF_SAMPLE_BRANCH_COUNTERS, PERF_SAMPLE_BRANCH_HV,
    PERF_SAMPLE_BRANCH_HW_INDEX, PERF_SAMPLE_BRANCH_IN_TX, PERF_SAMPLE_BRANCH_IND_CALL,
    PERF_SAMPLE_BRANCH_IND_JUMP, PERF_SAMPLE_BRANCH_KERNEL, PERF_SAMPLE_BRANCH_NO_CYCLES,
    PERF_SAMPLE_BRANCH_NO_FLAGS, PERF_SAMPLE_BRANCH_NO_TX, PERF_SAMPLE_BRANCH_PRIV_SAVE,
    PERF_SAMPLE_BRANCH_TYPE_SAVE, PERF_SAMPLE_BRANCH_USER,
};

use super::Event;
use super::error::{LocatedProblem, Problem};
use super::syntax::{Term, number};

/// What a user said of an event that matters only where it is sampled. Counting leaves it aside.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingTerms {
    /// `period=N`, `freq=N`; [`Sampling::None`] where the user didn't say.
    pub rate: Sampling,
    /// `call-graph=`
    pub call_graph: Option<CallGraph>,
    /// `stack-size=`: bytes of the user's stack that a sample holds.
    pub stack_size: Option<u32>,
    /// `max-stack=`: frames of a call chain at most.
    pub max_stack: Option<u16>,
    /// `branch_type=`: `PERF_SAMPLE_BRANCH_*`
    pub branch_type: Option<u64>,
    /// `time=`: whether samples have a time.
    pub time: Option<bool>,
    /// `overwrite`, `no-overwrite`: whether new samples take the place of old ones when the ring is
    /// full.
    pub overwrite: Option<bool>,
    /// `nr=`: how many of the event's samples are shown at most.
    pub max_events: Option<u64>,
    /// `aux-output`: samples go into the AUX area of the group's leader.
    pub aux_output: bool,
    /// `aux-sample-size=`: bytes of the AUX area that a sample holds.
    pub aux_sample_size: Option<u32>,
}

/// How a sample gets its call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallGraph {
    /// None, whatever the command line says for the other events.
    No,
    /// The kernel follows frame pointers.
    FramePointer,
    /// The kernel follows frame pointers, those of user code when it goes back there (Linux 6.19).
    DeferredFramePointer,
    /// A copy of the stack, unwound later.
    Dwarf,
    /// Both: frame pointers go on where the copy ends.
    DwarfAndFramePointer,
    /// The CPU's record of the last branches.
    LastBranchRecord,
}

/// The names of the terms that every event takes, to find those near a wrong one.
pub(super) const NAMES: [&str; 16] = [
    "name",
    "period",
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "branch_type",
    "time",
    "nr",
    "inherit",
    "no-inherit",
    "overwrite",
    "no-overwrite",
    "percore",
    "aux-output",
    "aux-sample-size",
];

/// The names of those that set a word of the attribute.
pub(super) const CONFIG_NAMES: [&str; 4] = ["config", "config1", "config2", "config3"];

/// The kinds of branches, in perf's spelling (`perf-record(1)`, `--branch-filter`).
const BRANCHES: [(&str, u32); 20] = [
    ("any", PERF_SAMPLE_BRANCH_ANY),
    ("any_call", PERF_SAMPLE_BRANCH_ANY_CALL),
    ("any_ret", PERF_SAMPLE_BRANCH_ANY_RETURN),
    ("ind_call", PERF_SAMPLE_BRANCH_IND_CALL),
    ("ind_jmp", PERF_SAMPLE_BRANCH_IND_JUMP),
    ("call", PERF_SAMPLE_BRANCH_CALL),
    ("cond", PERF_SAMPLE_BRANCH_COND),
    ("stack", PERF_SAMPLE_BRANCH_CALL_STACK),
    ("u", PERF_SAMPLE_BRANCH_USER),
    ("k", PERF_SAMPLE_BRANCH_KERNEL),
    ("hv", PERF_SAMPLE_BRANCH_HV),
    ("in_tx", PERF_SAMPLE_BRANCH_IN_TX),
    ("no_tx", PERF_SAMPLE_BRANCH_NO_TX),
    ("abort_tx", PERF_SAMPLE_BRANCH_ABORT_TX),
    ("no_flags", PERF_SAMPLE_BRANCH_NO_FLAGS),
    ("no_cycles", PERF_SAMPLE_BRANCH_NO_CYCLES),
    ("save_type", PERF_SAMPLE_BRANCH_TYPE_SAVE),
    ("hw_index", PERF_SAMPLE_BRANCH_HW_INDEX),
    ("priv", PERF_SAMPLE_BRANCH_PRIV_SAVE),
    ("counter", PERF_SAMPLE_BRANCH_COUNTERS),
];

/// The bits of a kind of branches, by perf's name (`PERF_SAMPLE_BRANCH_*`).
#[must_use]
pub fn branch_kind(name: &str) -> Option<u64> {
    BRANCHES.iter().find(|(known, _)| *known == name).map(|&(_, bits)| bits.into())
}

/// The names of all kinds of branches.
pub fn branch_kinds() -> impl Iterator<Item = &'static str> {
    BRANCHES.iter().map(|(known, _)| *known)
}

/// Applies a term that every event takes; whether it is one.
pub(super) fn apply(event: &mut Event, term: &Term<'_>) -> Result<bool, LocatedProblem> {
    let sampling = &mut event.sampling;
    match term.name.text {
        "name" => event.name = text(term)?.to_owned(),
        "period" => sampling.rate = Sampling::Period(positive(term)?),
        "freq" => sampling.rate = Sampling::Frequency(positive(term)?),
        "call-graph" => sampling.call_graph = Some(call_graph(term)?),
        "stack-size" => sampling.stack_size = Some(sized(term)?),
        "max-stack" => sampling.max_stack = Some(sized(term)?),
        "branch_type" => sampling.branch_type = Some(branch_type(term)?),
        "time" => sampling.time = Some(switch(term)?),
        "nr" => sampling.max_events = Some(positive(term)?),
        "overwrite" => sampling.overwrite = Some(switch(term)?),
        "no-overwrite" => sampling.overwrite = Some(!switch(term)?),
        "aux-output" => sampling.aux_output = switch(term)?,
        "aux-sample-size" => sampling.aux_sample_size = Some(sized(term)?),
        "inherit" => event.inherit = Some(switch(term)?),
        "no-inherit" => event.inherit = Some(!switch(term)?),
        "percore" => event.percore = switch(term)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Applies `config=`, `config1=`, … to an event; whether the term is one of these.
pub(super) fn apply_config(event: &mut Event, term: &Term<'_>) -> Result<bool, LocatedProblem> {
    let word = match term.name.text {
        "config" => &mut event.attr.config,
        "config1" => &mut event.attr.config1,
        "config2" => &mut event.attr.config2,
        "config3" => &mut event.attr.config3,
        _ => return Ok(false),
    };
    *word = value(term)?;
    Ok(true)
}

/// A term's number; one without a value is 1.
pub(super) fn value(term: &Term<'_>) -> Result<u64, LocatedProblem> {
    term.value.map_or(Ok(1), |word| {
        number(word.text).ok_or_else(|| wrong(term, "a number belongs after =, like 10 or 0xa"))
    })
}

fn wrong(term: &Term<'_>, why: &'static str) -> LocatedProblem {
    LocatedProblem::new(
        term.value.unwrap_or(term.name).at,
        Problem::BadValue { term: term.name.text.to_owned(), why },
    )
}

fn text<'a>(term: &Term<'a>) -> Result<&'a str, LocatedProblem> {
    term.value
        .map(|word| word.text)
        .filter(|text| !text.is_empty())
        .ok_or_else(|| wrong(term, "a text belongs after ="))
}

fn positive(term: &Term<'_>) -> Result<u64, LocatedProblem> {
    let number = term.value.and_then(|word| number(word.text)).filter(|&n| n > 0);
    number.ok_or_else(|| wrong(term, "a number above 0 belongs after ="))
}

fn sized<T: TryFrom<u64>>(term: &Term<'_>) -> Result<T, LocatedProblem> {
    positive(term)?.try_into().map_err(|_| wrong(term, "the number is too large"))
}

fn switch(term: &Term<'_>) -> Result<bool, LocatedProblem> {
    match term.value.map(|word| word.text) {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(_) => Err(wrong(term, "0 or 1 belongs after =")),
    }
}

fn call_graph(term: &Term<'_>) -> Result<CallGraph, LocatedProblem> {
    match term.value.map(|word| word.text) {
        Some("fp") => Ok(CallGraph::FramePointer),
        Some("dwarf") => Ok(CallGraph::Dwarf),
        Some("dwarf+fp") => Ok(CallGraph::DwarfAndFramePointer),
        Some("lbr") => Ok(CallGraph::LastBranchRecord),
        Some("no") => Ok(CallGraph::No),
        _ => Err(wrong(term, "fp, dwarf, dwarf+fp, lbr or no belongs after =")),
    }
}

/// `any+u`: several are joined with a plus, as the comma separates terms.
fn branch_type(term: &Term<'_>) -> Result<u64, LocatedProblem> {
    let mut bits = 0;
    for name in text(term)?.split('+') {
        let unknown = || {
            wrong(term, "kinds of branches belong after =, joined with +, like any+u")
                .near(name, branch_kinds())
        };
        bits |= branch_kind(name).ok_or_else(unknown)?;
    }
    Ok(bits)
}
