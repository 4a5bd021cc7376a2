//! Makes untrusted text (names in recordings, of events, processes and files) safe for a terminal
//! and for one line of a table. Also formats bytes as hexadecimal digits, groups digits, and quotes
//! fields of CSV.

use std::borrow::Cow;

/// Whether a character is a control character, a line or paragraph separator, a direction mark or a
/// byte order mark.
#[must_use]
pub fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns text that fits on one line and can't control a terminal: invalid UTF-8 becomes U+FFFD,
/// and characters for which [`is_unsafe`] is true become `\u{..}`.
#[must_use]
pub fn printable<T: AsRef<[u8]> + ?Sized>(text: &T) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(text.as_ref());
    if !text.chars().any(is_unsafe) {
        return text;
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) { safe.extend(c.escape_unicode()) } else { safe.push(c) }
    }
    Cow::Owned(safe)
}

/// Formats each byte as two lowercase hexadecimal digits, as build ids are written.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns a field of CSV, in quotes where its text needs them (RFC 4180). A text that a spreadsheet
/// would take for a formula stays as it is.
#[must_use]
pub fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// Groups digits by three, separated by commas: 20,000.
#[must_use]
pub fn group_digits(digits: &str) -> String {
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmless_names_stay_unchanged() {
        assert!(matches!(printable("größe 漢字 a b".as_bytes()), Cow::Borrowed("größe 漢字 a b")));
    }

    #[test]
    fn fields_of_csv_are_quoted_where_they_must_be() {
        let fields = ["a b", "a,b", "a\"b", "a\nb", "=1"].map(csv_field);
        assert_eq!(fields, ["a b", "\"a,b\"", "\"a\"\"b\"", "\"a\nb\"", "=1"]);
    }

    #[test]
    fn groups_have_three_digits() {
        let groups = ["", "7", "100", "20000", "1234567"].map(group_digits);
        assert_eq!(groups, ["", "7", "100", "20,000", "1,234,567"]);
    }

    #[test]
    fn escapes_control_characters_and_direction_marks() {
        assert_eq!(printable(b"a\x1b[2Jb\nc\r\x9b"), "a\\u{1b}[2Jb\\u{a}c\\u{d}\u{fffd}");
        assert_eq!(printable("\u{9b}x\u{202e}y".as_bytes()), "\\u{9b}x\\u{202e}y");
    }
}
