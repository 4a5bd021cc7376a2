//! Questions, and the samples they are about.

use tare_store::Query;
use tare_store::schema::SampleColumn;

use crate::condition::Condition;
use crate::error::FleetError;
use crate::rows::Part;

/// What samples are summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grouping {
    /// A column of texts. For the function, the innermost one has the weight itself.
    Column(SampleColumn),
    /// The module of a frame.
    Module,
}

impl Grouping {
    /// All groupings, with their names.
    pub const ALL: [(&'static str, Self); 14] = [
        ("service", Self::Column(SampleColumn::Service)),
        ("version", Self::Column(SampleColumn::Version)),
        ("host", Self::Column(SampleColumn::Host)),
        ("container", Self::Column(SampleColumn::Container)),
        ("function", Self::Column(SampleColumn::Function)),
        ("module", Self::Module),
        ("reason", Self::Column(SampleColumn::WaitReason)),
        ("process", Self::Column(SampleColumn::Process)),
        ("thread", Self::Column(SampleColumn::Thread)),
        ("unit", Self::Column(SampleColumn::Unit)),
        ("namespace", Self::Column(SampleColumn::Namespace)),
        ("pod", Self::Column(SampleColumn::Pod)),
        ("owner", Self::Column(SampleColumn::Owner)),
        ("image", Self::Column(SampleColumn::Image)),
    ];

    /// The grouping by service.
    #[must_use]
    pub fn service() -> Self {
        Self::Column(SampleColumn::Service)
    }

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, grouping)| *grouping == self).map_or("event", |(name, _)| name)
    }

    /// Returns whether callers have a share of their callees' weight.
    #[must_use]
    pub fn has_callers(self) -> bool {
        matches!(self, Self::Module | Self::Column(SampleColumn::Function))
    }
}

/// Above which a host is listed by [`Question::Losses`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossLimits {
    /// Share of samples lost.
    pub lost: f64,
    /// Share of all CPUs' time that profiling cost.
    pub cost: f64,
    /// Share of samples with an incomplete stack.
    pub broken: f64,
    /// Microseconds without a window before the end of the question's times.
    pub silence_us: i64,
}

impl Default for LossLimits {
    fn default() -> Self {
        Self { lost: 0.0, cost: 0.005, broken: 0.05, silence_us: 5 * 60_000_000 }
    }
}

/// A question.
#[derive(Clone, Debug)]
pub enum Question {
    /// Which groups have the most weight?
    Top {
        /// The groups.
        by: Grouping,
        /// Also the weight below a function or module, which takes longer.
        with_total: bool,
        /// Number of groups by event.
        limit: usize,
    },
    /// Which hosts lost samples, exceed the budget, have broken stacks, or fell silent?
    Losses {
        /// When a host is listed.
        limits: LossLimits,
        /// Lists all hosts.
        all: bool,
    },
    /// Which binaries have functions without names?
    Nameless,
    /// Which functions match a pattern, who calls them, and what do they cost?
    Search {
        /// A regular expression that matches a part of the name.
        pattern: String,
        /// Money by core and hour.
        cost_per_core_hour: Option<f64>,
    },
    /// Which groups have other shares in a second selection?
    Diff {
        /// The groups.
        by: Grouping,
        /// Also the weight below a function or module.
        with_total: bool,
        /// Number of groups by event.
        limit: usize,
        /// The second selection.
        versus: Selection,
    },
    /// Where is the time, by call chain?
    Flame {
        /// A label, next to the root.
        by: Grouping,
    },
    /// What does this SQL give? The built-in engine can't say.
    Sql {
        /// A select statement.
        text: String,
    },
    /// Which services use more CPU time since a version or a deploy?
    Regressions {
        /// The samples after the deploy; by default those of each service's newest version, which
        /// is compared with the version before it.
        versus: Option<Selection>,
    },
}

impl Question {
    /// Returns its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Top { .. } => "top",
            Self::Losses { .. } => "losses",
            Self::Nameless => "nameless",
            Self::Search { .. } => "search",
            Self::Diff { .. } => "diff",
            Self::Flame { .. } => "flame",
            Self::Regressions { .. } => "regressions",
            Self::Sql { .. } => "sql",
        }
    }

    /// Returns the row sets that it is answered from; none for free SQL.
    #[must_use]
    pub fn parts(&self) -> &'static [Part] {
        match self {
            Self::Top { .. } | Self::Diff { .. } => &[Part::Sums],
            Self::Losses { .. } => &[Part::Hosts],
            Self::Nameless => &[Part::Builds],
            Self::Search { .. } => &[Part::Times, Part::Callers, Part::Functions],
            Self::Regressions { .. } => &[Part::Rates],
            Self::Flame { .. } => &[Part::Stacks, Part::Frames],
            Self::Sql { .. } => &[],
        }
    }
}

/// Which samples a question is about.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Start of the first window, in microseconds since 1970.
    pub since_us: Option<i64>,
    /// Windows start before this moment, in microseconds since 1970.
    pub until_us: Option<i64>,
    /// Conditions that a sample must fulfil, all of them.
    pub conditions: Vec<Condition>,
}

impl Selection {
    /// Returns the selection of a store's query.
    ///
    /// # Errors
    /// Never: a filter's text is a condition.
    pub fn from_query(query: &Query) -> Result<Self, FleetError> {
        let conditions = query.filters.iter().map(|filter| filter.to_string().parse());
        Ok(Self {
            since_us: query.since_us,
            until_us: query.until_us,
            conditions: conditions.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the store's query of the selection.
    #[must_use]
    pub fn query(&self) -> Query {
        Query {
            since_us: self.since_us,
            until_us: self.until_us,
            filters: self.conditions.iter().map(|condition| condition.filter().clone()).collect(),
        }
    }
}

/// A question about a selection of samples.
#[derive(Clone, Debug)]
pub struct Request {
    /// The question.
    pub question: Question,
    /// The samples.
    pub selection: Selection,
}

impl Request {
    /// Returns the same question about other samples.
    pub(crate) fn about(&self, selection: &Selection) -> Self {
        Self { question: self.question.clone(), selection: selection.clone() }
    }

    /// Returns what an engine is asked: a question that compares two selections asks about each.
    #[must_use]
    pub fn selections(&self) -> Vec<Self> {
        let versus = match &self.question {
            Question::Diff { versus, .. } | Question::Regressions { versus: Some(versus) } => {
                Some(self.about(versus))
            }
            _ => None,
        };
        [Some(self.clone()), versus].into_iter().flatten().collect()
    }
}
