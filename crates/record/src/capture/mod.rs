//! From the kernel into the output: `opening` opens events and maps their rings, `reader` drains
//! these and has `scanner` see what passes (`tasks`: of which tasks), of which `stats` are kept,
//! `rounds` knows when a mark is due, `jit` notes processes that make code as they run, `threads` are further threads that read, and `poller` is what
//! they sleep on. Of a `command`, `exec` leaves out what came before its execve, and `members`
//! knows its threads.

pub(crate) mod batch;
mod command;
mod exec;
pub(crate) mod flight_recorder;
pub(crate) mod jit;
mod members;
pub(crate) mod opening;
pub(crate) mod poller;
pub(crate) mod reader;
pub(crate) mod reopening;
mod rounds;
pub(crate) mod scanner;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod threads;
mod unswapped;

use tare_format::abi::Attr;
use tare_kernel::open::EventTarget;

/// An event to open.
#[derive(Clone, Debug)]
pub(crate) struct EventToOpen {
    /// What messages call it.
    pub(crate) name: String,
    /// As the kernel is to get it.
    pub(crate) attr: Attr,
    /// Lower frequencies that it is opened with, too: one of all is on at a time.
    pub(crate) slower: Vec<u64>,
    /// The event that leads its group, where another does: an index before its own.
    pub(crate) leader: Option<usize>,
    /// The CPUs that it is opened on, and what of each.
    pub(crate) targets: Vec<(u32, EventTarget)>,
}
