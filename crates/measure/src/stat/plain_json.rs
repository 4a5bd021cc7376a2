//! JSON that does nothing to a terminal: names of threads and events may hold anything.

use tare_format::is_unsafe;

/// The same JSON, with escapes in place of what a terminal acts on. Line feeds between values stay.
pub(super) fn plain_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        // None of those is beyond U+FFFF, and in a string no line feed is left.
        if is_unsafe(c) && c != '\n' {
            plain.push_str(&format!("\\u{:04x}", u32::from(c)));
        } else {
            plain.push(c);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_nothing_to_a_terminal_and_stay_what_they_are() {
        let name = "a\u{9b}2J\u{7f}\u{202e}\"\u{1b}\n";
        let plain = plain_json(&serde_json::Value::from(name).to_string());
        assert!(!plain.chars().any(is_unsafe), "{plain}");
        assert_eq!(serde_json::from_str::<String>(&plain).ok().as_deref(), Some(name));
    }
}
