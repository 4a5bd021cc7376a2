//! Sinks that turn a recording into a profile: [`ProfileSink`] sums samples up, [`SampleSink`]
//! keeps each one.

mod blocks;
mod details;
mod events;
mod frame_pointers;
mod frames;
mod lines;
mod samples;
mod sink;
mod stacks;
mod steps;
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

/// Which samples are summed up, and what separates rows.
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    /// Only these times.
    pub time: TimeRanges,
    /// Only these CPUs; an empty list takes all.
    pub cpus: Vec<u32>,
    /// Separate rows by CPU.
    pub by_cpu: bool,
    /// How rows are separated by place in code.
    pub code: CodeDetail,
    /// Add source lines from debug info.
    pub lines: bool,
    /// Add inlined functions and their lines to call chains.
    pub inline: bool,
    /// Separate the addresses of a function. Notes where files were mapped, and the names that
    /// functions have in them. A sample without a call chain gets one of its own address.
    pub keeps_addresses: bool,
    /// Separate rows by the fields of tracepoints.
    pub trace: bool,
    /// Print each field by its type instead of by the tracepoint's own format.
    pub raw_trace: bool,
    /// Further fields that separate rows.
    pub details: Vec<Detail>,
    /// Length of a slice of [`Detail::Time`] in nanoseconds; 0 separates rows by each time.
    pub time_quantum_ns: u64,
    /// Print times with nine decimals instead of six.
    pub nanoseconds: bool,
    /// Add a sample's branches, each with weight 1, instead of the sample.
    pub branches: bool,
    /// Show numbers in names of threads as `<N>`, so that the threads of a pool have one name.
    pub folds_numbers: bool,
    /// With `branches`: sum up the cycles of the code between them.
    pub blocks: bool,
    /// Weigh samples by the cost of their memory access, at least 1.
    pub by_cost: bool,
    /// Limit of addresses per call chain.
    pub max_stack: Option<usize>,
    /// With `max_stack`: keep the outermost callers instead of the innermost functions.
    pub keeps_callers: bool,
    /// Give call chains that lack their outermost callers a frame `[truncated]` in their place.
    pub marks_truncated: bool,
    /// Only CPUs of this socket.
    pub socket: Option<u64>,
    /// Only samples between events that switch on and off.
    pub switch: EventSwitch,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// Weigh samples by the exact counts of their commands.
    pub exact: bool,
    /// Sources of symbols.
    pub symbols: tare_symbols::SymbolOptions,
    /// See [`ReplayOptions::threads`].
    pub threads: Option<NonZero<usize>>,
}

/// How rows are separated by place in code. Less detail is faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodeDetail {
    /// Not at all: no address is looked up.
    #[default]
    None,
    /// By the function that ran.
    Leaf,
    /// By the whole call chain.
    Stack,
}

/// The profile of a whole recording, with the recording's description.
#[derive(Clone, Debug)]
pub struct ProfileSummary {
    /// The samples and the losses.
    pub profile: Profile,
    /// Events, features and notes.
    pub description: Description,
    /// The recorder's account of itself, if tare was the recorder.
    pub ledger: Option<Ledger>,
    /// Cycles of the code between branches, with [`ProfileOptions::blocks`].
    pub blocks: Vec<Blocks>,
}

/// Reads a recording to its end and sums its samples up.
///
/// # Errors
/// Fails with [`Error::Read`] if the recording can't be read, and with [`Error::NoSampleTimes`]:
/// see [`TimeRanges::windows`].
pub fn summarize(
    mut recording: Recording,
    options: &ProfileOptions,
) -> Result<ProfileSummary, Error> {
    let mut sink = ProfileSink::new(options, recording.description())?;
    let detail = match options.code {
        _ if needs_all_fields(options) => SampleDetail::Full,
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

/// Whether a field after a sample's front may be needed, apart from the call chain. Any detail
/// counts.
fn needs_all_fields(options: &ProfileOptions) -> bool {
    options.trace || options.branches || options.by_cost || !options.details.is_empty()
}
