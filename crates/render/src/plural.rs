//! Counts with their nouns: 1 sample, 1,234 samples.

/// Formats a count with its noun, the digits in groups of three.
#[must_use]
pub fn count(number: u64, noun: &str) -> String {
    format!("{} {}", grouped(number), plural(number, noun))
}

/// Returns the form of a noun for this count. Of several words the last one changes.
#[must_use]
pub fn plural(number: u64, noun: &str) -> String {
    let ending = match noun {
        _ if number == 1 => "",
        noun if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{noun}{ending}")
}

/// Returns the word that agrees with this count, such as `is` or `are`.
#[must_use]
pub fn agreeing<'a>(number: u64, singular: &'a str, plural: &'a str) -> &'a str {
    if number == 1 { singular } else { plural }
}

/// Formats a number with its digits in groups of three.
#[must_use]
pub fn grouped(number: u64) -> String {
    tare_format::group_digits(&number.to_string())
}

/// Formats a count rounded as in `perf report`: thousands are K, millions M.
pub(crate) fn rounded(count: u64) -> String {
    let units = ["", "K", "M", "G"];
    let power = (0..3).take_while(|power| count / 1000_u64.pow(*power) > 1000).count();
    format!("{}{}", count / 1000_u64.pow(u32::try_from(power).unwrap_or(0)), units[power])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        assert_eq!(count(1, "sample"), "1 sample");
        assert_eq!(count(0, "sample"), "0 samples");
        assert_eq!(count(1_234_567, "system call"), "1,234,567 system calls");
        assert_eq!(
            (count(1, "process"), count(2, "process")),
            ("1 process".into(), "2 processes".into())
        );
        assert_eq!((agreeing(1, "is", "are"), agreeing(0, "is", "are")), ("is", "are"));
    }
}
