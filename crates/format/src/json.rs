//! JSON with exact and short numbers: no digits beyond the precision of an `f64`
//! (`0.30000000000000004`), and no exponents for counts (`1e16`).

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter, PrettyFormatter};
use serde_json::{Result, Serializer};

/// Significant decimal digits that each `f64` keeps.
const DIGITS: usize = 15;
/// Numbers outside these bounds have an exponent.
const PLAIN: std::ops::Range<f64> = 1e-7..1e21;

/// Writes a number with at most 15 significant digits, and whole numbers without a fraction.
/// Numbers that JSON lacks become `null`.
///
/// # Errors
/// Fails if writing to `out` fails.
pub fn write_f64(out: &mut (impl Write + ?Sized), number: f64) -> io::Result<()> {
    if !number.is_finite() {
        return out.write_all(b"null");
    }
    // Whole numbers up to 2^53 are exact.
    let is_whole = number.fract() == 0.0 && number.abs() <= (1_u64 << 53) as f64;
    let rounded = if is_whole {
        number
    } else {
        format!("{number:.*e}", DIGITS - 1).parse().unwrap_or(number)
    };
    if rounded == 0.0 || PLAIN.contains(&rounded.abs()) {
        write!(out, "{}", if rounded == 0.0 { 0.0 } else { rounded })
    } else {
        write!(out, "{rounded:e}")
    }
}

/// A layout of JSON with these numbers.
#[derive(Clone, Debug, Default)]
pub struct ShortNumbers<F>(pub F);

/// Passes calls on to the layout.
macro_rules! layout {
    ($($name:ident($($argument:ident: $kind:ty)?)),+ $(,)?) => {
        $(
            fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $kind)?) -> io::Result<()> {
                self.0.$name(writer $(, $argument)?)
            }
        )+
    };
}

impl<F: Formatter> Formatter for ShortNumbers<F> {
    fn write_f64<W: ?Sized + Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write_f64(writer, value)
    }

    layout! {
        begin_array(),
        end_array(),
        begin_array_value(first: bool),
        end_array_value(),
        begin_object(),
        end_object(),
        begin_object_key(first: bool),
        end_object_key(),
        begin_object_value(),
        end_object_value(),
    }
}

/// Writes a value in one line.
///
/// # Errors
/// Fails if the value has no JSON, or if writing to `out` fails.
pub fn to_writer(out: impl Write, value: &(impl Serialize + ?Sized)) -> Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, ShortNumbers(CompactFormatter)))
}

/// Writes a value with indented lines.
///
/// # Errors
/// Fails if the value has no JSON, or if writing to `out` fails.
pub fn to_writer_pretty(out: impl Write, value: &(impl Serialize + ?Sized)) -> Result<()> {
    let layout = ShortNumbers(PrettyFormatter::new());
    value.serialize(&mut Serializer::with_formatter(out, layout))
}

/// Returns a value with indented lines.
///
/// # Errors
/// Fails if the value has no JSON.
pub fn to_string_pretty(value: &(impl Serialize + ?Sized)) -> Result<String> {
    let mut text = Vec::new();
    to_writer_pretty(&mut text, value)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(number: f64) -> String {
        let mut text = Vec::new();
        to_writer(&mut text, &number).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn numbers_are_exact_and_short() {
        for (number, wanted) in [
            (0.1 + 0.2, "0.3"),
            (6_860.799_999_999_999, "6860.8"),
            (1.0 / 3.0, "0.333333333333333"),
            (3.0, "3"),
            (-0.0, "0"),
            (1e9, "1000000000"),
            (1e16, "10000000000000000"),
            (9_007_199_254_740_991.0, "9007199254740991"),
            (72_742.668_069_123, "72742.668069123"),
            (1e-9, "1e-9"),
            (0.000_25, "0.00025"),
            (1e300, "1e300"),
            (f64::NAN, "null"),
        ] {
            assert_eq!(written(number), wanted);
            if number.is_finite() {
                let read: f64 = serde_json::from_str(wanted).unwrap();
                assert!((read - number).abs() <= number.abs() * 1e-14, "{number}");
            }
        }
    }

    #[test]
    fn whole_numbers_beyond_two_to_the_53_stay_as_they_are() {
        let value = serde_json::json!({ "count": u64::MAX, "least": i64::MIN, "share": 0.1 + 0.2 });
        let mut text = Vec::new();
        to_writer(&mut text, &value).unwrap();
        let wanted = r#"{"count":18446744073709551615,"least":-9223372036854775808,"share":0.3}"#;
        assert_eq!(String::from_utf8(text).unwrap(), wanted);
        let pretty = to_string_pretty(&value).unwrap();
        let usual = serde_json::to_string_pretty(&value).unwrap();
        assert_eq!(pretty, usual.replace("0.30000000000000004", "0.3"));
    }
}
