//! What is to be done, worked out from what was typed and from this machine.

pub mod stat;
pub mod versus;
