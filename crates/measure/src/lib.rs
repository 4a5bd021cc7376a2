//! Counting for `tare stat`, the statistics of its comparisons, and the grammar of events.
//!
//! Nothing here records: this crate judges recorders, and must not link what it judges.
#![forbid(unsafe_code)]

pub mod compare;
pub mod count;
pub mod event;
pub mod statistics;
