//! JSON that is safe on a terminal: names of threads and events may contain anything.

use tare_format::is_unsafe;

/// Escapes the characters in JSON that are unsafe on a terminal ([`is_unsafe`]). Line feeds between
/// values stay.
pub(super) fn plain_json(json: &str) -> String {
    let mut plain = String::with_capacity(json.len());
    for c in json.chars() {
        // No unsafe character is above U+FFFF, and line feeds in strings are already escaped.
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
    fn escapes_unsafe_characters_without_changing_the_value() {
        let name = "a\u{9b}2J\u{7f}\u{202e}\"\u{1b}\n";
        let plain = plain_json(&serde_json::Value::from(name).to_string());
        assert!(!plain.chars().any(is_unsafe), "{plain}");
        assert_eq!(serde_json::from_str::<String>(&plain).ok().as_deref(), Some(name));
    }
}
