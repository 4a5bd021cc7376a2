//! System calls: what their numbers are called, which of them are meant, and their sums.
//!
//! The programs that see them are in `tare_kernel::bpf`. Nothing here prints.
#![forbid(unsafe_code)]

mod chosen;
mod names;
mod summary;
mod table;

pub use chosen::{Chosen, UnknownCall};
pub use names::{Abi, CallNames, Errno};
pub use summary::{Row, Subject, Summary};
