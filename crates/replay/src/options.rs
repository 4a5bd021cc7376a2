//! How a recording is replayed.

use std::num::NonZero;

/// How a recording is replayed.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// How much of each sample is kept until its turn.
    pub detail: SampleDetail,
    /// Where symbols are looked for.
    pub symbols: tare_symbols::SymbolOptions,
    /// How many threads unwind copied stacks; `None`: as many as there are CPUs for this process.
    pub threads: Option<NonZero<usize>>,
    /// How many copied stacks are unwound each time that all rings were drained; `None`: all. What
    /// comes beyond that is counted, and has the call chain that the kernel recorded.
    pub most_stacks: Option<usize>,
    /// [`Replay::run`](crate::Replay::run) reads a large file and puts it in order on a thread of
    /// its own; what comes out is the same. Pays in elapsed time where the sink does much with each
    /// record, such as writing a line; takes up to a fifth more CPU time.
    pub reads_ahead: bool,
}

/// How much of each sample is kept until its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleDetail {
    /// All of it; address spaces are followed.
    #[default]
    Full,
    /// Event, thread, time, CPU, address, period, and the counts of groups: no call chains. Address
    /// spaces are followed.
    Leaf,
    /// The same of each sample, and no address spaces: records of mappings are
    /// left out, and no address has a file: some ten times as fast.
    Front,
    /// All of each sample, and no address spaces: for what tracepoints say.
    Samples,
}
