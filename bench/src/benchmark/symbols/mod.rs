//! Names of addresses: are they right, how fast, and in how much memory.

mod addresses;
mod answer;
pub(super) mod large;
pub(super) mod million;
mod programs;
pub(super) mod script;
pub(super) mod shares;
pub(super) mod truth;
