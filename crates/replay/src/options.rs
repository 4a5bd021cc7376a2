//! Options of a replay.

use std::num::NonZero;

/// Options of a replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// The decoded part of each sample.
    pub detail: SampleDetail,
    /// Sources of symbols.
    pub symbols: tare_symbols::SymbolOptions,
    /// Number of threads that unwind copied stacks, at most 16; default: one per CPU of this
    /// process.
    pub threads: Option<NonZero<usize>>,
    /// Limit of copied stacks that are unwound per round, in which all ring buffers are drained.
    /// Further samples are counted, and keep the call chain that the kernel recorded.
    pub most_stacks: Option<usize>,
    /// Let [`Replay::run`](crate::Replay::run) read and sort a large file on its own thread. The
    /// result is the same. It saves elapsed time if the sink is slow, for example because it prints
    /// a line per sample, and costs up to a fifth more CPU time.
    pub reads_ahead: bool,
}

/// The decoded part of each sample. Less is faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SampleDetail {
    /// All fields, with address spaces.
    #[default]
    Full,
    /// Event, thread, time, CPU, address, period, and counts of groups, with address spaces. No
    /// call chains.
    Leaf,
    /// The fields of `Leaf` without address spaces: mappings are skipped, so addresses have no
    /// file.
    Front,
    /// All fields without address spaces, for tracepoints.
    Samples,
}
