//! Sizes and times as typed.

use std::time::Duration;

/// Parses a size: `4096`, `64K`, `1.5M`, `2G`. A number without a letter counts units of `plain`
/// bytes (1, or the page size). `None` for zero, sizes above `i64::MAX` and other text.
pub(super) fn bytes(text: &str, plain: u64) -> Option<u64> {
    let (number, unit) = match text.char_indices().last()? {
        (at, letter) if letter.is_ascii_alphabetic() => {
            (&text[..at], 1 << (10 * "BKMG".find(letter.to_ascii_uppercase())?))
        }
        _ => (text, plain),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None; // `parse` accepts a sign.
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit).filter(|&bytes| bytes > 0 && i64::try_from(bytes).is_ok());
    }
    let (whole, fraction) = number.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|&digits| {
        (1..=6).contains(&digits) && fraction.bytes().all(|c| c.is_ascii_digit())
    })?;
    let fraction_bytes = fraction.parse::<u64>().ok()?.checked_mul(unit)? / 10_u64.pow(digits);
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(unit)?
        .checked_add(fraction_bytes)
        .filter(|&bytes| bytes > 0 && i64::try_from(bytes).is_ok())
}

/// Parses a time with a unit: `30s`, `10m`, `1h`, `1d`.
pub(super) fn time(text: &str) -> Option<Duration> {
    let (at, letter) = text.char_indices().last()?;
    let seconds = match letter {
        's' => 1,
        'm' => 60,
        'h' => 3600,
        'd' => 86_400,
        _ => return None,
    };
    text[..at]
        .parse::<u64>()
        .ok()?
        .checked_mul(seconds)
        .filter(|&seconds| seconds > 0)
        .map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let sizes =
            [("1", 4096), ("512B", 512), ("64k", 65536), ("1.5M", 3 << 19), ("2G", 2 << 30)];
        assert_eq!(sizes.map(|(text, _)| bytes(text, 4096)), sizes.map(|(_, size)| Some(size)));
        for bad in [
            "",
            "0",
            "M",
            "-1",
            "1T",
            "1.M",
            "1.2.3M",
            "99999999999G",
            "9999999999.5G",
            "1,5M",
            "é",
            "+1",
        ] {
            assert_eq!(bytes(bad, 1), None, "{bad}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(
            ["30s", "10m", "1h", "1d"].map(|text| time(text).map(|time| time.as_secs())),
            [30, 600, 3600, 86400].map(Some)
        );
        assert_eq!(
            ["", "s", "10", "0s", "1w", "-1s", "99999999999999999999s", "é"].map(time),
            [None; 8]
        );
    }
}
