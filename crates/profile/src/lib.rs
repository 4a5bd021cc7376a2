//! The profile model: samples summed by command, process, file and symbol.
//!
//! ```text
//! Profile       strings <- dsos <- symbols <- frames <- stacks (call chains)
//!                  ^-- events, threads            ^       ^
//!               rows: (event, thread, command, CPU, leaf, stack, details) -> samples, period
//!
//! ProfileTable  rows merged by sort keys into entries, with their own weight and that of callees
//! SampleStore   samples one by one, in columns; a selection of them becomes rows
//! Runs          weights of functions or stacks in several recordings on two sides, by name
//! CallTree      the call chains of an entry, merged from their outermost or innermost end
//! Blocks        cycles of the code between branches
//! Losses        the account of data that the rows lack
//! ```
//! Pure: the caller looks up symbols, and nothing here accesses files or terminals.
#![forbid(unsafe_code)]

mod aggregate;
mod blocks;
mod call_tree;
mod detail;
mod details;
mod diff;
mod exact;
mod files;
mod filter;
mod frame_numbers;
mod frames;
mod ids;
mod key;
mod losses;
mod numbers;
mod profile;
mod rows;
mod samples;
mod sets;
mod tables;
mod threads;
mod unnamed;
mod unwinding;

pub use aggregate::{Entry, EntryParts, EntryTask, ProfileTable, TableOptions, table};
pub use blocks::{Block, Blocks};
pub use call_tree::{CallTree, CallTrees, Node, Order};
pub use detail::{BranchDetail, Detail, Value};
pub use diff::{DiffEntry, DiffOptions, Runs, SliceRow, SliceSubject, source_name};
pub use filter::Filter;
pub use frame_numbers::FrameNumbers;
pub use ids::{
    DetailsId, DsoId, EventId, FrameId, LocationId, NameId, RowId, StackId, StringId, SymbolId,
    TaskId, ThreadId,
};
pub use key::{FunctionKey, SortKey, short_name};
pub use losses::{Gap, InStep, Losses, OffCpuChains};
pub use profile::{Profile, ReplacedRows};
pub use rows::Row;
pub use samples::{
    NewIds, RowKeys, SampleLocation, SampleStore, SampledTask, SelectedSamples, Selection,
    StoredSample, Term,
};
pub use tables::{
    Dso, ExactCount, MappedFile, MappedRange, ProfileEvent, ProfileFrame, SourceLine, Space,
    Symbol, Thread, Weight,
};
pub use unnamed::{BinaryFile, MissingSymbols, NamingAdvice};
pub use unwinding::{
    DeepestStack, EndReasonCount, FramePointers, Sufficient, TruncatedChains, Unwinding,
};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
