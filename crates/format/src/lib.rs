//! The perf_event ABI as bytes and records.
//!
//! Pure: no `unsafe`, no file system, no clock. Everything here turns bytes into values or values
//! into bytes, and every size that comes from outside is checked before it is used.
#![forbid(unsafe_code)]

pub mod abi;
mod bytes;
pub mod control;
pub mod file;
pub mod jit_note;
pub mod ledger;
pub mod limits;
pub mod order;
mod printable;
pub mod record;
pub mod tracepoint;

pub use bytes::{Endian, Words};
pub use printable::{group_digits, hex, is_unsafe, printable};
