//! How far user stacks were found.

/// How far copies of user stacks were unwound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwinding {
    /// Stacks whose thread's first function was reached.
    pub whole: u64,
    /// Stacks that end before, for a reason that is no failure; by reason, the most frequent first.
    pub truncated: Vec<EndReasonCount>,
    /// Stacks that could not be unwound to their end, likewise.
    pub failed: Vec<EndReasonCount>,
    /// Of all these, the ones that frame pointers continued.
    pub spliced: u64,
    /// A copy that would have been large enough; `None` where no copy was too small, or it isn't
    /// known how far the stacks reach.
    pub sufficient: Option<Sufficient>,
}

/// Stacks that ended for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndReasonCount {
    /// Why, in words.
    pub why: &'static str,
    /// How many.
    pub stacks: u64,
    /// The file that most of them end in, where that says something. Untrusted.
    pub dso: Option<String>,
}

/// A size of copies of stacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sufficient {
    /// The size.
    pub bytes: u64,
    /// Stacks that it would have held.
    pub stacks: u64,
    /// The number of whole stacks and of those whose copy ended.
    pub of: u64,
}

/// Call chains by frame pointers that code without them broke.
#[derive(Clone, Debug, PartialEq)]
pub struct FramePointers {
    /// All call chains with a user part.
    pub stacks: u64,
    /// Of these, the ones that miss callers.
    pub broken: u64,
    /// The files whose code broke them, those of most first. Untrusted.
    pub dsos: Vec<(String, u64)>,
    /// What a copied stack costs more a sample, in microseconds, where that was measured.
    pub cost_us: Option<f64>,
}

impl Eq for FramePointers {}

impl Unwinding {
    /// Stacks that end for a reason that is no failure.
    #[must_use]
    pub fn truncated_stacks(&self) -> u64 {
        self.truncated.iter().map(|ended| ended.stacks).sum()
    }

    /// Stacks that could not be unwound to their end.
    #[must_use]
    pub fn failed_stacks(&self) -> u64 {
        self.failed.iter().map(|ended| ended.stacks).sum()
    }

    /// All copies.
    #[must_use]
    pub fn stacks(&self) -> u64 {
        self.whole + self.truncated_stacks() + self.failed_stacks()
    }
}
