//! Records other than samples, as lines.

use tare_format::record::{Record, kind};

use crate::cli::resolved::script::Shown;

/// Whom a record is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum About {
    /// A process and a thread, which the record names.
    Task(i32, i32),
    /// The one that its trailer names.
    OfTrailer,
}

/// Whom a record that is to be printed is about; `None` for one that isn't printed.
pub(super) fn shown(record: &Record<'_>, kind: u32, shown: &Shown) -> Option<About> {
    let (is_shown, about) = match record {
        Record::Mmap(mmap) => (shown.maps, About::Task(mmap.pid, mmap.tid)),
        Record::Comm(comm) => (shown.tasks, About::Task(comm.pid, comm.tid)),
        Record::Fork(task) | Record::Exit(task) => (shown.tasks, About::Task(task.pid, task.tid)),
        Record::Namespaces(namespaces) => {
            (shown.namespaces, About::Task(namespaces.pid, namespaces.tid))
        }
        Record::Cgroup(_) => (shown.cgroups, About::OfTrailer),
        Record::Switch(_) => (shown.switches, About::OfTrailer),
        Record::Lost(_) => (shown.losses, About::OfTrailer),
        Record::Ksymbol(_) | Record::BpfEvent(_) => (shown.bpf, About::OfTrailer),
        Record::TextPoke(_) => (shown.text_pokes, About::OfTrailer),
        _ => (kind == kind::FINISHED_ROUND && shown.rounds, About::OfTrailer),
    };
    is_shown.then_some(about)
}
