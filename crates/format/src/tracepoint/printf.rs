//! The conversions of `printf(3)`, with the kernel's extensions.

use super::evaluate::Raw;
use super::expression::Expression;
use super::field::sign_extend;

/// A directive of a format, in the words of printf(3).
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Directive {
    Text(Vec<u8>),
    Conversion(Box<Conversion>),
}

/// A conversion specification with its argument.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Conversion {
    flags: ConversionFlags,
    width: Size,
    precision: Size,
    /// Bytes of the number.
    bytes: u32,
    specifier: u8,
    /// The letters and digits after `%p`.
    extension: Vec<u8>,
    argument: Expression,
}

/// The flag characters of a conversion, before its width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ConversionFlags {
    /// `-`: pad on the right.
    left: bool,
    /// `0`: pad with zeros after the sign.
    zeros: bool,
    /// `+`: print the sign of positive numbers.
    plus: bool,
    /// ` `: print a space instead of that sign.
    space: bool,
    /// `#`: print the base.
    alternate: bool,
}

impl ConversionFlags {
    /// Splits the flags off the front of `text`.
    fn split(text: &[u8]) -> (Self, &[u8]) {
        let count = text.iter().take_while(|byte| b"-+ #0".contains(byte)).count();
        let (flags, behind) = text.split_at(count);
        let has = |flag: u8| flags.contains(&flag);
        let left = has(b'-');
        let zeros = has(b'0');
        let plus = has(b'+');
        let space = has(b' ');
        let alternate = has(b'#');
        (Self { left, zeros, plus, space, alternate }, behind)
    }

    /// Returns the text before the digits of a decimal number.
    fn sign(self, number: i64) -> &'static [u8] {
        match number {
            ..0 => b"-",
            _ if self.plus => b"+",
            _ if self.space => b" ",
            _ => b"",
        }
    }

    /// Returns the position and the byte of the padding, for text from `start` to `end` whose
    /// digits start at `number_at`. With `zeros` it may be padded with zeros.
    fn padding(self, start: usize, number_at: usize, end: usize, zeros: bool) -> (usize, u8) {
        match (self.left, zeros) {
            (true, _) => (end, b' '),
            (false, true) => (number_at, b'0'),
            (false, false) => (start, b' '),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Size {
    None,
    Fixed(usize),
    Argument(Expression),
}

/// Limit of a conversion's width and of its precision, in bytes.
const WIDEST: u64 = 1 << 10;

/// Parses a format; `None` if a conversion is unknown or lacks its argument. A line feed at the end
/// is dropped.
pub(super) fn parse_directives(
    format: &[u8],
    arguments: Vec<Expression>,
) -> Option<Vec<Directive>> {
    let mut arguments = arguments.into_iter();
    let mut directives = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        directives.push(Directive::Text(rest[..at].to_vec()));
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(b"%") {
            directives.push(Directive::Text(b"%".to_vec()));
            rest = behind;
            continue;
        }
        let (conversion, behind) = parse_conversion(rest, &mut arguments)?;
        directives.push(Directive::Conversion(Box::new(conversion)));
        rest = behind;
    }
    let end = rest.strip_suffix(b"\n").unwrap_or(rest);
    directives.push(Directive::Text(end.to_vec()));
    directives.retain(|directive| *directive != Directive::Text(Vec::new()));
    Some(directives)
}

fn parse_conversion<'f>(
    mut rest: &'f [u8],
    arguments: &mut impl Iterator<Item = Expression>,
) -> Option<(Conversion, &'f [u8])> {
    let (flags, behind) = ConversionFlags::split(rest);
    rest = behind;
    let width = parse_size(&mut rest, arguments)?;
    let precision = match rest.strip_prefix(b".") {
        Some(behind) => {
            rest = behind;
            match parse_size(&mut rest, arguments)? {
                Size::None => Size::Fixed(0),
                precision => precision,
            }
        }
        None => Size::None,
    };
    let lengths = rest.iter().take_while(|byte| b"hlLqjzZt".contains(byte)).count();
    let (length, behind) = rest.split_at(lengths);
    let bytes = match length {
        b"hh" => 1,
        b"h" => 2,
        b"" => 4,
        _ => 8,
    };
    let (specifier, behind) = behind.split_first()?;
    let letters = if *specifier == b'p' {
        behind.iter().take_while(|byte| byte.is_ascii_alphanumeric()).count()
    } else {
        0
    };
    if !b"diuxXocsp".contains(specifier) {
        return None;
    }
    let argument = arguments.next()?;
    let specifier = *specifier;
    let extension = behind[..letters].to_vec();
    let conversion = Conversion { flags, width, precision, bytes, specifier, extension, argument };
    Some((conversion, &behind[letters..]))
}

/// Parses a width or precision: digits, or `*` for an argument.
fn parse_size(rest: &mut &[u8], arguments: &mut impl Iterator<Item = Expression>) -> Option<Size> {
    if let Some(behind) = rest.strip_prefix(b"*") {
        *rest = behind;
        return Some(Size::Argument(arguments.next()?));
    }
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (number, behind) = rest.split_at(digits);
    *rest = behind;
    if number.is_empty() {
        return Some(Size::None);
    }
    std::str::from_utf8(number).ok()?.parse().ok().map(Size::Fixed)
}

/// Appends a record as text.
pub(super) fn print(directives: &[Directive], raw: &mut Raw<'_>, out: &mut Vec<u8>) {
    for directive in directives {
        match directive {
            Directive::Text(text) => out.extend_from_slice(text),
            Directive::Conversion(conversion) => conversion.print(raw, out),
        }
    }
}

impl Conversion {
    fn print(&self, raw: &mut Raw<'_>, out: &mut Vec<u8>) {
        let width = self.width.value(raw);
        let precision = self.precision.value(raw);
        let start = out.len();
        let digits = match self.specifier {
            b's' => {
                raw.append_text(&self.argument, out);
                if let Some(precision) = precision {
                    out.truncate(out.len().min(start.saturating_add(precision)));
                }
                return self.pad(out, start, start, width.unwrap_or(0), false);
            }
            b'c' => {
                out.push(u8::try_from(raw.number(&self.argument) & 0xff).unwrap_or(b'?'));
                return self.pad(out, start, start, width.unwrap_or(0), false);
            }
            b'p' => {
                self.print_pointer(raw, out, width);
                return self.pad(
                    out,
                    start,
                    start,
                    if self.extension == b"h" { 0 } else { width.unwrap_or(0) },
                    false,
                );
            }
            _ => self.print_integer(raw.number(&self.argument), out),
        };
        let number_at = out.len();
        out.extend(std::iter::repeat_n(b'0', precision.unwrap_or(1).saturating_sub(digits.len())));
        out.extend_from_slice(digits.as_bytes());
        self.pad(
            out,
            start,
            number_at,
            width.unwrap_or(0),
            self.flags.zeros && precision.is_none(),
        );
    }

    /// Appends the sign or the base, and returns the digits.
    fn print_integer(&self, value: u64, out: &mut Vec<u8>) -> String {
        let unsigned = if self.bytes >= 8 { value } else { value & ((1 << (8 * self.bytes)) - 1) };
        let base = |text: &str| {
            if self.flags.alternate && unsigned != 0 {
                text.as_bytes().to_vec()
            } else {
                Vec::new()
            }
        };
        let (before, digits) = match self.specifier {
            b'd' | b'i' => {
                let signed = sign_extend(value, self.bytes);
                (self.flags.sign(signed).to_vec(), signed.unsigned_abs().to_string())
            }
            b'x' => (base("0x"), format!("{unsigned:x}")),
            b'X' => (base("0X"), format!("{unsigned:X}")),
            b'o' => (base("0"), format!("{unsigned:o}")),
            _ => (Vec::new(), unsigned.to_string()),
        };
        out.extend_from_slice(&before);
        digits
    }

    /// Pads to the width; zeros go after the sign.
    fn pad(&self, out: &mut Vec<u8>, start: usize, number_at: usize, width: usize, zeros: bool) {
        let missing = width.saturating_sub(out.len() - start);
        if missing == 0 {
            return;
        }
        let (at, fill) = self.flags.padding(start, number_at, out.len(), zeros);
        out.splice(at..at, std::iter::repeat_n(fill, missing));
    }

    fn print_pointer(&self, raw: &mut Raw<'_>, out: &mut Vec<u8>, width: Option<usize>) {
        let bytes = || raw.buffer(&self.argument);
        match self.extension.as_slice() {
            [b'S' | b's' | b'F' | b'f' | b'B', ..] => {
                let address = raw.number(&self.argument);
                let Some((name, start)) = raw.names.symbol(address) else {
                    return out.extend_from_slice(format!("0x{address:x}").as_bytes());
                };
                out.extend_from_slice(name.as_bytes());
                if matches!(self.extension[0], b'S' | b'F') {
                    out.extend_from_slice(
                        format!("+0x{:x}", address.wrapping_sub(start)).as_bytes(),
                    );
                }
            }
            [b'M' | b'm', rest @ ..] => {
                let between = if rest.first() == Some(&b'F') { "-" } else { ":" };
                out.extend_from_slice(
                    format_hex(bytes(), 6, if self.extension[0] == b'm' { "" } else { between })
                        .as_bytes(),
                );
            }
            [b'h', rest @ ..] => {
                let between = match rest.first() {
                    Some(b'C') => ":",
                    Some(b'D') => "-",
                    Some(b'N') => "",
                    _ => " ",
                };
                out.extend_from_slice(format_hex(bytes(), width.unwrap_or(1), between).as_bytes());
            }
            [b'U', ..] => out.extend_from_slice(format_uuid(bytes()).as_bytes()),
            [b'I' | b'i', b'4', ..] => {
                let parts: Vec<_> = bytes().iter().take(4).map(u8::to_string).collect();
                out.extend_from_slice(parts.join(".").as_bytes());
            }
            [b'I' | b'i', kind @ (b'6' | b'S'), ..] => {
                out.extend_from_slice(format_internet_address(bytes(), *kind == b'S').as_bytes());
            }
            _ => match raw.number(&self.argument) {
                0 => out.extend_from_slice(b"(nil)"),
                address => out.extend_from_slice(format!("0x{address:x}").as_bytes()),
            },
        }
    }
}

impl Size {
    fn value(&self, raw: &Raw<'_>) -> Option<usize> {
        let value = match self {
            Self::None => return None,
            Self::Fixed(size) => *size as u64,
            Self::Argument(expression) => raw.number(expression) & 0xffff_ffff,
        };
        usize::try_from(value.min(WIDEST)).ok()
    }
}

fn format_hex(bytes: &[u8], len: usize, between: &str) -> String {
    bytes.iter().take(len).map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(between)
}

fn format_uuid(bytes: &[u8]) -> String {
    let part = |from: usize, to: usize| {
        bytes.get(from..to).map_or_else(String::new, |part| format_hex(part, part.len(), ""))
    };
    [part(0, 4), part(4, 6), part(6, 8), part(8, 10), part(10, 16)].join("-")
}

/// Formats an IPv6 address; with `is_socket`, a `struct sockaddr` of either family.
fn format_internet_address(bytes: &[u8], is_socket: bool) -> String {
    const INET: u8 = 2;
    const INET6: u8 = 10;
    let v6 = |from: usize| {
        let bytes = bytes.get(from..from + 16).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        bytes.map_or_else(String::new, |bytes| std::net::Ipv6Addr::from(bytes).to_string())
    };
    match (is_socket, bytes.first().max(bytes.get(1))) {
        (false, _) => v6(0),
        (true, Some(&INET)) => {
            let port = bytes.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
            let address: Vec<_> = bytes.iter().skip(4).take(4).map(u8::to_string).collect();
            format!("{}:{port}", address.join("."))
        }
        (true, Some(&INET6)) => {
            let port = bytes.get(2..4).map_or(0, |port| u16::from_be_bytes([port[0], port[1]]));
            format!("[{}]:{port}", v6(8))
        }
        (true, _) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_end_at_the_first_other_character() {
        let (flags, behind) = ConversionFlags::split(b"-0#12d");
        assert_eq!(behind, b"12d");
        assert!(flags.left && flags.zeros && flags.alternate && !flags.plus && !flags.space);
    }

    #[test]
    fn padding_on_the_right_has_no_zeros() {
        let flags = |text| ConversionFlags::split(text).0;
        assert_eq!(flags(b"-0").padding(2, 3, 5, true), (5, b' '));
        assert_eq!(flags(b"0").padding(2, 3, 5, true), (3, b'0'));
        assert_eq!(flags(b"").padding(2, 3, 5, false), (2, b' '));
        assert_eq!(flags(b"+ ").sign(1), b"+");
        assert_eq!(flags(b" ").sign(-1), b"-");
    }
}
