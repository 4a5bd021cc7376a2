use crate::glob_matches;

/// A kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EventKind {
    Hardware,
    Software,
    Cache,
    Pmu,
    Raw,
    Tracepoint,
    Breakpoint,
}

impl EventKind {
    pub(super) const ALL: [Self; 7] = [
        Self::Hardware,
        Self::Software,
        Self::Cache,
        Self::Pmu,
        Self::Raw,
        Self::Tracepoint,
        Self::Breakpoint,
    ];

    /// The words that select this kind; perf's words where perf has them.
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

/// The events that the user selected: kinds, and names by pattern or part.
#[derive(Debug, Default)]
pub(super) struct EventSelection {
    kinds: Vec<EventKind>,
    patterns: Vec<String>,
}

impl EventSelection {
    pub(super) fn new(words: &[String]) -> Self {
        let mut selection = Self::default();
        for word in words {
            match EventKind::ALL.into_iter().find(|kind| kind.words().contains(&word.as_str())) {
                Some(kind) => selection.kinds.push(kind),
                None => selection.patterns.push(word.to_lowercase()),
            }
        }
        selection
    }

    pub(super) fn is_everything(&self) -> bool {
        self.kinds.is_empty() && self.patterns.is_empty()
    }

    /// Whether all events of a kind are selected, whatever their names.
    pub(super) fn has_all_of(&self, kind: EventKind) -> bool {
        self.is_everything() || self.kinds.contains(&kind)
    }

    /// Whether events of a kind may be selected, by the kind or by name.
    pub(super) fn may_have(&self, kind: EventKind) -> bool {
        self.has_all_of(kind) || !self.patterns.is_empty()
    }

    /// Whether an event of this kind and name is selected.
    pub(super) fn has(&self, kind: EventKind, name: &str) -> bool {
        let name = || name.to_lowercase();
        let fits = |pattern: &String| {
            if pattern.contains(['*', '?', '[']) {
                glob_matches(pattern, &name())
            } else {
                name().contains(pattern.as_str())
            }
        };
        self.has_all_of(kind) || self.patterns.iter().any(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_by_kind_pattern_and_part_of_a_name() {
        let select = |words: &[&str]| {
            EventSelection::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert!(select(&[]).has(EventKind::Cache, "LLC-loads"));
        assert!(
            select(&["hw"]).has(EventKind::Hardware, "cycles")
                && !select(&["hw"]).has(EventKind::Software, "cs")
        );
        assert!(
            select(&["SCHED:*"]).has(EventKind::Tracepoint, "sched:sched_switch")
                && !select(&["sched:*"]).has(EventKind::Tracepoint, "sys:sched")
        );
        assert!(
            select(&["sw", "llc"]).has(EventKind::Cache, "LLC-loads")
                && !select(&["sw", "llc"]).has(EventKind::Cache, "node-loads")
        );
    }
}
