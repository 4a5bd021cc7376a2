//! Counting, output and comparisons of `tare stat` and `tare bench` with their statistics, the measurements of `tare
//! overhead`, and the checks of `tare doctor`.
//!
//! This crate measures the overhead of recorders, so it must not link one.
#![forbid(unsafe_code)]

pub mod compare;
pub mod count;
pub mod doctor;
pub mod overhead;
pub mod series;
pub mod stat;
pub mod statistics;

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
