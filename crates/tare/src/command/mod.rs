//! One module a command.

pub(crate) mod doctor;
pub(crate) mod list;
pub(crate) mod stat;
