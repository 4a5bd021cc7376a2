//! A recording as a profile: a sink that sums samples up.

mod blocks;
mod details;
mod frame_pointers;
mod frames;
mod lines;
mod samples;
mod sink;
mod task_counts;
mod threads;
mod unnamed;

use std::num::NonZero;

use tare_format::file::Description;
use tare_format::ledger::Ledger;
use tare_profile::{Blocks, Detail, Profile};

use crate::error::Error;
use crate::options::{ReplayOptions, SampleDetail};
use crate::recording::Recording;
use crate::replay::Replay;
use crate::switch::EventSwitch;
use crate::times::TimeRanges;

pub use samples::{SampleSink, SampleSinkOptions};
pub use sink::{ProfileSink, has_branches, has_callchains};

/// How samples are summed up.
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    /// From when to when.
    pub time: TimeRanges,
    /// Only samples of these CPUs are taken; none: all.
    pub cpus: Vec<u32>,
    /// Rows are told apart by CPU.
    pub by_cpu: bool,
    /// How much of a sample's place in code tells rows apart.
    pub code: CodeDetail,
    /// Lines of source are asked of debug info.
    pub lines: bool,
    /// Inlined functions are frames of call chains, with their lines.
    pub inline: bool,
    /// Rows are told apart by the fields of tracepoints.
    pub trace: bool,
    /// These fields one by one, instead of the tracepoint's own words.
    pub raw_trace: bool,
    /// What else tells rows apart.
    pub details: Vec<Detail>,
    /// Nanoseconds of a slice of [`Detail::Time`]; 0: each time is a slice of its own.
    pub time_quantum_ns: u64,
    /// Times are named in nanoseconds, else in microseconds.
    pub nanoseconds: bool,
    /// Each branch that a sample has is a row, which weighs 1, instead of the sample.
    pub branches: bool,
    /// With `branches`: cycles of the code between them are summed up.
    pub blocks: bool,
    /// Samples weigh what their access cost, at least 1.
    pub by_cost: bool,
    /// Addresses of a call chain beyond this number are left out; `None`: none are.
    pub max_stack: Option<usize>,
    /// With `max_stack`: the outermost callers are kept instead of the innermost functions.
    pub keeps_callers: bool,
    /// Only samples of CPUs of this socket are taken.
    pub socket: Option<u64>,
    /// Samples are taken from one event to another.
    pub switch: EventSwitch,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// Samples weigh what their commands' tasks counted.
    pub exact: bool,
    /// Where symbols are looked for.
    pub symbols: tare_symbols::SymbolOptions,
    /// See [`ReplayOptions::threads`].
    pub threads: Option<NonZero<usize>>,
}

impl ProfileOptions {
    /// Whether fields behind a sample's first ones are looked at, but for the call chain.
    fn needs_all_fields(&self) -> bool {
        self.trace || self.branches || self.by_cost || !self.details.is_empty()
    }
}

/// How much of a sample's place in code tells rows of a profile apart: the less, the faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeDetail {
    /// Nothing: no address is looked up.
    #[default]
    None,
    /// The function that ran.
    Leaf,
    /// The whole call chain.
    Stack,
}

/// A profile that is whole, and what the recording said about itself.
#[derive(Clone, Debug)]
pub struct ProfileSummary {
    /// The samples, and what is missing.
    pub profile: Profile,
    /// Events and features.
    pub description: Description,
    /// What the recorder said about itself, where it was tare.
    pub ledger: Option<Ledger>,
    /// Cycles of the code between branches, where that was asked for.
    pub blocks: Vec<Blocks>,
}

/// Reads a recording to its end, and sums its samples up.
///
/// # Errors
/// [`Error::Read`] and [`Error::NoSampleTimes`].
pub fn summarize(
    mut recording: Recording,
    options: &ProfileOptions,
) -> Result<ProfileSummary, Error> {
    let mut sink = ProfileSink::new(options, recording.description())?;
    let detail = match options.code {
        _ if options.needs_all_fields() => SampleDetail::Full,
        CodeDetail::None => SampleDetail::Front,
        CodeDetail::Leaf => SampleDetail::Leaf,
        CodeDetail::Stack => SampleDetail::Full,
    };
    let replay = Replay::new(ReplayOptions {
        detail,
        symbols: options.symbols.clone(),
        threads: options.threads,
        ..ReplayOptions::default()
    });
    let losses = replay.run(&mut recording, &mut sink)?;
    Ok(sink.finish(recording.description(), losses))
}
