//! The grammar of events, by folders with the files that describe a machine's events, and against
//! perf.

mod attrs;
mod grammar;
mod machines;
mod peer;
