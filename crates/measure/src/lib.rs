//! Counting for `tare stat`, the statistics of its comparisons, and what
//! sampling costs.
//!
//! Nothing here records: this crate judges recorders, and must not link what it judges.
#![forbid(unsafe_code)]

pub mod compare;
pub mod count;
pub mod overhead;
pub mod stat;
pub mod statistics;
