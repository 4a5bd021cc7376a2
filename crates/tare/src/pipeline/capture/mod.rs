//! From the kernel into the output: `opening` opens events and maps their rings, `reader` drains
//! these and has `meter` see what passes (`tasks`: of which tasks), of which `figures` are kept,
//! `rounds` knows when a mark is due, `helpers` are further threads that read, and `wakes` is what
//! they sleep on.

pub(crate) mod figures;
pub(crate) mod helpers;
pub(crate) mod meter;
pub(crate) mod opening;
pub(crate) mod reader;
pub(crate) mod recent;
mod rounds;
pub(crate) mod tasks;
mod unswapped;
pub(crate) mod wakes;
