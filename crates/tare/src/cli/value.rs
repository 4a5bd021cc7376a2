//! Words what is wrong with a number on the command line. clap prints its ranges in Rust's notation
//! (`0 is not in 1..18446744073709551615`), and the messages of Rust's parsers.

/// Bounds of Rust's integers: a range that reaches one has no bound for a user.
const LOWEST: [&str; 4] = ["-128", "-32768", "-2147483648", "-9223372036854775808"];
const HIGHEST: [&str; 8] = [
    "127",
    "255",
    "32767",
    "65535",
    "2147483647",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
];

/// Messages of Rust's parsers, and what they mean for a user.
const PARSERS: [(&str, &str); 7] = [
    ("cannot parse integer from empty string", "a number is missing"),
    ("cannot parse float from empty string", "a number is missing"),
    ("invalid digit found in string", "that is not a whole number"),
    ("invalid float literal", "that is not a number"),
    ("number too large to fit in target type", "that number is too large"),
    ("number too small to fit in target type", "that number is too small"),
    ("number would be zero for non-zero type", "give at least 1"),
];

/// Replaces the reason at the end of clap's message, `invalid value 'X' for 'OPTION': REASON`.
pub(super) fn reword(message: &str) -> String {
    let Some((before, reason)) = message.rsplit_once(": ") else { return message.to_owned() };
    let parser = PARSERS.iter().find(|(text, _)| *text == reason).map(|(_, text)| *text);
    let text = parser.map(ToOwned::to_owned).or_else(|| {
        let (_, range) = reason.split_once(" is not in ")?;
        reword_range(range)
    });
    text.map_or_else(|| message.to_owned(), |text| format!("{before}: {text}"))
}

/// Words a range in Rust's notation, `1..=99`, `1..MAX` or `..=22`.
fn reword_range(range: &str) -> Option<String> {
    let (low, high) = range.split_once("..")?;
    let low = Some(low).filter(|low| !low.is_empty() && !LOWEST.contains(low));
    let beyond = if high.starts_with('=') { 0 } else { 1 };
    let high = high.strip_prefix('=').unwrap_or(high);
    let high = Some(high).filter(|high| !high.is_empty() && !HIGHEST.contains(high));
    let number = |text: &str| text.parse::<i128>().ok();
    let low = low.map_or(Some(None), |low| number(low).map(Some))?;
    let high = high.map_or(Some(None), |high| Some(Some(number(high)? - beyond)))?;
    Some(match (low, high) {
        (Some(low), Some(high)) => format!("give a number from {low} to {high}"),
        (Some(low), None) => format!("give at least {low}"),
        (None, Some(high)) => format!("give at most {high}"),
        (None, None) => "that number is too large".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_parsers_are_worded_for_people() {
        let value = "invalid value '0' for '--count <N>'";
        for (reason, wanted) in [
            ("0 is not in 1..18446744073709551615", "give at least 1"),
            ("0 is not in 1..=64", "give a number from 1 to 64"),
            ("9 is not in -2147483648..=5", "give at most 5"),
            ("9 is not in 1..9", "give a number from 1 to 8"),
            ("invalid digit found in string", "that is not a whole number"),
            ("give a size, as in 8M", "give a size, as in 8M"),
            ("x is not in a..b", "x is not in a..b"),
        ] {
            assert_eq!(reword(&format!("{value}: {reason}")), format!("{value}: {wanted}"));
        }
        assert_eq!(reword("nothing"), "nothing");
    }
}
