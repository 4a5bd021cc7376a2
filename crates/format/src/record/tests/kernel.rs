//! Records that the kernel writes.

use super::*;

#[test]
fn decodes_mappings() {
    both_orders(|body| {
        let body = body.u32(7).u32(8).words(&[0x1000, 0x2000, 0x30]).text(b"/bin/sh\0");
        let mmap = Mmap {
            pid: 7,
            tid: 8,
            start: 0x1000,
            len: 0x2000,
            pgoff: 0x30,
            file: FileId::None,
            prot: 0,
            flags: 0,
            path: b"/bin/sh",
            is_data: true,
        };
        check(
            &body,
            PERF_RECORD_MMAP,
            PERF_RECORD_MISC_MMAP_DATA | PERF_RECORD_MISC_USER,
            32,
            &Record::Mmap(mmap),
        );
    });
    both_orders(|body| {
        let body = body
            .u32(u32::MAX)
            .u32(8)
            .words(&[1, 2, 3])
            .u32(254)
            .u32(1)
            .words(&[77, 5])
            .u32(5)
            .u32(2)
            .text(b"/lib\0\0\0\0");
        let file = FileId::Inode { major: 254, minor: 1, inode: 77, generation: 5 };
        let mmap = Mmap {
            pid: -1,
            tid: 8,
            start: 1,
            len: 2,
            pgoff: 3,
            file,
            prot: 5,
            flags: 2,
            path: b"/lib",
            is_data: false,
        };
        check(&body, PERF_RECORD_MMAP2, 0, 64, &Record::Mmap(mmap));
    });
}

#[test]
fn decodes_mappings_with_build_ids() {
    both_orders(|body| {
        let body = body
            .u32(1)
            .u32(1)
            .words(&[1, 2, 3])
            .text(&[4, 0, 0, 0])
            .text(&[9; 20])
            .u32(5)
            .u32(2)
            .text(b"/lib\0\0\0\0");
        let Ok(Record::Mmap(mmap)) =
            body.record(PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID).decode()
        else {
            panic!()
        };
        assert_eq!((mmap.file, mmap.prot, mmap.path), (FileId::BuildId(&[9; 4]), 5, &b"/lib"[..]));
    });
    let oversized = Body(Vec::new(), Endian::Little)
        .u32(1)
        .u32(1)
        .words(&[1, 2, 3])
        .text(&[21; 24])
        .u32(5)
        .u32(2);
    assert!(
        oversized.record(PERF_RECORD_MMAP2, PERF_RECORD_MISC_MMAP_BUILD_ID).decode().is_err(),
        "a build id of 21 bytes has no room"
    );
}

#[test]
fn decodes_names_starts_and_ends_of_threads() {
    both_orders(|body| {
        let body = body.u32(3).u32(4).text(b"sh\0\0\0\0\0\0").u64(99);
        check(
            &body,
            PERF_RECORD_COMM,
            PERF_RECORD_MISC_COMM_EXEC,
            8,
            &Record::Comm(Comm { pid: 3, tid: 4, comm: b"sh", is_exec: true }),
        );
    });
    let task = Task { pid: 1, ppid: 2, tid: 3, ptid: 4, time_ns: 5 };
    both_orders(|body| {
        check(
            &body.u32(1).u32(2).u32(3).u32(4).u64(5),
            PERF_RECORD_FORK,
            0,
            24,
            &Record::Fork(task),
        );
    });
    both_orders(|body| {
        check(
            &body.u32(1).u32(2).u32(3).u32(4).u64(5),
            PERF_RECORD_EXIT,
            0,
            24,
            &Record::Exit(task),
        );
    });
}

#[test]
fn decodes_switches_and_namespaces() {
    both_orders(|body| {
        let preempted = PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT;
        let switch = Switch { is_out: true, is_preempted: true, other: Some((5, 6)) };
        check(
            &body.u32(5).u32(6),
            PERF_RECORD_SWITCH_CPU_WIDE,
            preempted,
            8,
            &Record::Switch(switch),
        );
    });
    let body = Body(Vec::new(), Endian::Little);
    let switch = Switch { is_out: false, is_preempted: false, other: None };
    assert_eq!(body.record(PERF_RECORD_SWITCH, 0).decode(), Ok(Record::Switch(switch)));
    both_orders(|body| {
        check(
            &body.u32(5).u32(6),
            PERF_RECORD_ITRACE_START,
            0,
            8,
            &Record::ItraceStart { pid: 5, tid: 6 },
        );
    });
    both_orders(|body| {
        let body = body.u32(5).u32(6).words(&[2, 10, 11, 20, 21]);
        let Ok(Record::Namespaces(namespaces)) = body.record(PERF_RECORD_NAMESPACES, 0).decode()
        else {
            panic!()
        };
        let links: Vec<_> = namespaces.links().collect();
        assert_eq!(
            links,
            [NamespaceLink { dev: 10, inode: 11 }, NamespaceLink { dev: 20, inode: 21 }]
        );
    });
}

#[test]
fn decodes_losses_and_throttling() {
    both_orders(|body| {
        check(
            &body.words(&[5, 100]),
            PERF_RECORD_LOST,
            0,
            16,
            &Record::Lost(Lost { id: 5, lost: 100 }),
        );
    });
    both_orders(|body| {
        check(&body.u64(100), PERF_RECORD_LOST_SAMPLES, 0, 8, &Record::LostSamples { lost: 100 });
    });
    let throttle = Throttle { time_ns: 1, id: 2, stream_id: 3 };
    both_orders(|body| {
        check(&body.words(&[1, 2, 3]), PERF_RECORD_THROTTLE, 0, 24, &Record::Throttle(throttle));
    });
    both_orders(|body| {
        check(
            &body.words(&[1, 2, 3]),
            PERF_RECORD_UNTHROTTLE,
            0,
            24,
            &Record::Unthrottle(throttle),
        );
    });
}

#[test]
fn decodes_records_about_aux_data() {
    both_orders(|body| {
        check(
            &body.words(&[1, 2, 3]),
            PERF_RECORD_AUX,
            0,
            24,
            &Record::Aux(Aux { offset: 1, size: 2, flags: 3 }),
        );
    });
    both_orders(|body| {
        check(
            &body.u64(7),
            PERF_RECORD_AUX_OUTPUT_HW_ID,
            0,
            8,
            &Record::AuxOutputHwId { hw_id: 7 },
        );
    });
}

#[test]
fn decodes_records_about_kernel_code() {
    both_orders(|body| {
        let body = body.u64(0xffff_0000).u32(64).u16(1).u16(1).text(b"bpf_prog");
        let symbol =
            Ksymbol { addr: 0xffff_0000, len: 64, ksym_type: 1, flags: 1, name: b"bpf_prog" };
        check(&body, PERF_RECORD_KSYMBOL, 0, 16, &Record::Ksymbol(symbol));
    });
    both_orders(|body| {
        let event = BpfEvent { event_type: 1, flags: 0, id: 9, tag: *b"12345678" };
        check(
            &body.u16(1).u16(0).u32(9).text(b"12345678"),
            PERF_RECORD_BPF_EVENT,
            0,
            16,
            &Record::BpfEvent(event),
        );
    });
    both_orders(|body| {
        check(
            &body.u64(3).text(b"/a\0\0\0\0\0\0"),
            PERF_RECORD_CGROUP,
            0,
            8,
            &Record::Cgroup(Cgroup { id: 3, path: b"/a" }),
        );
    });
    both_orders(|body| {
        let poke = TextPoke { addr: 3, old: &[1, 2], new: &[3, 4] };
        check(
            &body.u64(3).u16(2).u16(2).text(&[1, 2, 3, 4]),
            PERF_RECORD_TEXT_POKE,
            0,
            16,
            &Record::TextPoke(poke),
        );
    });
    both_orders(|body| {
        let body = body.words(&[77, 2, 10, 20]);
        let Ok(Record::CallchainDeferred { cookie: 77, callchain }) =
            body.record(PERF_RECORD_CALLCHAIN_DEFERRED, 0).decode()
        else {
            panic!()
        };
        assert_eq!(callchain.iter().collect::<Vec<_>>(), [10, 20]);
    });
}
