use crate::glob_matches;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    Hardware,
    Software,
    Cache,
    Pmu,
    Raw,
    Tracepoint,
    Breakpoint,
}

impl Kind {
    pub(super) const ALL: [Self; 7] = [
        Self::Hardware,
        Self::Software,
        Self::Cache,
        Self::Pmu,
        Self::Raw,
        Self::Tracepoint,
        Self::Breakpoint,
    ];

    /// The words that users write for it; perf's, as far as it has them.
    pub(super) fn words(self) -> &'static [&'static str] {
        match self {
            Self::Hardware => &["hw", "hardware"],
            Self::Software => &["sw", "software"],
            Self::Cache => &["cache", "hwcache"],
            Self::Pmu => &["pmu"],
            Self::Raw => &["raw"],
            Self::Tracepoint => &["tracepoint", "tracepoints"],
            Self::Breakpoint => &["mem", "breakpoint"],
        }
    }
}

/// What the user wants to see: kinds, and names by pattern or part.
#[derive(Debug, Default)]
pub(super) struct Selection {
    kinds: Vec<Kind>,
    patterns: Vec<String>,
}

impl Selection {
    pub(super) fn new(what: &[String]) -> Self {
        let mut selection = Self::default();
        for word in what {
            match Kind::ALL.into_iter().find(|kind| kind.words().contains(&word.as_str())) {
                Some(kind) => selection.kinds.push(kind),
                None => selection.patterns.push(word.to_lowercase()),
            }
        }
        selection
    }

    pub(super) fn is_everything(&self) -> bool {
        self.kinds.is_empty() && self.patterns.is_empty()
    }

    /// Whether the user named the kind itself.
    pub(super) fn names(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    /// Whether all events of a kind are wanted, whatever their names.
    pub(super) fn all_of(&self, kind: Kind) -> bool {
        self.is_everything() || self.names(kind)
    }

    /// Whether some events of a kind may be wanted.
    pub(super) fn some_of(&self, kind: Kind) -> bool {
        self.all_of(kind) || !self.patterns.is_empty()
    }

    /// Whether an event of this kind and name is wanted.
    pub(super) fn takes(&self, kind: Kind, name: &str) -> bool {
        let name = || name.to_lowercase();
        let fits = |pattern: &String| {
            if pattern.contains(['*', '?', '[']) {
                glob_matches(pattern, &name())
            } else {
                name().contains(pattern.as_str())
            }
        };
        self.all_of(kind) || self.patterns.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_patterns_and_parts() {
        let of = |words: &[&str]| {
            Selection::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert!(of(&[]).takes(Kind::Cache, "LLC-loads"));
        assert!(
            of(&["hw"]).takes(Kind::Hardware, "cycles") && !of(&["hw"]).takes(Kind::Software, "cs")
        );
        assert!(
            of(&["SCHED:*"]).takes(Kind::Tracepoint, "sched:sched_switch")
                && !of(&["sched:*"]).takes(Kind::Tracepoint, "sys:sched")
        );
        assert!(
            of(&["sw", "llc"]).takes(Kind::Cache, "LLC-loads")
                && !of(&["sw", "llc"]).takes(Kind::Cache, "node-loads")
        );
    }
}
