//! `perf.data` files.

pub mod writer;
