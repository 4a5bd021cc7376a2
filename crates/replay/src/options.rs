//! How a recording is replayed.

use std::num::NonZero;

/// How a recording is replayed.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How much of each sample is kept until its turn.
    pub detail: Detail,
    /// Where symbols are looked for.
    pub symbols: tare_symbols::SymbolOptions,
    /// How many threads unwind copied stacks; `None`: as many as there are CPUs for this process.
    /// With more than one a large file is read on a thread of its own. What comes out is the same.
    pub threads: Option<NonZero<usize>>,
    /// How many copied stacks are unwound each time that all rings were drained; `None`: all. What
    /// comes beyond that is counted, and has the call chain that the kernel recorded.
    pub most_stacks: Option<usize>,
}

/// How much of each sample is kept until its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
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
