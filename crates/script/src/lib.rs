//! `tare script` as sinks: each sample of a recording becomes a line of text in the layout of
//! `perf script`, or a JSON object.
//!
//! ```text
//! tare_replay::Replay -> TextSink -> LinePrinter -> LineBuffer -> Write     lines, with symbols
//!                                        \-> PendingLines                   source lines, inlined functions
//!                     -> JsonSink -------------> LineBuffer -> Write        one object per sample
//! ```
//! Debug info is read for many addresses at once: a line of text that needs it leaves a gap, and a
//! JSON object waits whole, until enough of them wait. The sinks write to the [`std::io::Write`]s
//! that they are given.
#![forbid(unsafe_code)]

mod address;
mod branches;
mod error;
mod extra;
mod json;
mod json_sample;
mod lines;
mod options;
mod outputs;
mod pending;
mod perf_json;
mod printer;
mod records;
mod text;

pub use error::ScriptError;
pub use json::{JsonLayout, JsonSink};
pub use options::{PrintedRecords, ScriptOptions, TimeBase};
pub use outputs::OpenEventOutput;
pub use text::{HeaderWriter, TextSink};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
