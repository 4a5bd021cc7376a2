//! The study of `tare overhead`: measures the cost of sampling on this machine.
//!
//! ```text
//! plan ─> for each rate: handler (three nested figures a sample) and interference (what loops lose) ─> rows ─> fit ─> calibration
//! ```
//! `short` measures the stolen time alone, in a quarter of a second; `kept` stores both, and
//! `predict` serves recordings.
//!
//! The study judges recorders, so it opens events and ring buffers itself. docs/overhead.md describes
//! the method.

pub mod calibration;
pub mod fit;
pub mod handler;
pub mod interference;
pub mod kept;
pub mod load;
pub mod page;
pub mod pinned;
pub mod plan;
mod plot;
pub mod predict;
pub mod profiled;
pub mod published;
pub mod rates;
pub mod rounds;
pub mod sampler;
pub mod short;
pub mod stolen;
pub mod study;
pub mod text;
pub mod tracing;
