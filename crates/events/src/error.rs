use std::fmt;

use tare_format::nearest::{join_names, nearest};
use tare_kernel::tracefs::TracefsError;

/// Why a text isn't a valid list of events. `Display` writes one line.
#[derive(Debug)]
pub struct EventError {
    /// The whole text that was typed.
    pub text: String,
    /// Byte offset of the problem in the text.
    pub offset: usize,
    /// The problem.
    pub problem: Box<Problem>,
    /// Known names that look similar, the most similar first.
    pub nearest: Vec<String>,
}

/// A problem with an event.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The text breaks the grammar; the message states the expected form.
    #[error("{0}")]
    Syntax(&'static str),
    /// This machine has no event of this name.
    #[error("unknown event '{0}' (`tare list` shows the events of this machine)")]
    UnknownEvent(String),
    /// One of perf's tool events, whose times `tare stat` always prints.
    #[error("'{0}' isn't a kernel event: leave it out, tare stat prints these times")]
    OwnTime(String),
    /// perf's grammar has no event for this use of this cache.
    #[error("'{0}': there is no counter for this use of this cache")]
    CacheUse(String),
    /// No PMU has this name.
    #[error("this machine has no PMU '{0}'")]
    UnknownPmu(String),
    /// The PMU has neither a term nor an event of this name.
    #[error("PMU {pmu} has no event and no term '{term}'")]
    UnknownTerm {
        /// The term as typed.
        term: String,
        /// The PMU's name.
        pmu: String,
    },
    /// A term that this event doesn't have.
    #[error("this event has no term '{0}'")]
    MisplacedTerm(String),
    /// A term's value is missing, unexpected or invalid.
    #[error("{term}: {why}")]
    BadValue {
        /// The term.
        term: String,
        /// The expected value, or why this one is invalid.
        why: &'static str,
    },
    /// The value doesn't fit the term's bits.
    #[error("{term}: the largest value is {max:#x}")]
    TooLarge {
        /// The term.
        term: String,
        /// The largest value that fits.
        max: u64,
    },
    /// An event of a PMU needs a term that is missing.
    #[error("{event} needs a value for {parameter}: {event},{parameter}=N")]
    MissingParameter {
        /// The event's name.
        event: String,
        /// The missing term.
        parameter: String,
    },
    /// The description of a PMU in sysfs can't be read or parsed.
    #[error("PMU {pmu}: {why}")]
    Sysfs {
        /// The PMU's name.
        pmu: String,
        /// The reason, in words.
        why: String,
    },
    /// An unknown or repeated modifier.
    #[error(
        "unknown or repeated modifier '{0}': use u k h G H p P S D I W e, each once (p up to three times)"
    )]
    Modifier(char),
    /// Only the first event of a group can be pinned or exclusive.
    #[error("only the first event of a group can have the modifier {0}")]
    LeaderOnly(char),
    /// No tracepoint has this name, or matches this pattern.
    #[error("no tracepoint is called '{0}'")]
    UnknownTracepoint(String),
    /// A program's file, or a location in it, can't be probed.
    #[error("{place}: {why}")]
    Probe {
        /// The file, or the location in it.
        place: String,
        /// The reason, in words.
        why: String,
    },
    /// Tracepoints can't be looked up.
    #[error("tracepoint {name}: {source}")]
    Tracefs {
        /// The tracepoint as typed.
        name: String,
        /// The error of tracefs.
        source: TracefsError,
    },
}

/// A problem with its offset, before it is joined with the whole text.
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

    /// Adds the candidates that look similar to the name.
    pub(super) fn with_nearest<S: AsRef<str>>(
        mut self,
        name: &str,
        candidates: impl IntoIterator<Item = S>,
    ) -> Self {
        self.nearest = nearest(name, candidates);
        self
    }

    /// Sets the known names that look similar, the most similar first.
    pub(super) fn with_names(self, nearest: Vec<String>) -> Self {
        Self { nearest, ..self }
    }

    /// Joins the problem with the whole text.
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
    /// Returns two lines for a terminal: the text, and a mark below the problem. No trailing
    /// newline.
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
            write!(f, "; nearest: {}", join_names(&self.nearest))
        }
    }
}

impl std::error::Error for EventError {}
