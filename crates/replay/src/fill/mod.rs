//! A recording as a profile.
//!
//! ```text
//! Reader --> quick:    threads and their names only, samples in any order within two rounds --\
//!        \-> replayed: all in order of time, address spaces, symbols, call chains -----------> Profile
//! ```
//! Both make the same rows.

mod counted;
mod filling;
mod history;
mod places;
mod quick;
mod replayed;

use std::fs::File;
use std::io;

use tare_format::file::Reader;
use tare_symbols::SymbolOptions;

pub use filling::{Filled, has_chains};

/// How samples are summed up.
#[derive(Clone, Debug, Default)]
pub struct ProfileOptions {
    /// From when to when.
    pub time: TimeRange,
    /// Rows are told apart by CPU.
    pub by_cpu: bool,
    /// Addresses become frames; without it samples are summed up by thread, which is faster.
    pub frames: bool,
    /// Keep the recorder's own samples.
    pub include_self: bool,
    /// Samples weigh what their commands' tasks counted.
    pub exact: bool,
    /// Where symbols are looked for.
    pub symbols: SymbolOptions,
}

/// From when to when samples are taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum TimeRange {
    /// All of them.
    #[default]
    All,
    /// In the recording's clock, both included.
    Nanoseconds(u64, u64),
    /// Of the time from the first sample to the last.
    Percent(f64, f64),
}

/// Why a recording can't become a profile.
#[derive(Debug, thiserror::Error)]
pub enum FillError {
    /// It can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A range in percent of a recording that doesn't say when its samples begin and end.
    #[error("the recording doesn't say when its samples begin and end; give seconds")]
    NoSampleTimes,
}

/// Reads a recording to its end, and sums its samples up.
///
/// # Errors
/// See [`FillError`].
pub fn fill(reader: Reader<File>, options: &ProfileOptions) -> Result<Filled, FillError> {
    let filling = filling::Filling::new(options, reader.description())?;
    if options.frames {
        replayed::fill(reader, options.symbols.clone(), filling)
    } else {
        quick::fill(reader, filling)
    }
}
