//! Parses probe arguments: `[NAME=]FETCH[:TYPE]` in the notation of the kernel and `perf probe`,
//! and bpftrace's `argN` and `retval`.

use std::fmt::Write;

use tare_kernel::functions::{Argument, ArgumentBase, ArgumentValue, LOADS, Load, Register};

use super::{NamedArgument, ProbeError};
use crate::syntax::parse_number;

const EXPECTED_TYPE: &str = "types are u8 to u64, s8 to s64, x8 to x64, char, string and ustring";

/// The format in which an argument is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An unsigned decimal number; its size in bytes.
    Unsigned(u8),
    /// A signed decimal number; its size in bytes.
    Signed(u8),
    /// A hexadecimal number; its size in bytes.
    Hex(u8),
    /// A character.
    Char,
    /// A string.
    Text,
    /// tare can't read the argument's location; shown as `?`.
    Unknown,
}

impl Format {
    fn bytes(self) -> u8 {
        match self {
            Self::Unsigned(bytes) | Self::Signed(bytes) | Self::Hex(bytes) => bytes,
            Self::Char => 1,
            Self::Text | Self::Unknown => 8,
        }
    }

    /// Formats a fetched value. Memory that could not be read is shown as `(fault)`, as in the
    /// kernel's trace.
    #[must_use]
    pub fn show(self, found: &ArgumentValue<'_>) -> String {
        let Some(value) = found.value else { return "(fault)".to_owned() };
        let unused = 64 - 8 * u32::from(self.bytes().clamp(1, 8));
        let plain = value << unused >> unused;
        match self {
            Self::Unsigned(_) => plain.to_string(),
            Self::Signed(_) => ((value << unused).cast_signed() >> unused).to_string(),
            Self::Hex(_) => format!("{plain:#x}"),
            Self::Char => format!("{:?}", char::from(u8::try_from(plain).unwrap_or(b'?'))),
            Self::Text => quote(found.text),
            Self::Unknown => "?".to_owned(),
        }
    }

    fn parse(name: &str) -> Option<Self> {
        match name {
            "string" | "ustring" => return Some(Self::Text),
            "char" => return Some(Self::Char),
            _ => {}
        }
        let bytes = match name.get(1..)? {
            "8" => 1,
            "16" => 2,
            "32" => 4,
            "64" => 8,
            _ => return None,
        };
        match name.as_bytes()[0] {
            b'u' => Some(Self::Unsigned(bytes)),
            b's' => Some(Self::Signed(bytes)),
            b'x' => Some(Self::Hex(bytes)),
            _ => None,
        }
    }
}

/// Quotes a string, with control characters and invalid UTF-8 escaped.
fn quote(text: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in text.utf8_chunks() {
        chunk.valid().chars().for_each(|c| out.extend(c.escape_debug()));
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}"); // writing to a String can't fail
        }
    }
    out.push('"');
    out
}

/// Ends an argument whose memory is read at the return.
const AT_RETURN: &str = "@return";

const TOO_DEEP: &str = "at most 4 loads from memory";

fn wrong(text: &str, why: &'static str) -> ProbeError {
    ProbeError::Argument { text: text.to_owned(), why }
}

/// Parses an argument. `in_user_memory`: loads read the program's memory, not the kernel's.
pub(super) fn parse_argument(
    text: &str,
    in_user_memory: bool,
) -> Result<NamedArgument, ProbeError> {
    let is_name = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let (asked, at_return) = match text.strip_suffix(AT_RETURN) {
        Some(asked) => (asked, true),
        None => (text, false),
    };
    let (name, rest) = asked.split_once('=').filter(|(name, _)| is_name(name)).unzip();
    let fetch = rest.unwrap_or(asked);
    let (fetch, kind) = match fetch.rsplit_once(':') {
        Some((fetch, kind)) => (fetch, Some(kind)),
        None => (fetch, None),
    };
    let format = kind.map_or(Ok(Format::Hex(8)), |kind| {
        Format::parse(kind).ok_or_else(|| wrong(text, EXPECTED_TYPE))
    })?;
    // Checked before parsing, which recurses once per parenthesis.
    if fetch.matches('(').count() > LOADS {
        return Err(wrong(text, TOO_DEEP));
    }
    let mut loads = Vec::new();
    let base = parse_base(text, fetch, in_user_memory, &mut loads)?;
    let last = (format == Format::Text).then(|| {
        let in_user_memory = in_user_memory || kind == Some("ustring");
        loads.pop().unwrap_or(Load { offset: 0, in_user_memory })
    });
    if loads.len() + usize::from(last.is_some()) > LOADS {
        return Err(wrong(text, TOO_DEEP));
    }
    if at_return && loads.is_empty() && last.is_none() {
        return Err(wrong(text, "@return reads memory, like +0(%si):string@return"));
    }
    let argument = Argument { base, loads, size: format.bytes(), text: last, at_return };
    Ok(NamedArgument { name: name.unwrap_or(fetch).to_owned(), argument, format })
}

/// Selects among the first 8 arguments that a USDT probe declares: `[NAME=]argN[:TYPE]`, or
/// `$argN`.
pub(super) fn select_arguments(
    words: &[&str],
    known: &[NamedArgument],
) -> Result<Vec<NamedArgument>, ProbeError> {
    let chosen = |text: &&str| {
        let (name, rest) = text.split_once('=').unzip();
        let rest = rest.unwrap_or(text);
        let (number, kind) = rest.split_once(':').unzip();
        let number = number.unwrap_or(rest);
        let has_name = |one: &&NamedArgument| one.name == number.trim_start_matches('$');
        let found = known.iter().find(has_name);
        let found = found
            .ok_or_else(|| wrong(text, "the probe has no such argument: arg1 is its first"))?;
        let mut chosen = found.clone();
        chosen.name = name.unwrap_or(number).to_owned();
        if let Some(kind) = kind.filter(|_| chosen.format != Format::Unknown) {
            chosen.format = Format::parse(kind).ok_or_else(|| wrong(text, EXPECTED_TYPE))?;
        }
        if chosen.format == Format::Text {
            chosen.argument.text = Some(Load { offset: 0, in_user_memory: true });
        }
        Ok(chosen)
    };
    words.iter().map(chosen).collect()
}

/// Parses the base of a fetch, and appends the loads around it, the innermost first.
fn parse_base(
    text: &str,
    fetch: &str,
    in_user_memory: bool,
    loads: &mut Vec<Load>,
) -> Result<ArgumentBase, ProbeError> {
    if let Some(register) = fetch.strip_prefix('%') {
        return Register::named(register)
            .map(ArgumentBase::Register)
            .ok_or_else(|| wrong(text, "this machine has no such register"));
    }
    if let Some(word) = fetch.strip_prefix('$') {
        return parse_variable(text, word, in_user_memory, loads);
    }
    if let Some(immediate) = fetch.strip_prefix('\\') {
        return parse_number(immediate)
            .map(ArgumentBase::Constant)
            .ok_or_else(|| wrong(text, "expected a number after \\"));
    }
    if let Some(address) = fetch.strip_prefix('@') {
        const EXPECTED: &str = "expected an address after @; symbols aren't supported there";
        let address = parse_number(address).ok_or_else(|| wrong(text, EXPECTED))?;
        loads.push(Load { offset: 0, in_user_memory });
        return Ok(ArgumentBase::Constant(address));
    }
    if let Some(rest) = fetch.strip_prefix(['+', '-']) {
        const EXPECTED: &str = "memory has the form +OFFSET(FETCH), like +8(%di)";
        let (marked, rest) = rest.strip_prefix('u').map_or((false, rest), |rest| (true, rest));
        let (offset, inner) = rest
            .split_once('(')
            .and_then(|(offset, inner)| Some((offset, inner.strip_suffix(')')?)))
            .ok_or_else(|| wrong(text, EXPECTED))?;
        let offset = parse_number(offset).and_then(|offset| i64::try_from(offset).ok());
        let offset = offset.ok_or_else(|| wrong(text, EXPECTED))?;
        let offset = if fetch.starts_with('-') { -offset } else { offset };
        let base = parse_base(text, inner, in_user_memory, loads)?;
        loads.push(Load { offset, in_user_memory: in_user_memory || marked });
        return Ok(base);
    }
    match fetch.strip_prefix("arg").map(str::parse::<usize>) {
        Some(Ok(number)) => argument_register(text, number.saturating_add(1)),
        _ if fetch == "retval" => Ok(ArgumentBase::Returned),
        _ => Err(wrong(
            text,
            "C variables aren't supported: give a register (%di), memory (+8(%di)), $arg1 or $retval",
        )),
    }
}

/// Returns the register that holds an argument, counted from 1.
fn argument_register(text: &str, number: usize) -> Result<ArgumentBase, ProbeError> {
    const ON_STACK: &str = "this argument isn't in registers: read it from the stack";
    Register::argument(number).map(ArgumentBase::Register).ok_or_else(|| wrong(text, ON_STACK))
}

/// Parses the word after `$`.
fn parse_variable(
    text: &str,
    word: &str,
    in_user_memory: bool,
    loads: &mut Vec<Load>,
) -> Result<ArgumentBase, ProbeError> {
    const EXPECTED: &str = "expected arg1, arg2, …, retval, stack, stack0, stack1, … after $";
    if word == "retval" {
        return Ok(ArgumentBase::Returned);
    }
    if let Some(number) = word.strip_prefix("arg") {
        let number = number.parse().map_err(|_| wrong(text, EXPECTED))?;
        return argument_register(text, number);
    }
    let slot = word.strip_prefix("stack").ok_or_else(|| wrong(text, EXPECTED))?;
    if !slot.is_empty() {
        let slot: u16 = slot.parse().map_err(|_| wrong(text, EXPECTED))?;
        loads.push(Load { offset: 8 * i64::from(slot), in_user_memory });
    }
    Ok(ArgumentBase::Register(Register::stack_pointer()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> NamedArgument {
        parse_argument(text, true).unwrap()
    }

    #[test]
    fn parses_the_kernels_notation() {
        let load = |offset| Load { offset, in_user_memory: true };
        let sp = Register::stack_pointer();
        let expect = |base, loads: &[i64], size, text: Option<i64>| Argument {
            base,
            loads: loads.iter().copied().map(load).collect(),
            size,
            text: text.map(load),
            at_return: false,
        };
        let register = ArgumentBase::Register(sp);
        for (text, argument) in [
            ("%sp", expect(register, &[], 8, None)),
            ("$stack", expect(register, &[], 8, None)),
            ("$stack2:u16", expect(register, &[16], 2, None)),
            ("a=+8(%sp):s32", expect(register, &[8], 4, None)),
            ("-0x10(+8(%sp))", expect(register, &[8, -16], 8, None)),
            ("+4(+8(%sp)):string", expect(register, &[8], 8, Some(4))),
            ("%sp:string", expect(register, &[], 8, Some(0))),
            ("$retval:s32", expect(ArgumentBase::Returned, &[], 4, None)),
            ("retval", expect(ArgumentBase::Returned, &[], 8, None)),
            ("+0($retval):string", expect(ArgumentBase::Returned, &[], 8, Some(0))),
            ("@0x1000:u8", expect(ArgumentBase::Constant(4096), &[0], 1, None)),
            ("\\7", expect(ArgumentBase::Constant(7), &[], 8, None)),
        ] {
            assert_eq!(read(text).argument, argument, "{text}");
        }
        let at_return = |argument| Argument { at_return: true, ..argument };
        let text = read("text=+4(%sp):string@return");
        assert_eq!(text.argument, at_return(expect(register, &[], 8, Some(4))));
        assert_eq!((text.name.as_str(), text.format), ("text", Format::Text));
        let number = read("+0(%sp):s32@return").argument;
        assert_eq!(number, at_return(expect(register, &[0], 4, None)));
        assert_eq!(read("arg0").argument, read("$arg1").argument);
        assert_eq!((read("a=%sp").name, read("$arg1").name), ("a".to_owned(), "$arg1".to_owned()));
        let kernel = parse_argument("+0(%sp)", false).unwrap().argument;
        assert!(!kernel.loads[0].in_user_memory);
        assert!(parse_argument("+u0(%sp)", false).unwrap().argument.loads[0].in_user_memory);
    }

    #[test]
    fn explains_invalid_arguments() {
        for (text, says) in [
            ("length", "C variables"),
            ("x=length:u32", "C variables"),
            ("%nothing", "no such register"),
            ("$arg99", "in registers"),
            ("$nothing", "after $"),
            ("%sp:u33", "types are"),
            ("%sp@return", "reads memory"),
            ("+0(%sp)@exit", "memory has the form"),
            ("+8%sp", "memory has the form"),
            ("+8(%sp", "memory has the form"),
            ("@main", "an address"),
            ("+0(+0(+0(+0(+0(%sp)))))", "at most 4"),
            ("+0(+0(+0(+0(%sp:string))))", "types are"),
            ("+0(+0(+0(+0(+0(%sp))))):string", "at most 4"),
            ("", "C variables"),
        ] {
            let error = parse_argument(text, true).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
        let deep = format!("{}%sp{}", "+0(".repeat(5000), ")".repeat(5000));
        assert!(parse_argument(&deep, true).is_err());
    }

    #[test]
    fn formats_values_by_type() {
        let number = |value| ArgumentValue { value: Some(value), text: b"" };
        let show = |format: Format, value| format.show(&number(value));
        assert_eq!(show(Format::Signed(4), 0xffff_ffff), "-1");
        assert_eq!(show(Format::Unsigned(1), 0x1ff), "255");
        assert_eq!(show(Format::Hex(8), u64::MAX), "0xffffffffffffffff");
        assert_eq!(show(Format::Char, 65), "'A'");
        assert_eq!(
            Format::Text.show(&ArgumentValue { value: Some(1), text: b"a\x1b\xff\"" }),
            r#""a\u{1b}\xff\"""#
        );
        assert_eq!(Format::Text.show(&ArgumentValue { value: None, text: b"" }), "(fault)");
    }
}
