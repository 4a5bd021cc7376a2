use std::fmt;

use tare_kernel::tracefs::TracefsError;

use super::nearest::{list, nearest};

/// Why a text is no list of events. Its `Display` is one line.
#[derive(Debug)]
pub struct EventError {
    /// The whole text that was typed.
    pub text: String,
    /// Where the problem begins, in bytes from the start of the text.
    pub offset: usize,
    /// What the problem is.
    pub problem: Box<Problem>,
    /// Names that exist and look alike, the nearest first.
    pub nearest: Vec<String>,
}

/// What is wrong with an event.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Something is missing or too much.
    #[error("{0}")]
    Syntax(&'static str),
    /// No kind of event has this name.
    #[error("'{0}' is no event here (`tare list` shows those that are)")]
    UnknownEvent(String),
    /// It is no event that the kernel counts, and tare prints it anyway.
    #[error(
        "'{0}' is no event of the kernel: leave it out, tare stat prints the times in any case"
    )]
    OwnTime(String),
    /// A cache has no such event in perf's grammar.
    #[error("'{0}': there is no counter for this use of this cache")]
    CacheUse(String),
    /// No PMU has this name.
    #[error("this machine has no PMU '{0}'")]
    UnknownPmu(String),
    /// The PMU takes no such term and names no such event.
    #[error("PMU {pmu} has no event and no term '{term}'")]
    UnknownTerm {
        /// What was typed.
        term: String,
        /// The PMU's name.
        pmu: String,
    },
    /// A term that belongs to PMUs, after an event that has none.
    #[error("'{0}' is no term for this event")]
    MisplacedTerm(String),
    /// A term lacks its value, or has one where none belongs, or one that it can't have.
    #[error("{term}: {why}")]
    BadValue {
        /// The term.
        term: String,
        /// What is expected.
        why: &'static str,
    },
    /// The value doesn't fit the term's bits.
    #[error("{term}: the largest value is {max:#x}")]
    TooLarge {
        /// The term.
        term: String,
        /// What fits.
        max: u64,
    },
    /// An event of a PMU needs a term that wasn't given.
    #[error("{event} needs a value for {parameter}: {event},{parameter}=N")]
    MissingParameter {
        /// The event's name.
        event: String,
        /// The term that it needs.
        parameter: String,
    },
    /// What sysfs says of a PMU can't be read or understood.
    #[error("PMU {pmu}: {why}")]
    Sysfs {
        /// The PMU's name.
        pmu: String,
        /// What is wrong.
        why: String,
    },
    /// No such modifier, or one twice.
    #[error("'{0}' is no modifier here: u k h G H p P S D I W e, each once (p up to three times)")]
    Modifier(char),
    /// Only the first event of a group can be pinned or have its PMU for itself.
    #[error("only the first event of a group can have the modifier {0}")]
    LeaderOnly(char),
    /// No tracepoint has this name, or matches this pattern.
    #[error("no tracepoint is called '{0}'")]
    UnknownTracepoint(String),
    /// A program has no such place.
    #[error("{place}: {why}")]
    Probe {
        /// The file, or the place in it.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// Tracepoints can't be looked up.
    #[error("tracepoint {name}: {source}")]
    Tracefs {
        /// What was typed.
        name: String,
        /// Why not.
        source: TracefsError,
    },
}

/// A problem at an offset, before the whole text and its near names are known.
#[derive(Debug)]
pub(super) struct LocatedProblem {
    offset: usize,
    problem: Box<Problem>,
    nearest: Vec<String>,
}

impl LocatedProblem {
    pub(super) fn new(offset: usize, problem: Problem) -> Self {
        Self { offset, problem: Box::new(problem), nearest: Vec::new() }
    }

    /// Adds those of the candidates that look like the name.
    pub(super) fn near<S: AsRef<str>>(
        mut self,
        name: &str,
        candidates: impl IntoIterator<Item = S>,
    ) -> Self {
        self.nearest = nearest(name, candidates);
        self
    }

    /// The problem alone, where the text has but one word.
    pub(super) fn said(self) -> String {
        match self.nearest.as_slice() {
            [] => self.problem.to_string(),
            near => format!("{}; nearest: {}", self.problem, list(near)),
        }
    }

    pub(super) fn in_text(self, text: &str) -> EventError {
        EventError {
            text: text.to_owned(),
            offset: self.offset,
            problem: self.problem,
            nearest: self.nearest,
        }
    }
}

impl EventError {
    /// The text and a mark below the place, for a terminal: two lines without a line end.
    #[must_use]
    pub fn pointer(&self) -> String {
        let before = self.text.get(..self.offset).map_or(0, |text| text.chars().count());
        let text: String =
            self.text.chars().map(|c| if c.is_control() { '?' } else { c }).collect();
        format!("  {text}\n  {:before$}^", "")
    }
}

impl fmt::Display for EventError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let character = self.text.get(..self.offset).map_or(0, |text| text.chars().count()) + 1;
        write!(f, "event at character {character}: {}", self.problem)?;
        if self.nearest.is_empty() {
            Ok(())
        } else {
            write!(f, "; nearest: {}", list(&self.nearest))
        }
    }
}

impl std::error::Error for EventError {}
