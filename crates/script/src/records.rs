//! Which records are printed besides samples, and where the task of each is found.

use tare_format::record::{Record, kind};

use crate::options::PrintedRecords;

/// Where the task of a record is found.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RecordTask {
    /// In the record itself.
    Body {
        /// The process.
        pid: i32,
        /// The thread.
        tid: i32,
    },
    /// In the sample id at the end of the record (`sample_id_all`).
    Trailer,
}

/// Returns where the task of a record is found, or `None` if the record isn't printed.
pub(crate) fn find_task(
    record: &Record<'_>,
    kind: u32,
    printed: &PrintedRecords,
) -> Option<RecordTask> {
    let (is_printed, task) = match record {
        Record::Mmap(mmap) => (printed.maps, RecordTask::Body { pid: mmap.pid, tid: mmap.tid }),
        Record::Comm(comm) => (printed.tasks, RecordTask::Body { pid: comm.pid, tid: comm.tid }),
        Record::Fork(task) | Record::Exit(task) => {
            (printed.tasks, RecordTask::Body { pid: task.pid, tid: task.tid })
        }
        Record::Namespaces(namespaces) => {
            let task = RecordTask::Body { pid: namespaces.pid, tid: namespaces.tid };
            (printed.namespaces, task)
        }
        Record::Cgroup(_) => (printed.cgroups, RecordTask::Trailer),
        Record::Switch(_) => (printed.switches, RecordTask::Trailer),
        Record::Lost(_) => (printed.losses, RecordTask::Trailer),
        Record::Ksymbol(_) | Record::BpfEvent(_) => (printed.bpf, RecordTask::Trailer),
        Record::TextPoke(_) => (printed.text_pokes, RecordTask::Trailer),
        _ => (kind == kind::FINISHED_ROUND && printed.rounds, RecordTask::Trailer),
    };
    is_printed.then_some(task)
}
