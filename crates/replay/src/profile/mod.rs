//! A recording as a profile: a sink that sums samples up.

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
use tare_profile::Profile;

use crate::error::Error;
use crate::options::{Detail, Options};
use crate::recording::Recording;
use crate::replay::Replay;

pub use samples::{SampleSink, SampleSinkOptions};
pub use sink::{ProfileSink, has_callchains};

/// How samples are summed up.
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    /// From when to when.
    pub time: TimeRange,
    /// Only samples of these CPUs are taken; none: all.
    pub cpus: Vec<u32>,
    /// Rows are told apart by CPU.
    pub by_cpu: bool,
    /// How much of a sample's place in code tells rows apart.
    pub code: Code,
    /// Lines of source are asked of debug info.
    pub lines: bool,
    /// Inlined functions are frames of call chains, with their lines.
    pub inline: bool,
    /// Rows are told apart by the fields of tracepoints.
    pub trace: bool,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// Samples weigh what their commands' tasks counted.
    pub exact: bool,
    /// Where symbols are looked for.
    pub symbols: tare_symbols::SymbolOptions,
    /// See [`Options::threads`].
    pub threads: Option<NonZero<usize>>,
}

/// How much of a sample's place in code tells rows of a profile apart: the less, the faster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Code {
    /// Nothing: no address is looked up.
    #[default]
    None,
    /// The function that ran.
    Leaf,
    /// The whole call chain.
    Stack,
}

/// From when to when samples are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TimeRange {
    /// All of them.
    #[default]
    All,
    /// In nanoseconds of the recording's clock, both included.
    Nanoseconds(u64, u64),
    /// Of the time from the first sample to the last.
    Percent(f64, f64),
}

/// A profile that is whole, and what the recording said about itself.
#[derive(Clone, Debug)]
pub struct Summary {
    /// The samples, and what is missing.
    pub profile: Profile,
    /// Events and features.
    pub description: Description,
    /// What the recorder said about itself, where it was tare.
    pub ledger: Option<Ledger>,
}

/// Reads a recording to its end, and sums its samples up.
///
/// # Errors
/// [`Error::Read`] and [`Error::NoSampleTimes`].
pub fn summarize(mut recording: Recording, options: &ProfileOptions) -> Result<Summary, Error> {
    let mut sink = ProfileSink::new(options, recording.description())?;
    let detail = match options.code {
        _ if options.trace => Detail::Full,
        Code::None => Detail::Front,
        Code::Leaf => Detail::Leaf,
        Code::Stack => Detail::Full,
    };
    let replay =
        Replay::new(Options { detail, symbols: options.symbols.clone(), threads: options.threads });
    let losses = replay.run(&mut recording, &mut sink)?;
    Ok(sink.finish(recording.description(), losses))
}
