//! From the kernel's rings to a recording, and back.

pub(crate) mod capture;
pub mod describe;
pub mod output;
pub mod synthesize;
