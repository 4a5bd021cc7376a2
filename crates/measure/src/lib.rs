//! Counting for `tare stat`, the statistics of its comparisons, the cost of sampling, and what a
//! machine allows.
//!
//! Nothing here records: this crate judges recorders and must not link them.
#![forbid(unsafe_code)]

pub mod compare;
pub mod count;
pub mod doctor;
pub mod overhead;
pub mod stat;
pub mod statistics;
