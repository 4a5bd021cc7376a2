//! Samples.

use super::*;

/// Returns a sample with every field.
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
fn decodes_every_field_of_a_sample() {
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
fn a_sample_is_written_again_without_its_copied_stack() {
    let body = full_sample(Body(Vec::new(), Endian::NATIVE));
    let record = body.record(PERF_RECORD_SAMPLE, 5);
    let whole = Sample::decode(&record, &everything()).unwrap();
    for keeps_registers in [false, true] {
        let parts = StackParts::find(&record, &everything(), keeps_registers).unwrap();
        let header = RecordHeader::new(PERF_RECORD_SAMPLE, 5, record.body.len()).unwrap();
        let mut bytes = Vec::new();
        parts.encode(header, &[10, 11], &mut bytes);
        let left = u64::from(PERF_SAMPLE_STACK_USER)
            | if keeps_registers { 0 } else { u64::from(PERF_SAMPLE_REGS_USER) };
        let layout = Layout { sample_type: everything().sample_type & !left, ..everything() };
        let written = RawRecord::first(&bytes, Endian::NATIVE).unwrap();
        assert_eq!((written.size(), written.misc), (bytes.len(), 5));
        let again = Sample::decode(&written, &layout).unwrap();
        assert_eq!(again.callchain.unwrap().iter().collect::<Vec<_>>(), [10, 11]);
        let expected = Sample {
            callchain: again.callchain,
            regs_user: whole.regs_user.filter(|_| keeps_registers),
            stack_user: None,
            ..whole
        };
        assert_eq!(again, expected);
    }
}

#[test]
fn a_sample_is_written_again_with_less_of_its_stack() {
    let body = full_sample(Body(Vec::new(), Endian::NATIVE));
    let record = body.record(PERF_RECORD_SAMPLE, 5);
    let whole = Sample::decode(&record, &everything()).unwrap();
    let copy = StackCopy::find(&record, &everything()).unwrap();
    let copied = whole.stack_user.unwrap().bytes;
    assert_eq!((copy.head, copy.registers, copy.bytes), (whole.head, whole.regs_user, copied));
    for most in [0, 3, copied.len(), usize::MAX] {
        let header = RecordHeader::new(PERF_RECORD_SAMPLE, 5, record.body.len()).unwrap();
        let mut bytes = Vec::new();
        copy.encode(header, most, &mut bytes);
        let written = RawRecord::first(&bytes, Endian::NATIVE).unwrap();
        assert_eq!((written.size(), written.misc), (bytes.len(), 5));
        let again = Sample::decode(&written, &everything()).unwrap();
        let left = &copied[..most.min(copied.len())];
        let room = left.len().next_multiple_of(8).max(8) as u64;
        assert_eq!(again.stack_user, Some(UserStack { bytes: left, room }));
        assert_eq!(again, Sample { stack_user: again.stack_user, ..whole });
    }
    let without = Layout { sample_type: u64::from(PERF_SAMPLE_IP), ..Layout::default() };
    assert_eq!(StackCopy::find(&record, &without), None);
}

#[test]
fn a_call_chain_is_cut_at_the_longest_record() {
    let layout = Layout {
        sample_type: u64::from(PERF_SAMPLE_CALLCHAIN | PERF_SAMPLE_STACK_USER),
        ..Layout::default()
    };
    let body = Body(Vec::new(), Endian::NATIVE).words(&[1, 61, 0]);
    let record = body.record(PERF_RECORD_SAMPLE, 0);
    let header = RecordHeader::new(PERF_RECORD_SAMPLE, 0, record.body.len()).unwrap();
    let mut bytes = Vec::new();
    StackParts::find(&record, &layout, false).unwrap().encode(header, &[7; 9000], &mut bytes);
    assert_eq!(bytes.len(), 65_528);
    let cut = RawRecord::first(&bytes, Endian::NATIVE).unwrap();
    let layout = Layout { sample_type: u64::from(PERF_SAMPLE_CALLCHAIN), ..layout };
    assert_eq!(Sample::decode(&cut, &layout).unwrap().callchain.unwrap().len(), 8189);
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
fn decodes_counts_of_an_event_without_a_group() {
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
