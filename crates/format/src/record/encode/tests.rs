use perf_event_open_sys::bindings::{
    PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_STREAM_ID,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
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

/// Encoded with every end that events can ask for, the record comes back with all its fields and
/// with that end.
#[track_caller]
fn comes_back(encode: impl Fn(&Encoder, &mut Vec<u8>) -> Result<(), TooLong>, wanted: &Record<'_>) {
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
fn threads() {
    for (comm, is_exec) in [
        (&b""[..], false),
        (b"exactly8", true),
        (b"a\n\x1b[31m\xff", false),
        (b"15 characters !", false),
    ] {
        let comm = Comm { pid: 7, tid: 8, comm, is_exec };
        comes_back(|encoder, into| encoder.comm(into, &comm), &Record::Comm(comm));
    }
    let task = Task { pid: 1, ppid: -1, tid: 3, ptid: 4, time_ns: u64::MAX };
    comes_back(|encoder, into| encoder.fork(into, &task, true), &Record::Fork(task));
    comes_back(|encoder, into| encoder.exit(into, &task), &Record::Exit(task));
    let links: Vec<_> = (0..7).map(|n| NamespaceLink { dev: n, inode: 100 + n }).collect();
    let mut bytes = Vec::new();
    Encoder::new(&full(), &ID).namespaces(&mut bytes, 5, 6, &links).unwrap();
    let record = RawRecord::first(&bytes, Endian::NATIVE).unwrap();
    let Ok(Record::Namespaces(namespaces)) = record.decode() else { panic!("{record:?}") };
    assert_eq!((namespaces.pid, namespaces.tid, namespaces.links().collect()), (5, 6, links));
    assert_eq!(full().sample_id(&record), ID);
}

#[test]
fn mappings() {
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
            comes_back(|encoder, into| encoder.mmap(into, &mmap), &Record::Mmap(mmap));
        }
    }
}

#[test]
fn the_kernels_own() {
    let symbol = Ksymbol { addr: 1, len: 2, ksym_type: 3, flags: 4, name: b"bpf_prog_1" };
    comes_back(|encoder, into| encoder.ksymbol(into, &symbol), &Record::Ksymbol(symbol));
    let event = BpfEvent { event_type: 1, flags: 0, id: 9, tag: *b"12345678" };
    comes_back(|encoder, into| encoder.bpf_event(into, &event), &Record::BpfEvent(event));
    let cgroup = Cgroup { id: 77, path: b"/a/b" };
    comes_back(|encoder, into| encoder.cgroup(into, &cgroup), &Record::Cgroup(cgroup));
    let lost = Lost { id: 1, lost: 2 };
    comes_back(|encoder, into| encoder.lost(into, &lost), &Record::Lost(lost));
}

#[test]
fn what_is_too_long_is_left_out() {
    let path = vec![b'x'; 70_000];
    let mut bytes = vec![1, 2, 3];
    let refused = Encoder::default().cgroup(&mut bytes, &Cgroup { id: 1, path: &path });
    assert!(refused.is_err_and(|error| error.size > 70_000));
    assert_eq!(bytes, [1, 2, 3], "nothing was appended");
}
