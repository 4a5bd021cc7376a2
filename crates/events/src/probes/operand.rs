//! Parses the locations of USDT arguments: `SIZE@OPERAND` in assembler notation.

use tare_kernel::functions::{Argument, ArgumentBase, Load, Register};

use super::NamedArgument;
use super::fetch::Format;

/// Parses the arguments of a probe. Spaces separate them; operands may contain spaces in brackets.
pub(super) fn parse_arguments(text: &str) -> Vec<NamedArgument> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        match words.last_mut() {
            Some(last) if last.contains('[') && !last.contains(']') => last.push_str(word),
            _ => words.push(word.to_owned()),
        }
    }
    let named = |(number, word): (usize, &String)| {
        let (argument, format) = parse_argument(word).unwrap_or((
            Argument {
                base: ArgumentBase::Constant(0),
                loads: Vec::new(),
                size: 8,
                text: None,
                at_return: false,
            },
            Format::Unknown,
        ));
        NamedArgument { name: format!("arg{}", number + 1), argument, format }
    };
    words.iter().enumerate().map(named).collect()
}

fn parse_argument(word: &str) -> Option<(Argument, Format)> {
    let (size, operand) = word.split_once('@').unwrap_or(("8", word));
    let (is_signed, size) = size.strip_prefix('-').map_or((false, size), |size| (true, size));
    let bytes: u8 = size.parse().ok().filter(|bytes| [1, 2, 4, 8].contains(bytes))?;
    let (base, loads) = parse_operand(operand)?;
    let format = if is_signed { Format::Signed(bytes) } else { Format::Unsigned(bytes) };
    Some((Argument { base, loads, size: bytes, text: None, at_return: false }, format))
}

fn parse_signed(text: &str) -> Option<i64> {
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |digits| (true, digits));
    let number = i64::try_from(crate::syntax::parse_number(digits)?).ok()?;
    Some(if negative { -number } else { number })
}

fn parse_constant(text: &str) -> Option<(ArgumentBase, Vec<Load>)> {
    Some((ArgumentBase::Constant(parse_signed(text)?.cast_unsigned()), Vec::new()))
}

/// Parses AT&T syntax: `$5`, `%rax`, `-20(%rbp)`. Indexes, segments and symbols aren't supported.
#[cfg(target_arch = "x86_64")]
fn parse_operand(operand: &str) -> Option<(ArgumentBase, Vec<Load>)> {
    if let Some(number) = operand.strip_prefix('$') {
        return parse_constant(number);
    }
    if let Some(name) = operand.strip_prefix('%').filter(|name| !name.contains(':')) {
        return Some((ArgumentBase::Register(find_register(name)?), Vec::new()));
    }
    let (offset, inner) = operand.strip_suffix(')')?.split_once('(')?;
    let register = find_register(inner.strip_prefix('%')?)?;
    let offset = if offset.is_empty() { 0 } else { parse_signed(offset)? };
    Some((ArgumentBase::Register(register), vec![Load { offset, in_user_memory: true }]))
}

/// Finds a register by its name or by that of a part that includes the lowest byte: `rax`, `eax`,
/// `ax`, `al`.
#[cfg(target_arch = "x86_64")]
fn find_register(name: &str) -> Option<Register> {
    let whole = match name {
        "al" => "ax",
        "bl" => "bx",
        "cl" => "cx",
        "dl" => "dx",
        "sil" => "si",
        "dil" => "di",
        "bpl" => "bp",
        "spl" => "sp",
        name => {
            let name = name.strip_prefix('e').unwrap_or(name);
            // r8d, r8w, r8b
            let is_numbered =
                name.starts_with('r') && name[1..].starts_with(|c: char| c.is_ascii_digit());
            if is_numbered { name.trim_end_matches(['d', 'w', 'b']) } else { name }
        }
    };
    Register::named(whole)
}

/// Parses `5`, `x0`, `w0`, `[sp, 16]`. Indexes aren't supported.
#[cfg(target_arch = "aarch64")]
fn parse_operand(operand: &str) -> Option<(ArgumentBase, Vec<Load>)> {
    let register = |name: &str| match name.strip_prefix('w') {
        Some(number) => Register::named(&format!("x{number}")),
        None => Register::named(name),
    };
    if let Some(inner) = operand.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let (name, offset) = inner.split_once(',').unwrap_or((inner, "0"));
        let offset = parse_signed(offset.trim_start_matches('#'))?;
        return Some((
            ArgumentBase::Register(register(name)?),
            vec![Load { offset, in_user_memory: true }],
        ));
    }
    parse_constant(operand.trim_start_matches('#'))
        .or_else(|| Some((ArgumentBase::Register(register(operand)?), Vec::new())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Vec<(ArgumentBase, Vec<i64>, Format)> {
        let argument = |one: NamedArgument| {
            let loads = one.argument.loads.iter().map(|load| load.offset).collect();
            (one.argument.base, loads, one.format)
        };
        parse_arguments(text).into_iter().map(argument).collect()
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn parses_operands_of_x86() {
        let named = |name| ArgumentBase::Register(Register::named(name).unwrap());
        assert_eq!(
            read(
                "-4@$-5 8@%rax 4@%r8d 1@%dil -4@-20(%rbp) 8@(%rsp) 8@(%rax,%rbx,8) 4@x(%rip) 9@%rax"
            ),
            [
                (ArgumentBase::Constant((-5_i64).cast_unsigned()), vec![], Format::Signed(4)),
                (named("ax"), vec![], Format::Unsigned(8)),
                (named("r8"), vec![], Format::Unsigned(4)),
                (named("di"), vec![], Format::Unsigned(1)),
                (named("bp"), vec![-20], Format::Signed(4)),
                (named("sp"), vec![0], Format::Unsigned(8)),
                (ArgumentBase::Constant(0), vec![], Format::Unknown),
                (ArgumentBase::Constant(0), vec![], Format::Unknown),
                (ArgumentBase::Constant(0), vec![], Format::Unknown),
            ]
        );
    }

    #[cfg(target_arch = "aarch64")]
    #[test]
    fn parses_operands_of_arm() {
        let named = |name| ArgumentBase::Register(Register::named(name).unwrap());
        assert_eq!(
            read("-4@[sp, 12] 8@x0 4@w1 4@5 8@[x0,x1]"),
            [
                (named("sp"), vec![12], Format::Signed(4)),
                (named("x0"), vec![], Format::Unsigned(8)),
                (named("x1"), vec![], Format::Unsigned(4)),
                (ArgumentBase::Constant(5), vec![], Format::Unsigned(4)),
                (ArgumentBase::Constant(0), vec![], Format::Unknown),
            ]
        );
    }

    #[test]
    fn parses_any_text_without_panic() {
        for text in [
            "", "@", "-@", "8@", "8@$", "8@%", "8@(", "8@()", "8@[", "8@[]", "8@[,", "8@(%é)",
            "8@%ré",
        ] {
            let _ = read(text);
        }
    }
}
