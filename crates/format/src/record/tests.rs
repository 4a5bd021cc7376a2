use std::iter::once;

use perf_event_open_sys::bindings::*;

use super::*;
use crate::abi::ReadFormat;

/// Bytes of a record, in one byte order.
struct Body(Vec<u8>, Endian);

impl Body {
    fn put(mut self, little: &[u8]) -> Self {
        match self.1 {
            Endian::Little => self.0.extend(little),
            Endian::Big => self.0.extend(little.iter().rev()),
        }
        self
    }

    fn u16(self, number: u16) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn u32(self, number: u32) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn u64(self, number: u64) -> Self {
        self.put(&number.to_le_bytes())
    }

    fn words(self, numbers: &[u64]) -> Self {
        numbers.iter().fold(self, |body, number| body.u64(*number))
    }

    fn text(mut self, text: &[u8]) -> Self {
        self.0.extend(text);
        self
    }

    fn record(&self, kind: u32, misc: u32) -> RawRecord<'_> {
        RawRecord { kind, misc: misc.try_into().unwrap(), body: &self.0, endian: self.1 }
    }
}

fn both_orders(check: impl Fn(Body)) {
    check(Body(Vec::new(), Endian::Little));
    check(Body(Vec::new(), Endian::Big));
}

/// The decoded record is the wanted one; with fewer than the `needed` bytes it is an error.
fn check(body: &Body, kind: u32, misc: u32, needed: usize, wanted: &Record<'_>) {
    assert_eq!(body.record(kind, misc).decode().as_ref(), Ok(wanted));
    for len in 0..body.0.len() {
        let cut = Body(body.0[..len].to_vec(), body.1);
        let decoded = cut.record(kind, misc).decode();
        let error = DecodeError::Truncated { kind, len };
        assert_eq!(decoded.err(), (len < needed).then_some(error), "{len} of {needed} bytes");
    }
}

#[test]
fn a_header_says_where_a_record_ends() {
    let bytes = [9, 0, 0, 0, 2, 0, 16, 0, 1, 2, 3, 4, 5, 6, 7, 8, 1, 0];
    let mut records = Records::new(&bytes, Endian::Little);
    let first = records.next().unwrap();
    assert_eq!(
        (first.kind, first.misc, first.size(), first.body),
        (PERF_RECORD_SAMPLE, 2, 16, &[1, 2, 3, 4, 5, 6, 7, 8][..])
    );
    assert_eq!(records.next(), None);
    assert_eq!(records.rest(), [1, 0]);
    assert_eq!(
        RawRecord::first(&[9, 0, 0, 0, 0, 0, 7, 0, 0], Endian::Little),
        None,
        "smaller than its header"
    );
    assert_eq!(
        RawRecord::first(&[0, 0, 0, 9, 0, 2, 0, 8], Endian::Big).map(|r| (r.kind, r.misc)),
        Some((9, 2))
    );
}

#[test]
fn mappings() {
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
fn threads() {
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
fn losses_and_throttling() {
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
fn kernel_code() {
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

#[test]
fn unknown_kinds_are_no_error() {
    let body = Body(vec![1, 2, 3], Endian::Little);
    for kind in [0, 63, 200, u32::MAX] {
        assert_eq!(body.record(kind, 0).decode(), Ok(Record::Unknown), "{kind}");
    }
    assert_eq!(
        (kind::name(9), kind::name(68), kind::name(200)),
        (Some("SAMPLE"), Some("FINISHED_ROUND"), None)
    );
}

#[test]
fn what_a_recorder_writes() {
    both_orders(|body| {
        let attr = crate::abi::Attr { kind: 2, config: 17, ..Default::default() };
        let native = attr.to_bytes();
        let body = if body.1 == Endian::NATIVE {
            body.text(&native)
        } else {
            body.u32(2).u32(64).u64(17).words(&[0; 6])
        };
        let body = body.words(&[100, 101]);
        let Ok(Record::HeaderAttr(event)) = body.record(kind::HEADER_ATTR, 0).decode() else {
            panic!()
        };
        assert_eq!((event.attr.kind, event.attr.config), (2, 17));
        assert_eq!(event.ids.iter().collect::<Vec<_>>(), [100, 101]);
    });
    both_orders(|body| {
        let wanted = EventUpdate { id: 5, update: Update::Name(b"cycles") };
        check(
            &body.words(&[2, 5]).text(b"cycles\0\0"),
            kind::EVENT_UPDATE,
            0,
            16,
            &Record::EventUpdate(wanted),
        );
    });
    both_orders(|body| {
        let wanted = EventUpdate { id: 5, update: Update::Scale(0.5) };
        check(
            &body.words(&[1, 5, 0.5_f64.to_bits()]),
            kind::EVENT_UPDATE,
            0,
            24,
            &Record::EventUpdate(wanted),
        );
    });
    both_orders(|body| {
        let body = body.u32(u32::MAX).text(&[7; 20]).text(&[16, 0, 0, 0]).text(b"[kernel]");
        let wanted = BuildId { pid: -1, build_id: &[7; 16], path: b"[kernel]" };
        check(
            &body,
            kind::HEADER_BUILD_ID,
            PERF_RECORD_MISC_EXT_RESERVED,
            28,
            &Record::BuildId(wanted),
        );
    });
    both_orders(|body| {
        let body = body.words(&[1, 10, 0, u64::MAX, 30]);
        let Ok(Record::IdIndex(index)) = body.record(kind::ID_INDEX, 0).decode() else { panic!() };
        assert_eq!(
            index.entries().collect::<Vec<_>>(),
            [IdIndexEntry { id: 10, ring: 0, cpu: u64::MAX, tid: 30 }]
        );
    });
    both_orders(|body| {
        let body = body.words(&[1, 42]).text(b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        let Ok(Record::ThreadMap(map)) = body.record(kind::THREAD_MAP, 0).decode() else {
            panic!()
        };
        assert_eq!(map.threads().collect::<Vec<_>>(), [(42, &b"sh"[..])]);
    });
    both_orders(|body| {
        let body = body.words(&[1, 2, 3, 4, 5]).text(&[1, 1, 0, 0, 0, 0, 0, 0]);
        let wanted = TimeConv { shift: 1, mult: 2, zero: 3, short: Some((4, 5)) };
        check(&body, kind::TIME_CONV, 0, 24, &Record::TimeConv(wanted));
    });
    both_orders(|body| {
        check(
            &body.u64(2).text(&[5, 6]),
            kind::COMPRESSED2,
            0,
            10,
            &Record::Compressed { data: &[5, 6] },
        );
    });
    both_orders(|body| {
        check(
            &body.u64(3).text(&[5]),
            kind::HEADER_FEATURE,
            0,
            8,
            &Record::HeaderFeature { feature: 3, data: &[5] },
        );
    });
}

#[test]
fn cpu_maps() {
    let cpus = |body: Body| {
        let Ok(Record::CpuMap(map)) = body.record(kind::CPU_MAP, 0).decode() else { panic!() };
        map.cpus().collect::<Vec<_>>()
    };
    both_orders(|body| assert_eq!(cpus(body.u16(0).u16(2).u16(3).u16(300)), [3, 300]));
    both_orders(|body| assert_eq!(cpus(body.u16(1).u16(2).u16(4).u32(0b101).u32(2)), [0, 2, 33]));
    both_orders(|body| {
        assert_eq!(cpus(body.u16(1).u16(1).u16(8).u32(0).u64(1 << 63 | 2)), [1, 63]);
    });
    both_orders(|body| assert_eq!(cpus(body.u16(2).u16(0).u16(4).u16(6)), [4, 5, 6]));
    let body = Body(Vec::new(), Endian::Little).u16(1).u16(1).u16(3);
    assert!(body.record(kind::CPU_MAP, 0).decode().is_err(), "words of three bytes");
}

const EVERYTHING: u32 = PERF_SAMPLE_MAX - 1 - PERF_SAMPLE_WEIGHT;

fn everything() -> Layout {
    Layout {
        sample_type: EVERYTHING.into(),
        read_format: ReadFormat::all(),
        branch_sample_type: u64::from(PERF_SAMPLE_BRANCH_HW_INDEX | PERF_SAMPLE_BRANCH_COUNTERS),
        regs_user: 0b1001,
        regs_intr: 0b10,
        sample_id_all: true,
    }
}

/// A sample with every field there is.
fn full_sample(body: Body) -> Body {
    let mispredicted_of_3_cycles =
        if body.1 == Endian::Little { 1 | 3 << 4 } else { 1 << 63 | 3 << 44 };
    let body =
        body.words(&[50, 51]).u32(52).u32(53).words(&[54, 55, 50, 57]).u32(58).u32(0).u64(59);
    let body =
        body.words(&[2, 100, 90, 7, 50, 1, 8, 60, 2]).words(&[3, 61, 62, 63]).u32(4).text(b"raw!");
    let body = body.words(&[1, 64, 65, 66, mispredicted_of_3_cycles, 67]).words(&[2, 68, 69]);
    let body = body
        .u64(8)
        .text(b"stack...")
        .u64(5)
        .words(&[70, 71, 72])
        .words(&[2, 73])
        .words(&[74, 75, 76, 77]);
    body.u64(8).text(b"auxdata.")
}

#[test]
fn every_field_of_a_sample() {
    both_orders(|body| {
        let body = full_sample(body);
        let sample = Sample::decode(&body.record(PERF_RECORD_SAMPLE, 0), &everything()).unwrap();
        assert_eq!(
            (sample.head.id, sample.head.ip, sample.head.pid, sample.head.tid),
            (Some(50), Some(51), Some(52), Some(53))
        );
        assert_eq!(
            (sample.head.time_ns, sample.head.addr, sample.head.stream_id),
            (Some(54), Some(55), Some(57))
        );
        assert_eq!((sample.head.cpu, sample.head.period), (Some(58), Some(59)));
        let read = sample.read.unwrap();
        assert_eq!((read.enabled_ns, read.running_ns), (Some(100), Some(90)));
        let value = |value, id, lost| ReadValue { value, id: Some(id), lost: Some(lost) };
        assert_eq!(read.values().collect::<Vec<_>>(), [value(7, 50, 1), value(8, 60, 2)]);
        assert_eq!(sample.callchain.unwrap().iter().collect::<Vec<_>>(), [61, 62, 63]);
        assert_eq!(sample.raw, Some(&b"raw!"[..]));
        let branches = sample.branches.unwrap();
        assert_eq!((branches.hw_index, branches.counters.unwrap().get(0)), (Some(64), Some(67)));
        let branch = branches.iter().next().unwrap();
        assert_eq!(
            (branch.from, branch.to, branch.mispredicted, branch.predicted, branch.cycles),
            (65, 66, true, false, 3)
        );
        let regs = sample.regs_user.unwrap();
        assert_eq!(
            (regs.get(0), regs.get(1), regs.get(3), regs.get(64)),
            (Some(68), None, Some(69), None)
        );
        assert_eq!(sample.stack_user, Some(UserStack { bytes: b"stack", room: 8 }));
        assert_eq!(
            (sample.weight, sample.data_src, sample.transaction),
            (Some(70), Some(71), Some(72))
        );
        assert_eq!(sample.regs_intr.unwrap().get(1), Some(73));
        assert_eq!((sample.phys_addr, sample.cgroup), (Some(74), Some(75)));
        assert_eq!((sample.data_page_size, sample.code_page_size), (Some(76), Some(77)));
        assert_eq!(sample.aux, Some(&b"auxdata."[..]));
    });
}

#[test]
fn a_sample_that_is_cut_is_an_error() {
    let whole = full_sample(Body(Vec::new(), Endian::NATIVE));
    for len in 0..whole.0.len() {
        let cut = Body(whole.0[..len].to_vec(), whole.1);
        let error = DecodeError::Truncated { kind: PERF_RECORD_SAMPLE, len };
        assert_eq!(Sample::decode(&cut.record(PERF_RECORD_SAMPLE, 0), &everything()), Err(error));
    }
}

#[test]
fn kernel_threads_have_no_user_registers_and_no_stack() {
    let layout = Layout {
        sample_type: u64::from(PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER),
        regs_user: 0xff,
        ..Layout::default()
    };
    let body = Body(Vec::new(), Endian::NATIVE).words(&[0, 0]);
    let sample = Sample::decode(&body.record(PERF_RECORD_SAMPLE, 0), &layout).unwrap();
    assert!(sample.regs_user.unwrap().values.is_empty());
    assert_eq!(sample.stack_user, Some(UserStack { bytes: b"", room: 0 }));
}

#[test]
fn counts_of_an_event_without_a_group() {
    let formats = [
        (ReadFormat::empty(), vec![7]),
        (ReadFormat::ID, vec![7, 8]),
        (ReadFormat::ID | ReadFormat::LOST, vec![7, 8, 9]),
    ];
    for (read_format, words) in formats {
        let body = Body(Vec::new(), Endian::NATIVE).u32(1).u32(2).words(&words);
        let read = TaskRead::decode(
            &body.record(PERF_RECORD_READ, 0),
            &Layout { read_format, ..Layout::default() },
        )
        .unwrap();
        let wanted = ReadValue { value: 7, id: words.get(1).copied(), lost: words.get(2).copied() };
        assert_eq!(
            (read.pid, read.tid, read.values.values().collect::<Vec<_>>()),
            (1, 2, vec![wanted])
        );
    }
    let huge_group = Body(Vec::new(), Endian::NATIVE).u32(1).u32(2).u64(u64::MAX);
    let layout = Layout { read_format: ReadFormat::GROUP | ReadFormat::ID, ..Layout::default() };
    assert!(TaskRead::decode(&huge_group.record(PERF_RECORD_READ, 0), &layout).is_err());
}

#[test]
fn records_end_with_who_when_and_where() {
    both_orders(|body| {
        let body = body.text(&[0; 16]).u32(1).u32(2).words(&[3, 4, 5]).u32(6).u32(0).u64(4);
        let record = body.record(PERF_RECORD_LOST, 0);
        let wanted = SampleId {
            pid: Some(1),
            tid: Some(2),
            time_ns: Some(3),
            id: Some(4),
            stream_id: Some(5),
            cpu: Some(6),
        };
        assert_eq!(everything().sample_id(&record), wanted);
        assert_eq!(everything().time_ns(&record), Some(3));
        let without = Layout { sample_id_all: false, ..everything() };
        assert_eq!(
            (without.sample_id(&record), without.time_ns(&record)),
            (SampleId::default(), None)
        );
        let made_up = Body(vec![0; body.0.len()], body.1);
        assert_eq!(
            everything().time_ns(&made_up.record(PERF_RECORD_LOST, 0)),
            None,
            "0 is no time"
        );
        let of_recorder = RawRecord { kind: kind::FINISHED_ROUND, ..record };
        assert_eq!(everything().time_ns(&of_recorder), None);
    });
}

/// Whatever bits are asked for, id and time are found where the whole sample and the whole trailer
/// have them.
#[test]
fn id_and_time_are_found_without_decoding_the_rest() {
    let words: Vec<u64> = (1..=20).collect();
    let body = Body(Vec::new(), Endian::NATIVE).words(&words);
    let bits = [
        PERF_SAMPLE_IP,
        PERF_SAMPLE_TID,
        PERF_SAMPLE_TIME,
        PERF_SAMPLE_ADDR,
        PERF_SAMPLE_ID,
        PERF_SAMPLE_STREAM_ID,
        PERF_SAMPLE_CPU,
    ];
    let bits: Vec<_> = bits.into_iter().chain(once(PERF_SAMPLE_IDENTIFIER)).collect();
    for choice in 0..1_u32 << bits.len() {
        let chosen: u32 =
            bits.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1).map(|(_, bit)| bit).sum();
        let layout =
            Layout { sample_type: chosen.into(), sample_id_all: true, ..Layout::default() };
        let mut events = Events::default();
        events.add(layout, 1..=20);
        events.add(layout, []);
        let (sample, other) =
            (body.record(PERF_RECORD_SAMPLE, 0), body.record(PERF_RECORD_COMM, 0));
        let decoded = Sample::decode(&sample, &layout).unwrap();
        assert_eq!(layout.time_ns(&sample), decoded.head.time_ns, "{chosen:#x}");
        assert_eq!(layout.time_ns(&other), layout.sample_id(&other).time_ns, "{chosen:#x}");
        assert_eq!((events.of(&sample), events.of(&other)), (Some(0), Some(0)), "{chosen:#x}");
    }
}

#[test]
fn events_are_found_by_their_ids() {
    let layout = Layout {
        sample_type: u64::from(PERF_SAMPLE_IDENTIFIER),
        sample_id_all: true,
        ..Layout::default()
    };
    let mut events = Events::default();
    events.add(layout, [10, 30]);
    events.add(layout, [20, 5]);
    let of = |kind: u32, id: u64| {
        events.of(&Body(Vec::new(), Endian::NATIVE).words(&[0, id]).record(kind, 0))
    };
    assert_eq!(
        (of(PERF_RECORD_COMM, 10), of(PERF_RECORD_COMM, 20), of(PERF_RECORD_COMM, 5)),
        (Some(0), Some(1), Some(1))
    );
    assert_eq!(
        (of(PERF_RECORD_COMM, 0), of(PERF_RECORD_COMM, 99), of(kind::FINISHED_ROUND, 10)),
        (Some(0), None, None)
    );
    let stray = Body(Vec::new(), Endian::NATIVE).u64(99);
    assert_eq!(
        Sample::of(&stray.record(PERF_RECORD_SAMPLE, 0), &events),
        Err(DecodeError::NoEvent { kind: PERF_RECORD_SAMPLE })
    );
}
