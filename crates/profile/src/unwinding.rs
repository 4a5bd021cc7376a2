//! How completely user stacks were unwound.

/// How completely copied user stacks were unwound.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unwinding {
    /// Stacks unwound to the thread's first function.
    pub whole: u64,
    /// Stacks that end earlier without a failure, by reason, the most frequent first.
    pub truncated: Vec<EndReasonCount>,
    /// Stacks that failed to unwind, by reason.
    pub failed: Vec<EndReasonCount>,
    /// Number of all these stacks that frame pointers continued.
    pub spliced: u64,
    /// Whether the recorder unwound the stacks: the recording then has no copies of them.
    pub by_recorder: bool,
    /// A sufficient size of copies; `None` if all copies were large enough, or the depth of the
    /// stacks is unknown.
    pub sufficient: Option<Sufficient>,
    /// The deepest stack whose copy ended, if the recorder unwound the stacks.
    pub deepest: Option<DeepestStack>,
}

/// The deepest stack whose copy ended before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeepestStack {
    /// Its bytes, from the stack pointer on.
    pub bytes: u64,
    /// Most bytes that BPF programs copied; 0 if none did.
    pub copied_bytes: u64,
    /// Why they copied nothing, if they would have.
    pub lack: Option<String>,
    /// Number of deep stacks that weren't copied for lack of room in their ring buffer.
    pub missed: u64,
}

/// Stacks that ended for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndReasonCount {
    /// The reason, in words.
    pub why: &'static str,
    /// The number of stacks.
    pub stacks: u64,
    /// The file in which most of them end, if it is relevant. Untrusted.
    pub dso: Option<String>,
}

/// A size of copied stacks that is sufficient for most, or the largest possible one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sufficient {
    /// The size in bytes.
    pub bytes: u64,
    /// The number of stacks that fit.
    pub stacks: u64,
    /// The number of all stacks that are whole or were cut by the size of their copy.
    pub of: u64,
}

/// Call chains from frame pointers, with those broken by code without frame pointers.
#[derive(Clone, Debug, PartialEq)]
pub struct FramePointers {
    /// The number of call chains with a user part.
    pub stacks: u64,
    /// The number of these that miss callers.
    pub broken: u64,
    /// The files whose code broke chains, with the number of chains, the highest first. Untrusted.
    pub dsos: Vec<(String, u64)>,
    /// The additional cost of a sample whose stack the recorder unwinds, in microseconds, if
    /// measured.
    pub cost_us: Option<f64>,
}

impl Eq for FramePointers {}

/// Call chains that the kernel recorded, with those that it cut at its limit of frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TruncatedChains {
    /// The number of call chains.
    pub stacks: u64,
    /// The number of these that have as many frames as the kernel records.
    pub truncated: u64,
    /// That number of frames; 0 if no chain is truncated.
    pub frames: u16,
}

impl Unwinding {
    /// The number of stacks that end early without a failure.
    #[must_use]
    pub fn truncated_stacks(&self) -> u64 {
        self.truncated.iter().map(|ended| ended.stacks).sum()
    }

    /// The number of stacks that failed to unwind.
    #[must_use]
    pub fn failed_stacks(&self) -> u64 {
        self.failed.iter().map(|ended| ended.stacks).sum()
    }

    /// The number of all copied stacks.
    #[must_use]
    pub fn stacks(&self) -> u64 {
        self.whole + self.truncated_stacks() + self.failed_stacks()
    }
}
