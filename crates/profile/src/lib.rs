//! The profile model: samples summed up by command, process, file and symbol.
//!
//! ```text
//! Profile   strings <- dsos <- symbols <- frames <- stacks (call chains)
//!              ^-- events, threads            ^       ^
//!           rows: (event, thread, command, CPU, leaf, stack) -> samples, period
//!
//! Table     rows put together by sort keys: one Entry each, with its own weight and what it called
//! Samples   each one by itself, in columns: a selection of them makes the rows
//! Runs      what functions or stacks weigh in several recordings of two sides, by name
//! CallTree  the call chains of one entry, put together from their callers or from their callees
//! ```
//! Pure: addresses were made names before they come here, and nothing here knows files or
//! terminals.
#![forbid(unsafe_code)]

mod aggregate;
mod blocks;
mod call_tree;
mod detail;
mod details;
mod diff;
mod exact;
mod filter;
mod ids;
mod key;
mod losses;
mod numbers;
mod profile;
mod samples;
mod stacks;
mod tables;
mod unnamed;
mod unwinding;

pub use aggregate::{Entry, ProfileTable, TableOptions, table};
pub use blocks::{Block, Blocks};
pub use call_tree::{CallTree, CallTrees, Node, Order};
pub use detail::{Detail, Value};
pub use diff::{DiffEntry, DiffOptions, Runs, SliceRow, SliceSubject, source_name};
pub use filter::Filter;
pub use ids::{
    DetailsId, DsoId, EventId, FrameId, LocationId, NameId, RowId, StackId, StringId, SymbolId,
    TaskId, ThreadId,
};
pub use key::{FunctionKey, SortKey, short_name};
pub use losses::{Gap, Losses, OffCpuChains};
pub use profile::{Profile, ReplacedRows, Row};
pub use samples::{
    NewIds, RowKeys, SampleLocation, SampleStore, SampledTask, SelectedSamples, Selection,
    StoredSample, Term,
};
pub use tables::{
    Dso, ExactCount, ProfileEvent, ProfileFrame, SourceLine, Space, Symbol, Thread, Weight,
};
pub use unnamed::{BinaryFile, MissingSymbols, NamingAdvice};
pub use unwinding::{EndReasonCount, FramePointers, Sufficient, Unwinding};
