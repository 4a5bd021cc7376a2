//! A record's event, and its time.

use std::iter::once;

use super::*;

#[test]
fn decodes_the_trailer_of_a_record() {
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

/// For each combination of bits, the time equals that of the whole sample and of the whole trailer,
/// and the event is found.
#[test]
fn finds_id_and_time_without_decoding_the_rest() {
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
        let sample = body.record(PERF_RECORD_SAMPLE, 0);
        let other = body.record(PERF_RECORD_COMM, 0);
        let decoded = Sample::decode(&sample, &layout).unwrap();
        assert_eq!(layout.time_ns(&sample), decoded.head.time_ns, "{chosen:#x}");
        assert_eq!(layout.time_ns(&other), layout.sample_id(&other).time_ns, "{chosen:#x}");
        assert_eq!(
            (events.index_of(&sample), events.index_of(&other)),
            (Some(0), Some(0)),
            "{chosen:#x}"
        );
    }
}

#[test]
fn finds_events_by_their_ids() {
    let layout = Layout {
        sample_type: u64::from(PERF_SAMPLE_IDENTIFIER),
        sample_id_all: true,
        ..Layout::default()
    };
    let mut events = Events::default();
    events.add(layout, [10, 30]);
    events.add(layout, [20, 5]);
    let of = |kind: u32, id: u64| {
        events.index_of(&Body(Vec::new(), Endian::NATIVE).words(&[0, id]).record(kind, 0))
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
        Sample::from_record(&stray.record(PERF_RECORD_SAMPLE, 0), &events),
        Err(DecodeError::NoEvent { kind: PERF_RECORD_SAMPLE })
    );
}

/// Ids close together, far apart, and one that two events share.
#[test]
fn finds_events_by_near_and_far_ids() {
    let mut events = Events::default();
    events.add(everything(), [1000, 1002, u64::MAX]);
    events.add(everything(), [7, 1001, 1002, 1000 + (1 << 20)]);
    assert!(events.add_id(0, 2000) && !events.add_id(1, 2000) && !events.add_id(1, u64::MAX));
    let found = [1000, 1002, u64::MAX, 7, 1001, 1000 + (1 << 20), 2000, 1003, 5000, 6, 999]
        .map(|id| events.with_id(id));
    let first = Some(0);
    let second = Some(1);
    let none = [None; 4];
    assert_eq!(found[..3], [first; 3]);
    assert_eq!(found[3..7], [second, second, second, first]);
    assert_eq!(found[7..], none);
    assert_eq!(Events::default().with_id(0), None);
}

/// The kernel overstates the size of these records if several events get them.
#[test]
fn reads_trailers_where_the_fields_end() {
    let chosen = PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER;
    let layout = Layout { sample_type: chosen.into(), sample_id_all: true, ..Layout::default() };
    let mut events = Events::default();
    events.add(layout, [10]);
    events.add(layout, [20]);
    let name = u64::from_le_bytes(*b"bpf_abc\0");
    // Two old and three new bytes.
    let lengths = 2 | 3 << 16;
    for (kind, fields) in [
        (PERF_RECORD_KSYMBOL, vec![0xffff_ffff_8000_0000, 0, name]),
        (PERF_RECORD_BPF_EVENT, vec![1, 2]),
        (PERF_RECORD_TEXT_POKE, vec![0xffff_ffff_8000_0000, lengths, 0]),
    ] {
        for stale in [&[][..], &[7, u64::MAX, 99, 7]] {
            let words = [&fields[..], &[3, 4_000_000, 20], stale].concat();
            let body = Body(Vec::new(), Endian::Little).words(&words);
            let record = body.record(kind, 0);
            assert_eq!(events.index_of(&record), Some(1), "{kind}");
            assert_eq!(layout.time_ns(&record), Some(4_000_000), "{kind}");
            let id = layout.sample_id(&record);
            assert_eq!((id.time_ns, id.id), (Some(4_000_000), Some(20)), "{kind}");
        }
    }
}
