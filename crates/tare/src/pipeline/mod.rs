//! From the kernel's rings to a recording, and back.

pub mod output;
pub mod synthesize;
