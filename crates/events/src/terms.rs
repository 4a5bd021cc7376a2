//! The terms between slashes that every event has: `cycles/period=1000,name=c/`.

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
use super::syntax::{Term, parse_number};

/// The terms of an event that have an effect only if it is sampled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SamplingTerms {
    /// `period=N`, `freq=N`; [`Sampling::None`] without either.
    pub rate: Sampling,
    /// `call-graph=`
    pub call_graph: Option<CallGraph>,
    /// `stack-size=`: bytes of user stack copied into a sample.
    pub stack_size: Option<u32>,
    /// `max-stack=`: maximum number of frames in a call chain.
    pub max_stack: Option<u16>,
    /// `branch_type=`: `PERF_SAMPLE_BRANCH_*`
    pub branch_type: Option<u64>,
    /// `time=`: whether samples have a time.
    pub time: Option<bool>,
    /// `overwrite`, `no-overwrite`: whether new samples overwrite old ones in a full ring buffer.
    pub overwrite: Option<bool>,
    /// `nr=`: maximum number of the event's samples shown.
    pub max_events: Option<u64>,
    /// `aux-output`: samples go into the AUX area of the group's leader.
    pub aux_output: bool,
    /// `aux-sample-size=`: bytes of AUX area copied into a sample.
    pub aux_sample_size: Option<u32>,
}

/// The source of a sample's call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallGraph {
    /// No call chain, even if the command line requests one for other events.
    No,
    /// The kernel follows frame pointers.
    FramePointer,
    /// The kernel follows frame pointers; those of user code when the task returns to user mode
    /// (Linux 6.19).
    DeferredFramePointer,
    /// A copy of the user stack, unwound by the recorder.
    Auto,
    /// A copy of the user stack, unwound when the recording is read.
    Dwarf,
    /// Both: frame pointers continue where the copied stack ends.
    DwarfAndFramePointer,
    /// The CPU's last branch records.
    LastBranchRecord,
}

/// The names of the terms that every event has, for suggestions.
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

/// The names of the terms that set a config word of the attribute.
pub(super) const CONFIG_NAMES: [&str; 4] = ["config", "config1", "config2", "config3"];

/// Kinds of branches, in perf's spelling (`perf-record(1)`, `--branch-filter`).
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

/// Finds the bits of a kind of branches (`PERF_SAMPLE_BRANCH_*`) by perf's name.
#[must_use]
pub fn branch_kind(name: &str) -> Option<u64> {
    BRANCHES.iter().find(|(known, _)| *known == name).map(|&(_, bits)| bits.into())
}

/// Returns the names that `-j` and `branch_type=` accept.
pub fn branch_kinds() -> impl Iterator<Item = &'static str> {
    BRANCHES.iter().map(|(known, _)| *known)
}

/// Applies the term if every event has it. Returns whether it does.
pub(super) fn apply(event: &mut Event, term: &Term<'_>) -> Result<bool, LocatedProblem> {
    let sampling = &mut event.sampling;
    match term.name.text {
        "name" => event.name = text(term)?.to_owned(),
        "period" => sampling.rate = Sampling::Period(parse_positive(term)?),
        "freq" => sampling.rate = Sampling::Frequency(parse_positive(term)?),
        "call-graph" => sampling.call_graph = Some(parse_call_graph(term)?),
        "stack-size" => sampling.stack_size = Some(parse_size(term)?),
        "max-stack" => sampling.max_stack = Some(parse_size(term)?),
        "branch_type" => sampling.branch_type = Some(parse_branch_type(term)?),
        "time" => sampling.time = Some(parse_switch(term)?),
        "nr" => sampling.max_events = Some(parse_positive(term)?),
        "overwrite" => sampling.overwrite = Some(parse_switch(term)?),
        "no-overwrite" => sampling.overwrite = Some(!parse_switch(term)?),
        "aux-output" => sampling.aux_output = parse_switch(term)?,
        "aux-sample-size" => sampling.aux_sample_size = Some(parse_size(term)?),
        "inherit" => event.inherit = Some(parse_switch(term)?),
        "no-inherit" => event.inherit = Some(!parse_switch(term)?),
        "percore" => event.percore = parse_switch(term)?,
        _ => return Ok(false),
    }
    Ok(true)
}

/// Applies the term if it is `config=`, `config1=`, …. Returns whether it is.
pub(super) fn apply_config(event: &mut Event, term: &Term<'_>) -> Result<bool, LocatedProblem> {
    let word = match term.name.text {
        "config" => &mut event.attr.config,
        "config1" => &mut event.attr.config1,
        "config2" => &mut event.attr.config2,
        "config3" => &mut event.attr.config3,
        _ => return Ok(false),
    };
    *word = parse_value(term)?;
    Ok(true)
}

/// Parses a term's value as a number; a missing value is 1.
pub(super) fn parse_value(term: &Term<'_>) -> Result<u64, LocatedProblem> {
    term.value.map_or(Ok(1), |word| {
        parse_number(word.text)
            .ok_or_else(|| wrong(term, "expected a number after =, like 10 or 0xa"))
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
        .ok_or_else(|| wrong(term, "expected a text after ="))
}

fn parse_positive(term: &Term<'_>) -> Result<u64, LocatedProblem> {
    let number = term.value.and_then(|word| parse_number(word.text)).filter(|&n| n > 0);
    number.ok_or_else(|| wrong(term, "expected a number above 0 after ="))
}

fn parse_size<T: TryFrom<u64>>(term: &Term<'_>) -> Result<T, LocatedProblem> {
    parse_positive(term)?.try_into().map_err(|_| wrong(term, "the number is too large"))
}

fn parse_switch(term: &Term<'_>) -> Result<bool, LocatedProblem> {
    match term.value.map(|word| word.text) {
        None | Some("1") => Ok(true),
        Some("0") => Ok(false),
        Some(_) => Err(wrong(term, "expected 0 or 1 after =")),
    }
}

fn parse_call_graph(term: &Term<'_>) -> Result<CallGraph, LocatedProblem> {
    match term.value.map(|word| word.text) {
        Some("auto") => Ok(CallGraph::Auto),
        Some("fp") => Ok(CallGraph::FramePointer),
        Some("dwarf") => Ok(CallGraph::Dwarf),
        Some("dwarf+fp") => Ok(CallGraph::DwarfAndFramePointer),
        Some("lbr") => Ok(CallGraph::LastBranchRecord),
        Some("no") => Ok(CallGraph::No),
        _ => Err(wrong(term, "expected auto, fp, dwarf, dwarf+fp, lbr or no after =")),
    }
}

/// Parses kinds of branches joined with a plus, like `any+u`; a comma would end the term.
fn parse_branch_type(term: &Term<'_>) -> Result<u64, LocatedProblem> {
    let mut bits = 0;
    for name in text(term)?.split('+') {
        let unknown = || {
            wrong(term, "expected kinds of branches joined with + after =, like any+u")
                .with_nearest(name, branch_kinds())
        };
        bits |= branch_kind(name).ok_or_else(unknown)?;
    }
    Ok(bits)
}
