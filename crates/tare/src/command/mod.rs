//! One module a command, and what commands share: orders (`control`), what a recording says of
//! itself (`header`), signals (`interrupt`), opening recordings (`recording`), and remedies
//! (`remedy`).

mod control;
pub(crate) mod doctor;
pub(crate) mod header;
mod interrupt;
pub(crate) mod list;
pub(crate) mod overhead;
pub(crate) mod record;
mod recording;
mod remedy;
pub(crate) mod report;
pub(crate) mod script;
pub(crate) mod stat;
pub(crate) mod trace;
