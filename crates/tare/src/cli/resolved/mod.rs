//! What is to be done, worked out from what was typed and from this machine.

pub(crate) mod events;
pub mod overhead;
pub mod record;
pub mod report;
pub(crate) mod script;
mod size;
pub mod stat;
mod symbols;
mod targets;
pub mod versus;
