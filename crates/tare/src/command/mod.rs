//! One module a command, and what commands share: how a command is followed (`follow`), orders
//! (`control`), what a recording says of itself (`header`), signals (`interrupt`), remedies
//! (`remedy`), and running processes that are waited for (`targets`).

mod control;
pub(crate) mod doctor;
mod follow;
pub(crate) mod header;
mod interrupt;
pub(crate) mod list;
pub(crate) mod overhead;
pub(crate) mod record;
mod remedy;
pub(crate) mod report;
pub(crate) mod script;
pub(crate) mod stat;
mod targets;
