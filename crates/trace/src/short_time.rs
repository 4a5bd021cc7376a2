//! Durations on the command line.

/// Parses a duration with a unit: 500ns, 10us, 1.5ms, 2s. `None` if the unit is missing or unknown,
/// or the number isn't in 0..1,000,000.
#[must_use]
pub fn parse_nanoseconds(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic())?);
    let unit = match unit {
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return None,
    };
    let number: f64 = number.parse().ok().filter(|number: &f64| (0.0..1e6).contains(number))?;
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // within the bounds above
    Some((number * unit).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_durations_with_units() {
        assert_eq!(
            ["500ns", "1.5us", "2ms", "1s"].map(parse_nanoseconds),
            [500, 1500, 2_000_000, 1_000_000_000].map(Some)
        );
        assert_eq!(["1", "ms", "-1ms", "1m", "1e99s"].map(parse_nanoseconds), [None; 5]);
    }
}
