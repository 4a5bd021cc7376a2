//! The perf_event ABI as bytes and records.
//!
//! The crate turns bytes into values and values into bytes, and checks every size that comes from
//! outside before using it. It uses no `unsafe` and no clock, and only [`order`] creates a file,
//! for records that exceed its memory limit.
#![forbid(unsafe_code)]

pub mod abi;
mod bytes;
pub mod control;
pub mod file;
pub mod jit_note;
pub mod json;
pub mod ledger;
pub mod limits;
pub mod nearest;
pub mod order;
mod printable;
pub mod record;
pub mod tracepoint;

pub use bytes::{Endian, Words};
pub use printable::{csv_field, group_digits, hex, is_unsafe, printable};

/// The example of the README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
