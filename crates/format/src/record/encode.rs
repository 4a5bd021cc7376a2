//! Encodes records in this machine's byte order: a recorder's own descriptions of existing
//! processes and mappings.
//!
//! The layouts are those that [`super::RawRecord::decode`] reads:
//! `include/uapi/linux/perf_event.h`, at `enum perf_event_type`.

use perf_event_open_sys::bindings::{
    PERF_RECORD_BPF_EVENT, PERF_RECORD_CGROUP, PERF_RECORD_COMM, PERF_RECORD_EXIT,
    PERF_RECORD_FORK, PERF_RECORD_KSYMBOL, PERF_RECORD_LOST, PERF_RECORD_MISC_COMM_EXEC,
    PERF_RECORD_MISC_FORK_EXEC, PERF_RECORD_MISC_KERNEL, PERF_RECORD_MISC_MMAP_BUILD_ID,
    PERF_RECORD_MISC_MMAP_DATA, PERF_RECORD_MISC_USER, PERF_RECORD_MMAP, PERF_RECORD_MMAP2,
    PERF_RECORD_NAMESPACES,
};

use super::{
    BpfEvent, Cgroup, Comm, FileId, Ksymbol, Layout, Lost, Mmap, NamespaceLink, RecordHeader,
    SampleId, Task,
};

pub use super::TooLong;

/// The most bytes that a build id has in a record.
const BUILD_ID_SIZE: usize = 20;

/// Appends records to a buffer, each with the same end.
#[derive(Clone, Debug, Default)]
pub struct Encoder {
    trailer: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder whose records end with `id`, in the layout's fields. Fields that `id`
    /// lacks are 0.
    #[must_use]
    pub fn new(layout: &Layout, id: &SampleId) -> Self {
        Self { trailer: layout.trailer(id) }
    }

    /// A thread's name.
    ///
    /// # Errors
    /// See [`TooLong`]; of all methods here.
    pub fn comm(&self, into: &mut Vec<u8>, comm: &Comm<'_>) -> Result<(), TooLong> {
        let misc = if comm.is_exec { PERF_RECORD_MISC_COMM_EXEC } else { 0 };
        self.put(into, PERF_RECORD_COMM, misc, &[&ids(comm.pid, comm.tid), &text(comm.comm)])
    }

    /// Encodes the start of a thread. `starts_empty`: it has none of its parent's mappings, like a
    /// process that existed before the recording and whose mappings follow
    /// (`PERF_RECORD_MISC_FORK_EXEC`).
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn fork(&self, into: &mut Vec<u8>, task: &Task, starts_empty: bool) -> Result<(), TooLong> {
        let misc = if starts_empty { PERF_RECORD_MISC_FORK_EXEC } else { 0 };
        self.put(into, PERF_RECORD_FORK, misc, &[&task_fields(task)])
    }

    /// A thread that ended.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn exit(&self, into: &mut Vec<u8>, task: &Task) -> Result<(), TooLong> {
        self.put(into, PERF_RECORD_EXIT, 0, &[&task_fields(task)])
    }

    /// A mapping: of the first version where it has no [`FileId`], else `MMAP2`. That of process -1
    /// is the kernel's. Of a build id the first 20 bytes are kept.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn mmap(&self, into: &mut Vec<u8>, mmap: &Mmap<'_>) -> Result<(), TooLong> {
        let mode = if mmap.pid == -1 { PERF_RECORD_MISC_KERNEL } else { PERF_RECORD_MISC_USER };
        let misc = mode | if mmap.is_data { PERF_RECORD_MISC_MMAP_DATA } else { 0 };
        let place = [mmap.start, mmap.len, mmap.pgoff].map(u64::to_ne_bytes);
        let ids = ids(mmap.pid, mmap.tid);
        let place = place.as_flattened();
        let path = text(mmap.path);
        let access = [mmap.prot, mmap.flags].map(u32::to_ne_bytes);
        match mmap.file {
            FileId::None => self.put(into, PERF_RECORD_MMAP, misc, &[&ids, place, &path]),
            FileId::Inode { major, minor, inode, generation } => {
                let device = [major, minor].map(u32::to_ne_bytes);
                let inode = [inode, generation].map(u64::to_ne_bytes);
                let body = [
                    &ids[..],
                    place,
                    device.as_flattened(),
                    inode.as_flattened(),
                    access.as_flattened(),
                    &path,
                ];
                self.put(into, PERF_RECORD_MMAP2, misc, &body)
            }
            FileId::BuildId(id) => {
                let len = id.len().min(BUILD_ID_SIZE);
                let mut field = [0; 4 + BUILD_ID_SIZE];
                // At most 20.
                field[0] = u8::try_from(len).unwrap_or(0);
                field[4..4 + len].copy_from_slice(&id[..len]);
                let body = [&ids[..], place, &field, access.as_flattened(), &path];
                self.put(into, PERF_RECORD_MMAP2, misc | PERF_RECORD_MISC_MMAP_BUILD_ID, &body)
            }
        }
    }

    /// The namespaces of a thread, in the order of the kernel's `NET_NS_INDEX` and so on.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn namespaces(
        &self,
        into: &mut Vec<u8>,
        pid: i32,
        tid: i32,
        links: &[NamespaceLink],
    ) -> Result<(), TooLong> {
        let words: Vec<u8> = links
            .iter()
            .flat_map(|link| [link.dev, link.inode])
            .flat_map(u64::to_ne_bytes)
            .collect();
        self.put(
            into,
            PERF_RECORD_NAMESPACES,
            0,
            &[&ids(pid, tid), &(links.len() as u64).to_ne_bytes(), &words],
        )
    }

    /// A cgroup's path.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn cgroup(&self, into: &mut Vec<u8>, cgroup: &Cgroup<'_>) -> Result<(), TooLong> {
        self.put(into, PERF_RECORD_CGROUP, 0, &[&cgroup.id.to_ne_bytes(), &text(cgroup.path)])
    }

    /// Kernel code that came or went.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn ksymbol(&self, into: &mut Vec<u8>, symbol: &Ksymbol<'_>) -> Result<(), TooLong> {
        let kinds = [symbol.ksym_type, symbol.flags].map(u16::to_ne_bytes);
        let body = [
            &symbol.addr.to_ne_bytes()[..],
            &symbol.len.to_ne_bytes(),
            kinds.as_flattened(),
            &text(symbol.name),
        ];
        self.put(into, PERF_RECORD_KSYMBOL, 0, &body)
    }

    /// A BPF program that was loaded or unloaded.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn bpf_event(&self, into: &mut Vec<u8>, event: &BpfEvent) -> Result<(), TooLong> {
        let kinds = [event.event_type, event.flags].map(u16::to_ne_bytes);
        self.put(
            into,
            PERF_RECORD_BPF_EVENT,
            0,
            &[kinds.as_flattened(), &event.id.to_ne_bytes(), &event.tag],
        )
    }

    /// Encodes lost records.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn lost(&self, into: &mut Vec<u8>, lost: &Lost) -> Result<(), TooLong> {
        self.put(
            into,
            PERF_RECORD_LOST,
            0,
            &[[lost.id, lost.lost].map(u64::to_ne_bytes).as_flattened()],
        )
    }

    fn put(&self, into: &mut Vec<u8>, kind: u32, misc: u32, body: &[&[u8]]) -> Result<(), TooLong> {
        // The bits of `misc` are 16.
        let misc = u16::try_from(misc).unwrap_or(0);
        let len = body.iter().map(|part| part.len()).sum::<usize>() + self.trailer.len();
        into.extend(RecordHeader::new(kind, misc, len)?.encode());
        body.iter().for_each(|part| into.extend_from_slice(part));
        into.extend(&self.trailer);
        Ok(())
    }
}

fn ids(pid: i32, tid: i32) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&pid.to_ne_bytes());
    both[4..].copy_from_slice(&tid.to_ne_bytes());
    both
}

fn task_fields(task: &Task) -> [u8; 24] {
    let mut fields = [0; 24];
    fields[..16].copy_from_slice(
        [task.pid, task.ppid, task.tid, task.ptid].map(i32::to_ne_bytes).as_flattened(),
    );
    fields[16..].copy_from_slice(&task.time_ns.to_ne_bytes());
    fields
}

/// Up to its first NUL, and filled up with at least one to a multiple of 8 bytes, as the kernel
/// does.
fn text(text: &[u8]) -> Vec<u8> {
    let mut bytes = crate::bytes::until_nul(text).to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

#[cfg(test)]
mod tests;
