//! System calls: what their numbers are called, which of them are meant, and their sums.
//!
//! The programs that see them are in `tare_kernel::bpf`. Nothing here prints.
#![forbid(unsafe_code)]

mod address;
mod arguments;
mod chosen;
mod flags;
mod invocation;
mod lines;
mod names;
mod result;
mod signature;
mod special;
mod structs;
mod summary;
mod table;
mod text;

pub use chosen::{Chosen, UnknownCall};
pub use lines::{LineOptions, Lines};
pub use names::{Abi, CallNames, Errno};
pub use summary::{Row, Subject, Summary};
