//! Counting for `tare stat`, the statistics of its comparisons, what
//! sampling costs, and what of it a machine allows.
//!
//! Nothing here records: this crate judges recorders, and must not link what it judges.
#![forbid(unsafe_code)]

pub mod compare;
pub mod count;
pub mod doctor;
pub mod overhead;
pub mod stat;
pub mod statistics;
