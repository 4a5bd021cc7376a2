//! Targets for short texts: `--control` commands, ledger notes, and names in the columns of `tare
//! stat`.

use std::hint::black_box;
use std::time::Duration;

use tare_format::control::Orders;
use tare_format::ledger::Ledger;
use tare_measure::count::{Key, Metric};
use tare_measure::stat::{Columns, Span, StatLine, Value, csv, json_lines};

use crate::strict;

/// The first byte is the number of bytes per read, which must not change the parsed commands.
pub(crate) fn control(input: &[u8]) {
    let Some((size, bytes)) = input.split_first() else { return };
    let mut orders = Orders::default();
    let in_pieces: Vec<_> =
        bytes.chunks(usize::from(*size).max(1)).flat_map(|piece| orders.push(piece)).collect();
    let at_once = Orders::default().push(bytes);
    let given = |all: Vec<Result<_, _>>| all.into_iter().filter_map(Result::ok).collect::<Vec<_>>();
    assert_eq!(given(in_pieces), given(at_once));
}

/// Reads a ledger, prints it, writes it and reads it again.
pub(crate) fn ledger(input: &[u8]) {
    let Some(ledger) = Ledger::from_note(input) else { return };
    for line in tare_render::ledger_lines(&ledger) {
        assert_eq!(strict::plain(line.as_bytes()), Ok(()), "{line:.200}");
    }
    black_box(tare_render::ledger_summary(&ledger));
    // Floating-point numbers may differ in the last bit.
    let again = Ledger::from_note(&ledger.to_note());
    let counts = |ledger: &Ledger| {
        let of_events = ledger.events.iter().map(|event| (event.samples, event.lost));
        (of_events.collect::<Vec<_>>(), ledger.losses.clone(), ledger.throttled)
    };
    assert_eq!(again.as_ref().map(counts), Some(counts(&ledger)));
}

/// The input is an 8-byte number and three to five names, separated by NULs.
pub(crate) fn stat(input: &[u8]) {
    let Some((number, rest)) = input.split_first_chunk::<8>() else { return };
    let mut names = rest.split(|byte| *byte == 0).map(String::from_utf8_lossy);
    let mut name = || names.next().unwrap_or_default().into_owned();
    // Real counts are finite and not extreme, so no figure has hundreds of digits.
    let value = f64::from_bits(u64::from_le_bytes(*number));
    let value = if value.abs() < 1e30 { value } else { 0.5 };
    let bits = number[0];
    let line = StatLine {
        key: Key::Thread(7),
        thread: Some(name()),
        locations: 1,
        event: name(),
        cgroup: (bits & 1 != 0).then(&mut name),
        unit: name(),
        scaled_unit: bits & 2 != 0,
        value: if bits & 4 == 0 { Value::Counted(value) } else { Value::NotCounted(None) },
        running_ns: u64::from_le_bytes(*number),
        running_share: 0.5,
        metric: (bits & 8 != 0).then(|| Metric {
            value,
            unit: name(),
            percent: bits & 16 != 0,
            named: None,
        }),
        repeated: false,
        spread: None,
        runs: vec![value],
    };
    let columns = Columns { metric_only: false, big_numbers: false, each_run: false, keys: true };
    let span = if bits & 32 == 0 { Span::Total } else { Span::Interval(Duration::from_millis(5)) };
    let fields = 8 + usize::from(line.cgroup.is_some()) + usize::from(bits & 32 != 0);
    let lines = [line.clone(), line];
    for separator in [",", ";", "\t", "::"] {
        let mut text = Vec::new();
        assert!(csv::write_lines(&mut text, separator, columns, span, &lines).is_ok());
        assert_eq!(strict::plain(&text), Ok(()));
        let text = String::from_utf8_lossy(&text);
        let counts: Vec<_> = text.lines().map(|line| line.split(separator).count()).collect();
        assert_eq!(counts, [fields; 2], "{text:.200}");
    }
    let mut text = Vec::new();
    assert!(json_lines::write_lines(&mut text, columns, span, &lines).is_ok());
    assert_eq!(strict::json_lines(&text), Ok(()), "{:.200}", String::from_utf8_lossy(&text));
}

pub(crate) fn orders() -> Vec<Vec<u8>> {
    vec![b"\x05enable\ndisable\n\nping\0no such\n".to_vec(), b"\xffstop\n".to_vec()]
}

/// A note with most fields of a ledger.
pub(crate) fn ledgers() -> Vec<Vec<u8>> {
    let estimate = r#"{"value":1.5,"low":1.0,"high":2.0}"#;
    let cost = format!(
        r#"{{"us":{estimate},"in_kernel":2.0,"calibrated":true,"origin":"calibration","exact":false,"source":"a host","time":1795447130}}"#
    );
    let event = format!(
        r#"{{"name":"cpu-clock","samples":9,"own":1,"in_kernel":3,"lost":2,"coverage":{{"sampled":9000,"used":9500,"is_time":true,"is_little":false,"is_highest_rate":true}},"fixed":{{"period":1000000,"hz":1000}},"counted":9600,"sample_cost":{cost}}}"#
    );
    let note = format!(
        r#"tare ledger {{"version":1,"finished":true,"recorder":{{"pid":7,"tids":[7,8],"included":true}},"follow":{{"mode":"cgroup","why":"a reason","root":9,"exec_ns":5,"members":[9,10],"tasks":2,"unseen_tasks":1,"kernel_keeps_counts":true,"left_cgroup":1,"outlived":1,"cgroup_kept":"/a","unrecordable":true}},"events":[{event}],"losses":[{{"cpu":1,"time_ns":3,"records":2}}],"gaps":[{{"cpu":1,"from_ns":2,"to_ns":4}}],"throttled":3,"recorded_ns":2000000000,"kept_ns":1000,"cost":{{"start_cpu_ns":1,"recording_cpu_ns":2,"end_cpu_ns":3,"calibration_cpu_ns":4,"wake_ups":5,"system_calls":6,"peak_memory_bytes":7,"readers":2}},"sampling":{{"samples_ns":{estimate},"recorder_ns":9,"share":{estimate},"of":"command","cpu_ns":9,"calibrated":true}},"output":{{"path":"direct","fallback":"a reason","spills":1,"record_bytes":2,"written_bytes":3,"dropped_bytes":4,"queue_high_water_bytes":5,"queue_bytes":6}},"rings":{{"number":2,"bytes":4096,"fullest_bytes":4000,"flush_interval_ms":250}},"budget":{{"asked":0.01,"spent":{estimate},"min_hz":9,"hz":99,"changes":2,"floor_ns":5}},"command":{{"user_ns":1,"system_ns":2}},"stopped":"no space","kept_binaries":{{"folder":"/b","files":1,"copied_bytes":2,"present":3,"without_id":4,"missed":5,"failed":6}},"off_cpu":{{"waits":1,"ns":2,"missing_waits":3,"missing_ns":4,"missing_copies":5,"missing_stacks":8,"short_waits":6,"short_ns":7}}}}"#
    );
    vec![note.into_bytes()]
}

pub(crate) fn names() -> Vec<Vec<u8>> {
    let number = |bits: u8| (1.5_f64.to_bits() | u64::from(bits)).to_le_bytes();
    let of = |bits, text: &[u8]| [&number(bits)[..], text].concat();
    vec![
        of(0, b"comm-7\0cycles:u\0msec\0"),
        of(9, b"a,b\0\"e\\\0c;d\0\x1b[2J\0K/sec"),
        of(0x2f, b"a::b\0:\0\t\0u\0x"),
    ]
}
