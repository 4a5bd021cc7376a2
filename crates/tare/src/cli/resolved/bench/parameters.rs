//! Parameters of `tare bench`: values in place of '{VAR}'.

use crate::exit::Refusal;

/// Most values of a `--parameter-scan`.
const MOST_VALUES: i64 = 100_000;

/// A set of values, one for each parameter, by name.
pub(super) type Parameters = Vec<(String, String)>;

/// Returns every combination of the values of `--parameter-list`, the first parameter varying
/// fastest; one empty set without any.
pub(super) fn from_lists(lists: &[String]) -> Result<Vec<Parameters>, Refusal> {
    let mut all: Vec<Parameters> = vec![Vec::new()];
    for list in lists.chunks_exact(2) {
        let name = &list[0];
        if all[0].iter().any(|(known, _)| known == name) {
            return Err(Refusal::usage(format!("--parameter-list: '{name}' is given twice")));
        }
        let values = split(&list[1]);
        let with = |value: &String| {
            all.iter()
                .map(|set| {
                    let mut set = set.clone();
                    set.push((name.clone(), value.clone()));
                    set
                })
                .collect::<Vec<_>>()
        };
        all = values.iter().flat_map(with).collect();
    }
    Ok(all)
}

/// Splits a list at its commas. A backslash makes a comma or backslash part of a value.
fn split(list: &str) -> Vec<String> {
    let mut values = Vec::new();
    let mut value = String::new();
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        let escapes = letter == '\\' && letters.peek().is_some_and(|next| ",\\".contains(*next));
        match letter {
            _ if escapes => value.extend(letters.next()),
            ',' => values.push(std::mem::take(&mut value)),
            _ => value.push(letter),
        }
    }
    values.push(value);
    values
}

/// Returns a set for each value of `--parameter-scan`.
pub(super) fn from_scan(scan: &[String], step: Option<&str>) -> Result<Vec<Parameters>, Refusal> {
    let [name, min, max] = scan else { return Ok(vec![Vec::new()]) };
    let step = step.unwrap_or("1");
    let digits = [min, max, step].into_iter().map(decimals).max().unwrap_or(0);
    let number = |text: &str| {
        scaled(text, digits)
            .ok_or_else(|| Refusal::usage(format!("--parameter-scan: '{text}' is not a number")))
    };
    let low = number(min)?;
    let high = number(max)?;
    let step = number(step)?;
    if step == 0 {
        return Err(Refusal::usage("--parameter-step-size: a step of 0 never reaches MAX"));
    }
    if high < low || step < 0 {
        return Err(Refusal::usage(format!(
            "--parameter-scan: there is no value from {min} to {max}"
        )));
    }
    if (high - low) / step >= MOST_VALUES {
        return Err(Refusal::usage(format!("--parameter-scan: more than {MOST_VALUES} values")));
    }
    let mut sets = Vec::new();
    let mut value = low;
    while value <= high {
        sets.push(vec![(name.clone(), unscaled(value, digits))]);
        value += step;
    }
    Ok(sets)
}

/// Number of digits after the point.
fn decimals(text: &str) -> usize {
    text.split_once('.').map_or(0, |(_, digits)| digits.len())
}

/// A decimal number times 10 to the power of `digits`; `None` if it isn't one or is too large.
fn scaled(text: &str, digits: usize) -> Option<i64> {
    let missing = digits - decimals(text);
    let whole = text.replacen('.', "", 1);
    let is_number = whole.strip_prefix('-').unwrap_or(&whole).bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| format!("{whole}{}", "0".repeat(missing)).parse().ok()).flatten()
}

/// The decimal number of [`scaled`], with the same number of digits after the point.
fn unscaled(value: i64, digits: usize) -> String {
    if digits == 0 {
        return value.to_string();
    }
    let sign = if value < 0 { "-" } else { "" };
    let text = format!("{:0>width$}", value.unsigned_abs(), width = digits + 1);
    let (whole, part) = text.split_at(text.len() - digits);
    format!("{sign}{whole}.{part}")
}

/// Puts the values in place of '{VAR}'. A value isn't searched for other parameters.
pub(super) fn fill_in(text: &str, parameters: &[(String, String)]) -> String {
    let mut filled = String::new();
    let mut rest = text;
    'text: while let Some(letter) = rest.chars().next() {
        for (name, value) in parameters {
            let after = rest
                .strip_prefix('{')
                .and_then(|rest| rest.strip_prefix(name.as_str()))
                .and_then(|rest| rest.strip_prefix('}'));
            if let Some(after) = after {
                filled.push_str(value);
                rest = after;
                continue 'text;
            }
        }
        filled.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    fn scan(words: &[&str], step: Option<&str>) -> Result<Vec<String>, String> {
        from_scan(&owned(words), step)
            .map(|sets| sets.into_iter().map(|set| set[0].1.clone()).collect())
            .map_err(|refusal| refusal.message)
    }

    #[test]
    fn scans_step_through_whole_and_decimal_numbers() {
        assert_eq!(scan(&["n", "1", "4"], None).unwrap(), ["1", "2", "3", "4"]);
        assert_eq!(scan(&["n", "0.3", "0.7"], Some("0.2")).unwrap(), ["0.3", "0.5", "0.7"]);
        assert_eq!(
            scan(&["n", "-1", "1"], Some("0.5")).unwrap(),
            ["-1.0", "-0.5", "0.0", "0.5", "1.0"]
        );
        for (words, step) in [
            (["n", "5", "4"], None),
            (["n", "1", "4"], Some("0")),
            (["n", "a", "4"], None),
            (["n", "0", "99999999"], None),
        ] {
            assert!(scan(&words, step).is_err(), "{words:?}");
        }
    }

    #[test]
    fn lists_make_every_combination_and_escapes_keep_commas() {
        let sets = from_lists(&owned(&["a", "1,2", "b", "x,y\\,z"])).unwrap();
        let shown: Vec<String> =
            sets.iter().map(|set| format!("{}{}", set[0].1, set[1].1)).collect();
        assert_eq!(shown, ["1x", "2x", "1y,z", "2y,z"]);
        assert!(from_lists(&owned(&["a", "1", "a", "2"])).is_err());
        assert_eq!(from_lists(&[]).unwrap(), [Vec::new()]);
    }

    #[test]
    fn values_are_not_filled_in_again() {
        let parameters = [("a".to_owned(), "{b}".to_owned()), ("b".to_owned(), "2".to_owned())];
        assert_eq!(fill_in("{a} {b} {c} ${a}", &parameters), "{b} 2 {c} ${b}");
    }
}
