//! Failures that the checks report.

use thiserror::Error;

/// A failed check.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Failure {
    /// A file can't be read.
    #[error("{file}: {reason}")]
    Unreadable { file: String, reason: String },
    /// A sample occurs more than once.
    #[error("sample {0} is there more than once")]
    Twice(usize),
    /// A sample occurs that was lost or never emitted.
    #[error("sample {0} is there, and never found room in a ring buffer")]
    FromNowhere(usize),
    /// A sample differs from the emitted one.
    #[error("sample {0} differs from what the kernel made")]
    Changed(usize),
    /// Samples are missing without a reported reason.
    #[error("{0} samples are missing, the first is {1}, and nothing says why")]
    Missing(usize, usize),
    /// Flushed samples are missing.
    #[error("{when}: {missing} samples are missing that were flushed, the first is {first}")]
    Flushed { when: &'static str, missing: usize, first: usize },
    /// A record after a round mark is older than records before the previous mark.
    #[error(
        "{file}: a record of {time_ns} ns follows a mark that promised nothing before {limit_ns}"
    )]
    Order { file: String, time_ns: u64, limit_ns: u64 },
    /// The ledger disagrees with the file.
    #[error("{file}: the ledger says {what} {says}, and there are {are}")]
    Ledger { file: String, what: &'static str, says: u64, are: u64 },
    /// A finished file has no ledger.
    #[error("{0}: it has no ledger")]
    NoLedger(String),
    /// A thread's name in a file is wrong.
    #[error("{file}: sample {sample} is of '{says}', and was of '{was}'")]
    Name { file: String, sample: usize, says: String, was: String },
    /// The replay delivers samples out of time order.
    #[error("{0}: samples come out of the replay in no order of time")]
    Replay(String),
    /// The replay and the model disagree about a sample.
    #[error("the replay says {found}, and a plain model {expected}")]
    Replayed { expected: String, found: String },
    /// The replay delivers the wrong number of samples.
    #[error("{are} samples come out of the replay, and {should} should")]
    ReplayedSamples { are: usize, should: usize },
    /// The profile and the model disagree about a number of samples.
    #[error("a profile has {are} samples of '{comm}', and a plain model {should}")]
    SummedUp { comm: String, are: u64, should: u64 },
    /// A profile's weight differs from the sum of its samples' periods.
    #[error("{file}: a profile weighs {says}, and its samples stood for {are}")]
    Weights { file: String, says: u64, are: u64 },
    /// The recorder used too much memory.
    #[error("{used} bytes of memory are in use, and {allowed} are allowed")]
    Memory { used: usize, allowed: usize },
    /// The number of open descriptors is wrong.
    #[error("{are} descriptors of events are open, and {were} should be")]
    Descriptors { were: usize, are: usize },
}
