//! Counting for `tare stat`, the statistics of its comparisons, the cost of sampling, and what a
//! machine allows.
//!
//! This crate judges recorders, so it must not link one.
#![forbid(unsafe_code)]

pub mod compare;
pub mod count;
pub mod doctor;
pub mod overhead;
pub mod stat;
pub mod statistics;
