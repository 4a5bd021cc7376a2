//! Names of addresses: are they right, how fast, and in how much memory.

mod addresses;
pub(super) mod answer;
pub(super) mod large;
pub(super) mod million;
pub(super) mod programs;
pub(super) mod script;
pub(super) mod shares;
pub(super) mod truth;
