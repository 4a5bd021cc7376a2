//! What may not hold after a run.

use thiserror::Error;

/// What doesn't hold.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Failure {
    /// A file can't be read.
    #[error("{file}: {reason}")]
    Unreadable { file: String, reason: String },
    /// A sample is there more than once.
    #[error("sample {0} is there more than once")]
    Twice(usize),
    /// A sample is there that found no room, or that nobody made.
    #[error("sample {0} is there, and never found room in a ring buffer")]
    FromNowhere(usize),
    /// A sample is there that differs from what was made.
    #[error("sample {0} differs from what the kernel made")]
    Changed(usize),
    /// Samples are missing, and nothing tells why.
    #[error("{0} samples are missing, the first is {1}, and nothing says why")]
    Missing(usize, usize),
    /// Samples are missing that were flushed.
    #[error("{when}: {missing} samples are missing that were flushed, the first is {first}")]
    Flushed { when: &'static str, missing: usize, first: usize },
    /// A record after a mark is older than what came before the mark before it.
    #[error(
        "{file}: a record of {time_ns} ns follows a mark that promised nothing before {limit_ns}"
    )]
    Order { file: String, time_ns: u64, limit_ns: u64 },
    /// The ledger says something else than the file.
    #[error("{file}: the ledger says {what} {says}, and there are {are}")]
    Ledger { file: String, what: &'static str, says: u64, are: u64 },
    /// A finished file has no ledger.
    #[error("{0}: it has no ledger")]
    NoLedger(String),
    /// A thread has another name in a file than it had.
    #[error("{file}: sample {sample} is of '{says}', and was of '{was}'")]
    Name { file: String, sample: usize, says: String, was: String },
    /// The replay hands samples out in another order than that of time.
    #[error("{0}: samples come out of the replay in no order of time")]
    Replay(String),
    /// The replay says something else of a sample than a plain model.
    #[error("the replay says {found}, and a plain model {expected}")]
    Replayed { expected: String, found: String },
    /// The replay hands out more samples than there are, or fewer.
    #[error("{are} samples come out of the replay, and {should} should")]
    ReplayedSamples { are: usize, should: usize },
    /// A profile has another number of samples than a plain model.
    #[error("a profile has {are} samples of '{comm}', and a plain model {should}")]
    SummedUp { comm: String, are: u64, should: u64 },
    /// A profile weighs something else than its samples stood for.
    #[error("{file}: a profile weighs {says}, and its samples stood for {are}")]
    Weights { file: String, says: u64, are: u64 },
    /// More memory than is allowed.
    #[error("{used} bytes of memory are in use, and {allowed} are allowed")]
    Memory { used: usize, allowed: usize },
    /// Descriptors were opened or left open.
    #[error("{are} descriptors of events are open, and {were} should be")]
    Descriptors { were: usize, are: usize },
}
