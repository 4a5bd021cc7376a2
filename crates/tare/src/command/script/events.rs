//! Records other than samples, as lines.

use tare_format::record::{Record, kind};

use crate::cli::resolved::script::RecordKinds;

/// Whom a record is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordTask {
    /// A process and a thread, which the record names.
    Task(i32, i32),
    /// The one that its trailer names.
    OfTrailer,
}

/// Whom a record that is to be printed is about; `None` for one that isn't printed.
pub(super) fn shown(record: &Record<'_>, kind: u32, shown: &RecordKinds) -> Option<RecordTask> {
    let (is_shown, about) = match record {
        Record::Mmap(mmap) => (shown.maps, RecordTask::Task(mmap.pid, mmap.tid)),
        Record::Comm(comm) => (shown.tasks, RecordTask::Task(comm.pid, comm.tid)),
        Record::Fork(task) | Record::Exit(task) => {
            (shown.tasks, RecordTask::Task(task.pid, task.tid))
        }
        Record::Namespaces(namespaces) => {
            (shown.namespaces, RecordTask::Task(namespaces.pid, namespaces.tid))
        }
        Record::Cgroup(_) => (shown.cgroups, RecordTask::OfTrailer),
        Record::Switch(_) => (shown.switches, RecordTask::OfTrailer),
        Record::Lost(_) => (shown.losses, RecordTask::OfTrailer),
        Record::Ksymbol(_) | Record::BpfEvent(_) => (shown.bpf, RecordTask::OfTrailer),
        Record::TextPoke(_) => (shown.text_pokes, RecordTask::OfTrailer),
        _ => (kind == kind::FINISHED_ROUND && shown.rounds, RecordTask::OfTrailer),
    };
    is_shown.then_some(about)
}
