//! Encodes records in this machine's byte order: those with which a recorder describes existing
//! processes, mappings, cgroups and kernel code, and those of simulated kernels.
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

/// Maximum length of a build id in a record, in bytes.
const BUILD_ID_SIZE: usize = 20;

/// Appends records to a buffer, each with the same trailer.
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

    /// Appends a thread's name.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn comm(&self, into: &mut Vec<u8>, comm: &Comm<'_>) -> Result<(), TooLong> {
        let misc = if comm.is_exec { PERF_RECORD_MISC_COMM_EXEC } else { 0 };
        self.put(
            into,
            PERF_RECORD_COMM,
            misc,
            &[&encode_ids(comm.pid, comm.tid), &encode_text(comm.comm)],
        )
    }

    /// Appends the start of a thread. With `starts_empty` it inherits no mappings
    /// (`PERF_RECORD_MISC_FORK_EXEC`): for a process that existed before the recording, and whose
    /// mappings follow.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn fork(&self, into: &mut Vec<u8>, task: &Task, starts_empty: bool) -> Result<(), TooLong> {
        let misc = if starts_empty { PERF_RECORD_MISC_FORK_EXEC } else { 0 };
        self.put(into, PERF_RECORD_FORK, misc, &[&encode_task(task)])
    }

    /// Appends the end of a thread.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn exit(&self, into: &mut Vec<u8>, task: &Task) -> Result<(), TooLong> {
        self.put(into, PERF_RECORD_EXIT, 0, &[&encode_task(task)])
    }

    /// Appends a mapping: `MMAP` with [`FileId::None`], else `MMAP2`. With process -1 it is a
    /// mapping of the kernel. A build id is truncated to 20 bytes.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn mmap(&self, into: &mut Vec<u8>, mmap: &Mmap<'_>) -> Result<(), TooLong> {
        let mode = if mmap.pid == -1 { PERF_RECORD_MISC_KERNEL } else { PERF_RECORD_MISC_USER };
        let misc = mode | if mmap.is_data { PERF_RECORD_MISC_MMAP_DATA } else { 0 };
        let place = [mmap.start, mmap.len, mmap.pgoff].map(u64::to_ne_bytes);
        let ids = encode_ids(mmap.pid, mmap.tid);
        let place = place.as_flattened();
        let path = encode_text(mmap.path);
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

    /// Appends the namespaces of a thread, in the order of the kernel's `NET_NS_INDEX` and the
    /// indices after it.
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
            &[&encode_ids(pid, tid), &(links.len() as u64).to_ne_bytes(), &words],
        )
    }

    /// Appends a cgroup's path.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn cgroup(&self, into: &mut Vec<u8>, cgroup: &Cgroup<'_>) -> Result<(), TooLong> {
        self.put(
            into,
            PERF_RECORD_CGROUP,
            0,
            &[&cgroup.id.to_ne_bytes(), &encode_text(cgroup.path)],
        )
    }

    /// Appends the registration or removal of kernel code.
    ///
    /// # Errors
    /// See [`TooLong`].
    pub fn ksymbol(&self, into: &mut Vec<u8>, symbol: &Ksymbol<'_>) -> Result<(), TooLong> {
        let kinds = [symbol.ksym_type, symbol.flags].map(u16::to_ne_bytes);
        let body = [
            &symbol.addr.to_ne_bytes()[..],
            &symbol.len.to_ne_bytes(),
            kinds.as_flattened(),
            &encode_text(symbol.name),
        ];
        self.put(into, PERF_RECORD_KSYMBOL, 0, &body)
    }

    /// Appends the loading or unloading of a BPF program.
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

    /// Appends a number of lost records.
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
        // `misc` has 16 bits.
        let misc = u16::try_from(misc).unwrap_or(0);
        let len = body.iter().map(|part| part.len()).sum::<usize>() + self.trailer.len();
        into.extend(RecordHeader::new(kind, misc, len)?.encode());
        body.iter().for_each(|part| into.extend_from_slice(part));
        into.extend(&self.trailer);
        Ok(())
    }
}

fn encode_ids(pid: i32, tid: i32) -> [u8; 8] {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&pid.to_ne_bytes());
    both[4..].copy_from_slice(&tid.to_ne_bytes());
    both
}

fn encode_task(task: &Task) -> [u8; 24] {
    let mut fields = [0; 24];
    fields[..16].copy_from_slice(
        [task.pid, task.ppid, task.tid, task.ptid].map(i32::to_ne_bytes).as_flattened(),
    );
    fields[16..].copy_from_slice(&task.time_ns.to_ne_bytes());
    fields
}

/// Truncates text at its first NUL, and pads it with at least one NUL to a multiple of 8 bytes,
/// like the kernel.
fn encode_text(text: &[u8]) -> Vec<u8> {
    let mut bytes = crate::bytes::until_nul(text).to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use perf_event_open_sys::bindings::{
        PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,
        PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
    };

    use super::*;
    use crate::Endian;
    use crate::record::{RawRecord, Record};

    fn layout(sample_type: u32) -> Layout {
        Layout { sample_type: sample_type.into(), sample_id_all: true, ..Layout::default() }
    }

    fn full() -> Layout {
        layout(
            PERF_SAMPLE_IP
                | PERF_SAMPLE_TID
                | PERF_SAMPLE_TIME
                | PERF_SAMPLE_ID
                | PERF_SAMPLE_STREAM_ID
                | PERF_SAMPLE_CPU
                | PERF_SAMPLE_IDENTIFIER,
        )
    }

    const ID: SampleId = SampleId {
        pid: Some(1),
        tid: Some(2),
        time_ns: Some(3),
        id: Some(4),
        stream_id: Some(5),
        cpu: Some(6),
    };

    /// Asserts that a record is decoded with all of its fields and its trailer: without one, with a
    /// time alone, and with all fields.
    #[track_caller]
    fn assert_decodes(
        encode: impl Fn(&Encoder, &mut Vec<u8>) -> Result<(), TooLong>,
        wanted: &Record<'_>,
    ) {
        let time_alone = layout(PERF_SAMPLE_TIME);
        let ends = [
            (Layout::default(), SampleId::default()),
            (time_alone, SampleId { time_ns: Some(3), ..SampleId::default() }),
            (full(), ID),
        ];
        for (layout, id) in ends {
            let mut bytes = Vec::new();
            encode(&Encoder::new(&layout, &ID), &mut bytes).unwrap();
            let record = RawRecord::first(&bytes, Endian::NATIVE).unwrap();
            assert_eq!(record.size(), bytes.len());
            assert!(bytes.len().is_multiple_of(8));
            assert_eq!(record.decode().as_ref(), Ok(wanted));
            assert_eq!(layout.sample_id(&record), id);
        }
    }

    #[test]
    fn encodes_records_about_threads() {
        for (comm, is_exec) in [
            (&b""[..], false),
            (b"exactly8", true),
            (b"a\n\x1b[31m\xff", false),
            (b"15 characters !", false),
        ] {
            let comm = Comm { pid: 7, tid: 8, comm, is_exec };
            assert_decodes(|encoder, into| encoder.comm(into, &comm), &Record::Comm(comm));
        }
        let task = Task { pid: 1, ppid: -1, tid: 3, ptid: 4, time_ns: u64::MAX };
        assert_decodes(|encoder, into| encoder.fork(into, &task, true), &Record::Fork(task));
        assert_decodes(|encoder, into| encoder.exit(into, &task), &Record::Exit(task));
        let links: Vec<_> = (0..7).map(|n| NamespaceLink { dev: n, inode: 100 + n }).collect();
        let mut bytes = Vec::new();
        Encoder::new(&full(), &ID).namespaces(&mut bytes, 5, 6, &links).unwrap();
        let record = RawRecord::first(&bytes, Endian::NATIVE).unwrap();
        let Ok(Record::Namespaces(namespaces)) = record.decode() else { panic!("{record:?}") };
        assert_eq!((namespaces.pid, namespaces.tid, namespaces.links().collect()), (5, 6, links));
        assert_eq!(full().sample_id(&record), ID);
    }

    #[test]
    fn encodes_mappings() {
        let ids = [
            FileId::None,
            FileId::Inode { major: 8, minor: 1, inode: u64::MAX, generation: 3 },
            FileId::BuildId(&[9; 20]),
            FileId::BuildId(&[1]),
        ];
        for file in ids {
            let (prot, flags) = if file == FileId::None { (0, 0) } else { (5, 2) };
            for (pid, path, is_data) in [
                (-1, &b"[kernel.kallsyms]_text"[..], false),
                (3, b"/a b/\n(deleted)", false),
                (3, b"//anon", true),
            ] {
                let mmap = Mmap {
                    pid,
                    tid: 4,
                    start: 0x1000,
                    len: 0x2000,
                    pgoff: 0x3000,
                    file,
                    prot,
                    flags,
                    path,
                    is_data,
                };
                assert_decodes(|encoder, into| encoder.mmap(into, &mmap), &Record::Mmap(mmap));
            }
        }
    }

    #[test]
    fn encodes_kernel_symbols_cgroups_and_losses() {
        let symbol = Ksymbol { addr: 1, len: 2, ksym_type: 3, flags: 4, name: b"bpf_prog_1" };
        assert_decodes(|encoder, into| encoder.ksymbol(into, &symbol), &Record::Ksymbol(symbol));
        let event = BpfEvent { event_type: 1, flags: 0, id: 9, tag: *b"12345678" };
        assert_decodes(|encoder, into| encoder.bpf_event(into, &event), &Record::BpfEvent(event));
        let cgroup = Cgroup { id: 77, path: b"/a/b" };
        assert_decodes(|encoder, into| encoder.cgroup(into, &cgroup), &Record::Cgroup(cgroup));
        let lost = Lost { id: 1, lost: 2 };
        assert_decodes(|encoder, into| encoder.lost(into, &lost), &Record::Lost(lost));
    }

    #[test]
    fn refuses_records_that_are_too_long() {
        let path = vec![b'x'; 70_000];
        let mut bytes = vec![1, 2, 3];
        let refused = Encoder::default().cgroup(&mut bytes, &Cgroup { id: 1, path: &path });
        assert!(refused.is_err_and(|error| error.size > 70_000));
        assert_eq!(bytes, [1, 2, 3], "nothing was appended");
    }
}
