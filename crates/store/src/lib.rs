#![doc = include_str!("../README.md")]

mod error;
mod folder;
mod listing;
mod name;
mod publication;
mod recovery;
mod rows;
pub mod schema;
mod segment;
mod store;
mod table_writer;
#[cfg(test)]
mod tests;
mod texts;

pub use error::StoreError;
pub use recovery::Recovery;
pub use segment::{
    Figures, LabelSet, MAX_EXTRA_BYTES, MAX_STACK_FRAMES, OVERFLOW_TEXT, Segment, SegmentBuilder,
    SegmentInfo, SegmentLimits, StackFrame, StackId,
};
pub use store::{Store, StoreOptions, WriteSize};
pub use texts::{MAX_TEXT_BYTES, TextId};
