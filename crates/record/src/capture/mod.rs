//! The way of records from the kernel into the output. `opening` opens events and maps their rings,
//! `unswapped` adds events that keep the counts of threads apart, and `reopening` opens the events
//! of a CPU that came back. `reader` drains the rings in units of a `batch`: `scanner` reads the
//! headers, `stats` counts, `tasks` sums up periods by task, `rounds` decides when a mark is due,
//! and `jit` notes processes that generate code. `record_path` leads to the output, or into a
//! `flight_recorder` if only the last seconds are kept. `threads` are additional reader threads,
//! and readers sleep on a `poller`. For a followed command, `exec` drops samples from before its
//! execve. For a series of files, `processes` keeps track of the recorded processes.

pub(crate) mod batch;
mod exec;
pub(crate) mod flight_recorder;
pub(crate) mod jit;
pub(crate) mod opening;
pub(crate) mod poller;
pub(crate) mod processes;
pub(crate) mod reader;
mod record_path;
pub(crate) mod reopening;
mod rounds;
pub(crate) mod scanner;
pub(crate) mod stats;
pub(crate) mod tasks;
pub(crate) mod threads;
mod unswapped;
mod varied_period;

use tare_format::abi::Attr;
use tare_kernel::open::EventTarget;

#[derive(Clone, Debug)]
pub(crate) struct EventToOpen {
    /// The event's name in messages.
    pub(crate) name: String,
    pub(crate) attr: Attr,
    /// Lower frequencies, in Hz. The event is also opened once for each of them; only one of its
    /// frequencies is enabled at a time.
    pub(crate) slower: Vec<u64>,
    /// Index of the group leader, below the event's own; `None` for a leader.
    pub(crate) leader: Option<usize>,
    /// Where the event is opened: CPU and target.
    pub(crate) targets: Vec<(u32, EventTarget)>,
}
