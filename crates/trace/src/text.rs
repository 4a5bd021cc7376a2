//! Bytes of traced programs in strace's notation, which escapes all but printable ASCII.

use std::fmt::Write as _;

/// Quotes a string with C's escapes: named ones, or octal ones for other bytes that aren't
/// printable ASCII. The next byte decides how many digits an octal escape needs.
pub(crate) fn quoted(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() + 2);
    text.push('"');
    for (at, &byte) in bytes.iter().enumerate() {
        let digit_follows = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        escape(&mut text, byte, digit_follows);
    }
    text.push('"');
    text
}

fn escape(text: &mut String, byte: u8, digit_follows: bool) {
    let named = match byte {
        b'"' => "\\\"",
        b'\\' => "\\\\",
        b'\t' => "\\t",
        b'\n' => "\\n",
        0x0b => "\\v",
        0x0c => "\\f",
        b'\r' => "\\r",
        b' '..=b'~' => {
            text.push(char::from(byte));
            return;
        }
        _ if digit_follows => {
            let _ = write!(text, "\\{byte:03o}");
            return;
        }
        _ => {
            let _ = write!(text, "\\{byte:o}");
            return;
        }
    };
    text.push_str(named);
}

/// Which strings are printed in hexadecimal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HexStrings {
    /// None.
    #[default]
    Nothing,
    /// Strings with bytes other than printable ASCII and white space (`strace -x`).
    NotText,
    /// All (`strace -xx`).
    All,
}

/// Replaces the strings in a call's formatted arguments by hexadecimal ones.
pub(crate) fn in_hex(arguments: &str, which: HexStrings) -> String {
    let mut out = String::new();
    let mut rest = arguments;
    while let Some((before, after)) = rest.split_once('"') {
        let (bytes, length) = unquoted(after);
        let is_text = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t'..=b'\r');
        out.push_str(before);
        if which == HexStrings::All || !bytes.iter().all(is_text) {
            let digits: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            let _ = write!(out, "\"{digits}\"");
        } else {
            let _ = write!(out, "\"{}\"", &after[..length]);
        }
        rest = after.get(length + 1..).unwrap_or_default();
    }
    out + rest
}

/// Returns the bytes of a quoted string up to its closing quote, and the length of its text.
fn unquoted(text: &str) -> (Vec<u8>, usize) {
    let source = text.as_bytes();
    let mut bytes = Vec::new();
    let mut at = 0;
    while let Some(&byte) = source.get(at).filter(|byte| **byte != b'"') {
        at += 1;
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let escape = source.get(at).copied().unwrap_or(b'\\');
        at += 1;
        bytes.push(match escape {
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 0x0b,
            b'f' => 0x0c,
            b'r' => b'\r',
            b'x' => {
                let digits = text.get(at..at + 2).unwrap_or_default();
                at += digits.len();
                u8::from_str_radix(digits, 16).unwrap_or(b'?')
            }
            b'0'..=b'7' => {
                let digits = source[at - 1..].iter().take(3);
                let digits = digits.take_while(|byte| matches!(**byte, b'0'..=b'7')).count();
                at += digits - 1;
                u8::from_str_radix(&text[at - digits..at], 8).unwrap_or(b'?')
            }
            other => other,
        });
    }
    (bytes, at)
}

/// Formats a path without quotes; angle brackets in it are escaped.
pub(crate) fn path(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        let digit_follows = bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
        match byte {
            b'<' | b'>' if digit_follows => {
                let _ = write!(text, "\\{byte:03o}");
            }
            b'<' | b'>' => {
                let _ = write!(text, "\\{byte:o}");
            }
            b'"' => text.push('"'),
            _ => escape(&mut text, byte, digit_follows),
        }
    }
    text
}

/// Formats the first `most` bytes of a buffer of `length` bytes, with dots if that isn't all.
pub(crate) fn buffer(bytes: &[u8], length: u64, most: usize) -> String {
    let shown = &bytes[..bytes.len().min(most)];
    let cut = length > shown.len() as u64;
    format!("{}{}", quoted(shown), if cut { "..." } else { "" })
}

/// Formats the first `most` bytes of a NUL-terminated string, with dots if that isn't all.
pub(crate) fn string(bytes: &[u8], most: usize) -> String {
    let text = bytes.split(|&byte| byte == 0).next().unwrap_or_default();
    let cut = text.len() > most;
    format!("{}{}", quoted(&text[..text.len().min(most)]), if cut { "..." } else { "" })
}

/// Formats bytes in hexadecimal, as strace prints random ones.
pub(crate) fn hex(bytes: &[u8], length: u64, most: usize) -> String {
    let shown = &bytes[..bytes.len().min(most)];
    let digits: String = shown.iter().map(|byte| format!("\\x{byte:02x}")).collect();
    format!("\"{digits}\"{}", if length > shown.len() as u64 { "..." } else { "" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_all_but_printable_ascii() {
        assert_eq!(quoted(b"a\0\x80\"\\\n\tb\x1b[2J"), r#""a\0\200\"\\\n\tb\33[2J""#);
        assert_eq!(quoted(b"\x001\x07x"), r#""\0001\7x""#);
        for byte in 0..=255 {
            assert!(quoted(&[byte, byte]).bytes().all(|byte| (b' '..=b'~').contains(&byte)));
        }
    }

    #[test]
    fn escapes_angle_brackets_in_paths() {
        assert_eq!(path(b"a<b>1\x1b\n"), r"a\74b\0761\33\n");
    }

    #[test]
    fn prints_strings_in_hexadecimal() {
        let line = format!("3, {}, {}, 7", quoted(b"a\"\n"), quoted(b"\x80\x001"));
        let strange = r#"3, "a\"\n", "\x80\x00\x31", 7"#;
        assert_eq!(in_hex(&line, HexStrings::NotText), strange);
        let all = r#"3, "\x61\x22\x0a", "\x80\x00\x31", 7"#;
        assert_eq!(in_hex(&line, HexStrings::All), all);
        for byte in 0..=255 {
            let bytes = [byte, b'7', byte];
            assert_eq!(unquoted(&quoted(&bytes)[1..]).0, bytes);
        }
        assert_eq!(in_hex("\"cut", HexStrings::All), r#""\x63\x75\x74""#);
    }

    #[test]
    fn marks_cut_text_with_dots() {
        assert_eq!(buffer(b"abcdef", 6, 3), "\"abc\"...");
        assert_eq!(buffer(b"abc", 3, 3), "\"abc\"");
        assert_eq!(string(b"abcdef\0", 6), "\"abcdef\"");
        assert_eq!(string(b"abcdef", 5), "\"abcde\"...");
        assert_eq!(hex(&[1, 0xff], 2, 32), "\"\\x01\\xff\"");
    }
}
