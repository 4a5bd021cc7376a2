//! Strict readers of tare's output.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value without repeated names in objects, because readers differ in which of two they use.
struct Json;

struct Any;

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Any)
    }
}

impl<'de> Visitor<'de> for Any {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_str<E>(self, _: &str) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Json, A::Error> {
        while items.next_element::<Json>()?.is_some() {}
        Ok(Json)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Json, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((name, Json)) = fields.next_entry::<String, Json>()? {
            if let Some(twice) = names.replace(name) {
                return Err(serde::de::Error::custom(format!("'{twice}' comes twice")));
            }
        }
        Ok(Json)
    }
}

/// Checks that a text is one JSON value, without repeated names in an object and without terminal
/// control characters.
pub(crate) fn json(text: &[u8]) -> Result<(), String> {
    let Json = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    plain(text)
}

/// Checks that each line ends, and is one JSON value as for [`json`].
pub(crate) fn json_lines(text: &[u8]) -> Result<(), String> {
    let Some(text) = text.strip_suffix(b"\n") else {
        return if text.is_empty() { Ok(()) } else { Err("the last line has no end".to_owned()) };
    };
    text.split(|byte| *byte == b'\n').try_for_each(json)
}

/// Checks that a text is UTF-8 and that only line feeds and tabs affect a terminal.
pub(crate) fn plain(text: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let is_acted_on = |c: &char| tare_format::is_unsafe(*c) && !['\n', '\t'].contains(c);
    text.chars().find(is_acted_on).map_or(Ok(()), |c| Err(format!("{c:?} is in it")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_strict_is_refused() {
        assert_eq!(json(br#"{"a":[1,-2,3.5,null,true,"b"],"b":{"a":1}}"#), Ok(()));
        for text in
            ["", "{}{}", r#"{"a":1,"a":2}"#, r#"{"a":{"b":1,"b":1}}"#, "[1,]", "NaN", "\"\n\""]
        {
            assert!(json(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!((json_lines(b""), json_lines(b"1\n2\n")), (Ok(()), Ok(())));
        assert!(json_lines(b"1\n2").is_err() && json_lines(b"1\n\n").is_err());
        assert!(plain(b"a\x1b[2J").is_err() && plain(b"\xff").is_err() && plain(b"a\tb\n").is_ok());
    }
}
