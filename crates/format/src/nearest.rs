//! Suggestions for a misspelled name.

/// Minimum score of a suggestion: its similarity from 0 to 1, plus 0.5 if it begins with the typed
/// name.
const MIN_SIMILARITY: f64 = 0.55;
/// Maximum difference in score between the best suggestion and the others.
const MAX_BEHIND: f64 = 0.3;
/// Maximum number of suggestions.
const MAX_SUGGESTIONS: usize = 3;

/// Returns at most three candidates that are similar to `name`, the most similar first. Case is
/// ignored.
#[must_use]
pub fn nearest<S: AsRef<str>>(name: &str, candidates: impl IntoIterator<Item = S>) -> Vec<String> {
    let wanted = name.to_lowercase();
    let alike = |candidate: S| {
        let other = candidate.as_ref().to_lowercase();
        // Names are often abbreviated.
        let begun = if wanted.len() >= 3 && other.starts_with(&wanted) { 0.5 } else { 0.0 };
        let score = strsim::normalized_damerau_levenshtein(&wanted, &other) + begun;
        (score >= MIN_SIMILARITY).then(|| (score, candidate.as_ref().to_owned()))
    };
    let mut found: Vec<_> = candidates.into_iter().filter_map(alike).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.dedup_by(|a, b| a.1 == b.1);
    let best = found.first().map_or(0.0, |(score, _)| *score);
    found
        .into_iter()
        .take_while(|(score, _)| best - score <= MAX_BEHIND)
        .take(MAX_SUGGESTIONS)
        .map(|(_, name)| name)
        .collect()
}

/// Returns the end of an error message about an unknown name: `; nearest: a or b`, or an empty
/// string if no candidate is similar.
#[must_use]
pub fn nearest_hint<S: AsRef<str>>(name: &str, candidates: impl IntoIterator<Item = S>) -> String {
    match &nearest(name, candidates)[..] {
        [] => String::new(),
        near => format!("; nearest: {}", join_names(near)),
    }
}

/// Joins names as in `a, b or c`.
#[must_use]
pub fn join_names(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => names.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suggests_the_most_similar_first_and_no_dissimilar_name() {
        let known = ["cycles", "cpu-cycles", "page-faults", "major-faults", "instructions"];
        assert_eq!(nearest("cyclse", known), ["cycles"]);
        assert_eq!(nearest("instr", known)[0], "instructions");
        assert_eq!(nearest("Page-Fault", known)[0], "page-faults");
        assert!(nearest("zzz", known).is_empty());
        assert_eq!(join_names(&["a".into(), "b".into(), "c".into()]), "a, b or c");
        assert_eq!(join_names(&["a".into()]), "a");
    }
}
