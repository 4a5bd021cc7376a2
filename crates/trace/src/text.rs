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
    fn marks_cut_text_with_dots() {
        assert_eq!(buffer(b"abcdef", 6, 3), "\"abc\"...");
        assert_eq!(buffer(b"abc", 3, 3), "\"abc\"");
        assert_eq!(string(b"abcdef\0", 6), "\"abcdef\"");
        assert_eq!(string(b"abcdef", 5), "\"abcde\"...");
        assert_eq!(hex(&[1, 0xff], 2, 32), "\"\\x01\\xff\"");
    }
}
