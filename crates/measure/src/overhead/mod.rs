//! `tare overhead`: a study of the cost of sampling on this machine, and comparisons of a command
//! with and without profilers (`--with`: `rounds`, `profiled`). A study:
//!
//! ```text
//! plan ─> rates: for each rate, handler (three nested figures a sample)
//!                and interference (losses of loops) ─> rows ─> fit ─> calibration
//! ```
//! `short` measures the stolen time alone, in a quarter of a second. `kept` stores both results,
//! and `predict` finds them for recordings. `text`, `page` and `study` write the formats of a
//! study.
//!
//! The study measures recorders, so it opens events and ring buffers itself. docs/overhead.md
//! describes the method.

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
