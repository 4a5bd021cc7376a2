//! The profile model: samples summed up by command, process, file and symbol.
//!
//! ```text
//! Profile   strings <- dsos <- symbols <- frames <- stacks
//!              ^-- events, threads            ^       ^
//!           rows: (event, thread, command, CPU, leaf, stack) -> samples, period
//!
//! Table     rows put together by sort keys: one Entry each, with what it did itself and what it called
//! CallTree  the stacks of one entry, put together from their callers or from their callees
//! ```
//! Pure: addresses were made names before they come here, and nothing here knows files or
//! terminals.
#![forbid(unsafe_code)]

mod aggregate;
mod call_tree;
mod exact;
mod filter;
mod ids;
mod key;
mod loss;
mod profile;
mod tables;

pub use aggregate::{Entry, Options, Table, table};
pub use call_tree::{CallTree, Node, Order};
pub use exact::Counted;
pub use filter::Filter;
pub use ids::{DsoId, EventId, FrameId, RowId, StackId, StringId, SymbolId, ThreadId};
pub use key::{Function, Group, Key};
pub use loss::Loss;
pub use profile::{Profile, Row, Weight};
pub use tables::{Dso, Event, Frame, Space, Stack, Symbol, Thread};
