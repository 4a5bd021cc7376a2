//! Breakpoints: `mem:ADDRESS[/LENGTH][:rwx]`.

use tare_format::abi::Attr;
use tare_format::abi::bindings::{
    HW_BREAKPOINT_R, HW_BREAKPOINT_W, HW_BREAKPOINT_X, PERF_TYPE_BREAKPOINT,
};

use super::Event;
use super::error::{LocatedProblem, Problem};
use super::modifiers::apply_terms_and_modifiers;
use super::syntax::{EventText, Word, parse_number};

/// Default length of a data breakpoint, in bytes; perf has the same default.
const DATA_LEN: u64 = 4;
/// Default length of an execution breakpoint, in bytes, as in perf: x86 kernels accept only the
/// size of a `long`.
const EXECUTE_LEN: u64 = size_of::<std::ffi::c_long>() as u64;

pub(super) fn resolve(typed: &EventText<'_>) -> Result<Event, LocatedProblem> {
    let mut words = typed.words.iter().copied().skip(1).peekable();
    let shape = |at| {
        LocatedProblem::new(
            at,
            Problem::Syntax(
                "a breakpoint has the form mem:ADDRESS[/LENGTH][:rwx], with numbers like 0x1234",
            ),
        )
    };
    let address = words.next().ok_or_else(|| shape(typed.whole.at))?;
    let config1 = parse_number(address.text).ok_or_else(|| shape(address.at))?;
    let length = match words.next_if(|word| word.text == "/").and_then(|_| words.next()) {
        Some(word) => {
            Some(parse_number(word.text).filter(|&n| n > 0).ok_or_else(|| shape(word.at))?)
        }
        None => None,
    };
    let access =
        words.next_if(|word| !word.text.is_empty() && word.text.chars().all(|c| "rwx".contains(c)));
    let bp_type = access.map_or(Ok(HW_BREAKPOINT_R | HW_BREAKPOINT_W), parse_access)?;
    let modifiers = match (words.next(), typed.tail) {
        (Some(word), None) => Some(word),
        (None, tail) => tail,
        (Some(word), Some(_)) => return Err(shape(word.at)),
    };
    if let Some(word) = words.next() {
        return Err(shape(word.at));
    }
    let config2 = length.unwrap_or(if bp_type == HW_BREAKPOINT_X { EXECUTE_LEN } else { DATA_LEN });
    let attr = Attr { kind: PERF_TYPE_BREAKPOINT, config1, config2, bp_type, ..Attr::default() };
    let mut event = Event::new(typed.whole.text, attr);
    apply_terms_and_modifiers(&mut event, typed.terms.as_deref(), modifiers)?;
    Ok(event)
}

fn parse_access(word: Word<'_>) -> Result<u32, LocatedProblem> {
    let mut bits = 0;
    for (at, letter) in word.text.char_indices() {
        let bit = match letter {
            'r' => HW_BREAKPOINT_R,
            'w' => HW_BREAKPOINT_W,
            _ => HW_BREAKPOINT_X,
        };
        if bits & bit != 0 {
            return Err(LocatedProblem::new(
                word.at + at,
                Problem::Syntax("expected r, w and x, each at most once"),
            ));
        }
        bits |= bit;
    }
    Ok(bits)
}
