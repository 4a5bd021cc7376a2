//! The grammar of events, on machines that are described as folders.

mod attrs;
mod grammar;
mod machines;
mod peer;
