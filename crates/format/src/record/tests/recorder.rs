//! Records that a recorder writes.

use super::*;

#[test]
fn decodes_events_and_their_updates() {
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
}

#[test]
fn decodes_build_ids_counters_and_threads() {
    both_orders(|body| {
        let body = body.u32(u32::MAX).text(&[7; 20]).text(&[16, 0, 0, 0]).text(b"[kernel]");
        let wanted = BuildId { pid: -1, is_kernel: true, build_id: &[7; 16], path: b"[kernel]" };
        check(
            &body,
            kind::HEADER_BUILD_ID,
            PERF_RECORD_MISC_EXT_RESERVED | PERF_RECORD_MISC_KERNEL,
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
}

#[test]
fn decodes_clocks_features_and_compressed_data() {
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
fn decodes_cpu_maps() {
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

#[test]
fn decodes_counts_over_time() {
    both_orders(|body| {
        let config = StatConfig { aggregation: Some(3), interval_ms: Some(100), is_scaled: None };
        let body = body.words(&[3, 0, 3, 1, 100, 9, 9]);
        check(&body, kind::STAT_CONFIG, 0, 56, &Record::StatConfig(config));
    });
    both_orders(|body| {
        let body = body.u64(7).u32(1).u32(2).words(&[100, 50, 25]);
        let stat = Stat { id: 7, cpu: 1, thread: 2, value: 100, enabled_ns: 50, running_ns: 25 };
        check(&body, kind::STAT, 0, 40, &Record::Stat(stat));
    });
    both_orders(|body| {
        let round = StatRound { is_final: true, time_ns: 99 };
        check(&body.words(&[1, 99]), kind::STAT_ROUND, 0, 16, &Record::StatRound(round));
    });
}

#[test]
fn decodes_records_for_decoders_of_aux_data() {
    both_orders(|body| {
        let body = body.u32(1).u32(0).words(&[5, 6]);
        let Ok(Record::AuxtraceInfo(info)) = body.record(kind::AUXTRACE_INFO, 0).decode() else {
            panic!()
        };
        assert_eq!((info.name(), info.private.get(1)), (Some("Intel PT"), Some(6)));
        assert_eq!(AuxtraceInfo { kind: 0, ..info }.name(), None);
        assert_eq!(AuxtraceInfo { kind: 100, ..info }.name(), None);
    });
    both_orders(|body| {
        let body = body.words(&[4096, 8, 9]).u32(2).u32(3).u32(u32::MAX);
        let wanted = Auxtrace { size: 4096, offset: 8, reference: 9, idx: 2, tid: 3, cpu: -1 };
        check(&body, kind::AUXTRACE, 0, 36, &Record::Auxtrace(wanted));
    });
    both_orders(|body| {
        let numbers = [1_u32, 2, 3, 4, 5, 1];
        let body = numbers.iter().fold(body, |body, number| body.u32(*number)).words(&[6, 7]);
        let wanted = AuxtraceError {
            kind: 1,
            code: 2,
            cpu: 3,
            pid: 4,
            tid: 5,
            ip: 6,
            time_ns: Some(7),
            message: b"no trace",
        };
        let body = body.text(b"no trace");
        assert_eq!(
            body.record(kind::AUXTRACE_ERROR, 0).decode(),
            Ok(Record::AuxtraceError(wanted))
        );
    });
}
