//! From the kernel into the output: `opening` opens events and maps their rings, `reader` drains
//! these and has `scanner` see what passes (`tasks`: of which tasks), of which `stats` are kept,
//! `rounds` knows when a mark is due, `helpers` are further threads that read, and `poller` is what
//! they sleep on.

pub(crate) mod flight_recorder;
pub(crate) mod opening;
pub(crate) mod poller;
pub(crate) mod reader;
mod rounds;
pub(crate) mod scanner;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod threads;
mod unswapped;
