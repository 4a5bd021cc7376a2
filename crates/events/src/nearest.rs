//! Names that look like a wrong one.

/// How alike two names must be, from 0 to 1, to be worth showing.
const ENOUGH: f64 = 0.55;
/// How much less alike than the nearest the others may be.
const BEHIND: f64 = 0.3;
/// How many names are shown.
const SHOWN: usize = 3;

/// The names that look most like `name`, the nearest first: at most three, none that is far away.
#[must_use]
pub fn nearest<S: AsRef<str>>(name: &str, candidates: impl IntoIterator<Item = S>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let alike = |candidate: S| {
        let other = candidate.as_ref().to_lowercase();
        // A name that was begun right counts for more than one with as many letters in common.
        let begun = if wanted.len() >= 3 && other.starts_with(&wanted) { 0.5 } else { 0.0 };
        let score = strsim::normalized_damerau_levenshtein(&wanted, &other) + begun;
        (score >= ENOUGH).then(|| (score, candidate.as_ref().to_owned()))
    };
    let mut found: Vec<_> = candidates.into_iter().filter_map(alike).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.dedup_by(|a, b| a.1 == b.1);
    let best = found.first().map_or(0.0, |(score, _)| *score);
    found
        .into_iter()
        .take_while(|(score, _)| best - score <= BEHIND)
        .take(SHOWN)
        .map(|(_, name)| name)
        .collect()
}

/// `a, b or c`
pub(super) fn list(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likeliest_comes_first_and_strangers_not_at_all() {
        let known = ["cycles", "cpu-cycles", "page-faults", "major-faults", "instructions"];
        assert_eq!(nearest("cyclse", known), ["cycles"]);
        assert_eq!(nearest("instr", known)[0], "instructions");
        assert_eq!(nearest("Page-Fault", known)[0], "page-faults");
        assert!(nearest("zzz", known).is_empty());
        assert_eq!(list(&["a".into(), "b".into(), "c".into()]), "a, b or c");
        assert_eq!(list(&["a".into()]), "a");
    }
}
