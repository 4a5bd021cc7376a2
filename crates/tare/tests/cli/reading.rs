//! `tare report` and `tare script` on recordings of several kinds, compared with perf where perf
//! can read them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::{is_root, stderr, tare};

/// `tare COMMAND -i FILE ARGS`
fn read(command: &str, file: &Path, args: &[&str]) -> Output {
    run(tare().arg(command).arg("-i").arg(file).args(args))
}

fn perf(args: &[&str]) -> Output {
    run(Command::new("perf").args(args))
}

fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().expect("the command is there")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Rows of a table with single spaces, sorted.
fn rows(table: &str) -> Vec<String> {
    let lines = table.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    let mut rows: Vec<_> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    rows.sort();
    rows
}

/// Records with perf into a temporary folder. If perf can't, prints the reason and returns `None`.
fn recorded(options: &[&str], command: &str) -> Option<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("perf.data");
    let path = file.to_str().unwrap();
    let fixed = ["record", "--no-bpf-event", "-q", "-o", path];
    let made = perf(&[&fixed[..], options, &["--", "sh", "-c", command]].concat());
    if !made.status.success() {
        println!("skipped: perf record {options:?}: {}", stderr(&made));
        return None;
    }
    Some((folder, file))
}

const LOOP: &str = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done; date >/dev/null";

#[test]
fn members_of_a_group_have_their_tables_without_columns_of_code() {
    let Some((_folder, file)) = recorded(&["-e", "{cpu-clock,page-faults}:S"], LOOP) else {
        return;
    };
    let titles = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| line.starts_with("# Samples"));
        lines.map(|line| line.rsplit(' ').next().unwrap().to_owned()).collect()
    };
    let by_code = titles(&stdout(&read("report", &file, &[])));
    assert_eq!(by_code.len(), 2, "{by_code:?}");
    assert_eq!(titles(&stdout(&read("report", &file, &["--sort", "comm"]))), by_code);
    let json = stdout(&read("report", &file, &["--sort", "comm", "--json"]));
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(document["events"].as_array().unwrap().len(), 2);
    let path = file.to_str().unwrap();
    let args = ["report", "--stdio", "--stats", "-i", path];
    assert_eq!(rows(&stdout(&read("report", &file, &["--stats"]))), rows(&stdout(&perf(&args))));
}

#[test]
fn tracepoints_are_told_apart_by_their_fields_as_in_perf() {
    let events = ["-e", "sched:sched_process_exec", "-e", "sched:sched_process_fork"];
    let Some((_folder, file)) = recorded(&events, "/bin/true; /bin/date >/dev/null") else {
        return;
    };
    let path = file.to_str().unwrap();
    for args in
        [&[][..], &["-s", "trace"], &["-F", "sample,trace"], &["--raw-trace", "-s", "trace"]]
    {
        let theirs = perf(&[&["report", "--stdio", "-i", path], args].concat());
        let ours = stdout(&read("report", &file, args));
        assert_eq!(rows(&ours), rows(&stdout(&theirs)), "{args:?}");
        assert!(ours.contains("Trace output") && ours.contains("filename=/bin/true"), "{ours}");
    }
    let json = stdout(&read("report", &file, &["--json"]));
    let document: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert!(document["events"][0]["entries"][0]["trace"].is_string(), "{json}");
}

#[test]
fn a_recording_of_counts_is_refused_with_the_command_that_reads_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("stat.data");
    let path = file.to_str().unwrap();
    let made = perf(&["stat", "record", "-o", path, "true"]);
    if !made.status.success() {
        return println!("skipped: perf stat record: {}", stderr(&made));
    }
    for command in ["report", "script"] {
        let output = read(command, &file, &[]);
        assert_eq!(output.status.code(), Some(1), "{command}: {}", stderr(&output));
        assert!(stderr(&output).contains("perf stat report"), "{}", stderr(&output));
    }
}

#[test]
fn folders_of_perf_record_threads_are_read() {
    if !is_root() {
        return println!("skipped: whole machines need root");
    }
    let options = ["--threads", "-e", "cpu-clock", "-F", "999", "-a"];
    let Some((folder, file)) = recorded(&options, LOOP) else { return };
    if !file.is_dir() {
        return println!("skipped: this perf writes a file under --threads");
    }
    let path = file.to_str().unwrap();
    let fields = ["-F", "comm,tid,cpu,time,event,ip"];
    let sorted = |output: &Output| {
        let text = stdout(output);
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let ours = read("script", &file, &fields);
    let theirs = perf(&[&["script", "-i", path][..], &fields].concat());
    assert_eq!(sorted(&ours), sorted(&theirs));
    assert!(!stderr(&ours).contains("too late"), "{}", stderr(&ours));
    // perf truncates names that are longer than those it knew when it chose the column's width.
    let args = ["report", "--stdio", "--sort", "comm", "-w", "0,16", "-i", path];
    let by_comm = stdout(&read("report", &file, &["--sort", "comm"]));
    assert_eq!(rows(&by_comm), rows(&stdout(&perf(&args))));
    let other = folder.path().join("other");
    std::fs::create_dir(&other).unwrap();
    let refused = read("report", &other, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("a folder without a recording"), "{}", stderr(&refused));
}

#[test]
fn samples_of_overwritten_rings_come_in_order_and_none_is_late() {
    if !is_root() {
        return println!("skipped: whole machines need root");
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("overwritten.data");
    let options =
        ["record", "-q", "--overwrite", "-a", "-m", "16", "-F", "5000", "-e", "cpu-clock"];
    let work = "for k in 1 2 3; do (i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done) & done; wait";
    let made = run(tare().args(options).arg("-o").arg(&file).args(["--", "sh", "-c", work]));
    assert!(made.status.success(), "{}", stderr(&made));
    let output = read("script", &file, &["-F", "time", "--ns"]);
    let text = stdout(&output);
    let times: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert!(times.len() > 100 && times.is_sorted(), "{} lines", times.len());
    assert!(!stderr(&output).contains("too late"), "{}", stderr(&output));
}

#[test]
fn rows_are_sorted_by_what_is_shown() {
    let Some((_folder, file)) = recorded(&["-g", "-e", "cpu-clock", "-F", "1999"], LOOP) else {
        return;
    };
    let text = stdout(&read("report", &file, &["-g", "none", "-F", "overhead,sym"]));
    let shares: Vec<f64> = text
        .lines()
        .filter(|line| !line.starts_with('#') && line.contains('%'))
        .map(|line| line.trim_start().split('%').next().unwrap().parse().unwrap())
        .collect();
    assert!(shares.len() > 3 && shares.is_sorted_by(|left, right| left >= right), "{text}");
    let args = ["-g", "none", "--sort", "sym", "-F", "overhead,sym"];
    let text = stdout(&read("report", &file, &args));
    let names = |text: &str| -> Vec<String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && line.contains("] "));
        lines
            .map(|line| line.rsplit_once("] ").unwrap().1.trim_end().to_owned())
            .filter(|name| !name.starts_with("0x") && !name.starts_with('0'))
            .collect()
    };
    assert!(names(&text).len() > 3 && names(&text).is_sorted(), "{text}");
}

#[test]
fn inverted_graphs_begin_with_the_callers_as_in_perf() {
    let Some((_folder, file)) = recorded(&["-g", "-e", "cpu-clock:k", "-F", "1999"], LOOP) else {
        return;
    };
    let inverted = stdout(&read("report", &file, &["--no-children", "-G"]));
    assert!(inverted.contains("---"), "{inverted}");
    assert_eq!(inverted, stdout(&read("report", &file, &["--no-children", "-g", "caller"])));
    let plain = stdout(&read("report", &file, &["--no-children", "--no-call-graph"]));
    assert!(!plain.contains("---"), "{plain}");
}

mod made {
    //! Streams built record by record.

    use tare_format::abi::{Attr, Flags, Sampling};
    use tare_format::file::note;
    use tare_format::file::writer::{Description, EventDescription};
    use tare_format::ledger::{Follow, FollowMode, Ledger};
    use tare_format::record::encode::Encoder;
    use tare_format::record::{Comm, Layout, RecordHeader, Records, SampleId, Task, kind};

    /// IP, TID, TIME.
    const SAMPLE_TYPE: u64 = 7;

    pub(super) fn attr() -> Attr {
        Attr {
            sampling: Sampling::Period(1),
            sample_type: SAMPLE_TYPE,
            flags: Flags::SAMPLE_ID_ALL | Flags::COMM | Flags::TASK,
            ..Attr::default()
        }
    }

    /// The start of a stream with an unnamed event.
    pub(super) fn beginning() -> Vec<u8> {
        let event = EventDescription { attr: attr(), ids: vec![1], name: "unnamed".into() };
        let description = Description { events: vec![event], ..Description::default() };
        let bytes = description.stream_beginning().unwrap();
        let mut stream = [&b"PERFILE2"[..], &16_u64.to_ne_bytes()].concat();
        for raw in Records::new(&bytes[16..], tare_format::Endian::Little) {
            if raw.kind != kind::EVENT_UPDATE && raw.kind != kind::HEADER_FEATURE {
                stream.extend(record(raw.kind, raw.misc, raw.body));
            }
        }
        stream
    }

    pub(super) fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(RecordHeader::SIZE + body.len()).unwrap();
        [&RecordHeader { kind, misc, size }.encode()[..], body].concat()
    }

    pub(super) fn sample(tid: i32, time_ns: u64) -> Vec<u8> {
        let tid = u64::from(tid.cast_unsigned());
        let words = [0x1000, tid | tid << 32, time_ns];
        let body: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        record(kind::PERF_RECORD_SAMPLE, 2, &body)
    }

    /// A command followed by events on whole CPUs. `count` processes, each forked by the one
    /// before, have one sample each. One more sample is of another process.
    pub(super) fn generations(count: i32) -> Vec<u8> {
        let follow =
            Follow { mode: FollowMode::System, root: 10, tasks: None, ..Follow::default() };
        let ledger = Ledger { follow: Some(follow), ..Ledger::default() };
        let mut stream = beginning();
        stream.extend(note::encode(&ledger.to_note()).unwrap());
        let at = |time_ns| {
            let id = SampleId { time_ns: Some(time_ns), ..SampleId::default() };
            Encoder::new(&Layout::from(&attr()), &id)
        };
        let comm = Comm { pid: 10, tid: 10, comm: b"first", is_exec: true };
        at(1).comm(&mut stream, &comm).unwrap();
        for tid in 11..11 + count {
            let time_ns = u64::from(tid.cast_unsigned()) * 10;
            let task = Task { pid: tid, ppid: tid - 1, tid, ptid: tid - 1, time_ns };
            at(time_ns).fork(&mut stream, &task, false).unwrap();
            stream.extend(sample(tid, time_ns + 1));
        }
        stream.extend(sample(9, 5));
        stream
    }
}

#[test]
fn samples_of_any_generation_of_forks_are_the_commands() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("forks.data");
    std::fs::write(&file, made::generations(6000)).unwrap();
    for args in [&["--sort", "comm"][..], &["--sort", "comm,sym"]] {
        let args = [args, &["--json"]].concat();
        let text = stdout(&read("report", &file, &args));
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let event = &document["events"][0];
        assert_eq!(event["samples"], 6000, "{args:?}");
        assert_eq!(document["loss"]["outside_samples_left_out"], 1, "{args:?}");
    }
    let lines = stdout(&read("script", &file, &["-F", "comm,tid"]));
    assert_eq!(lines.lines().filter(|line| line.trim_start().starts_with("first")).count(), 6000);
}

#[test]
fn events_without_a_name_are_called_as_by_perf_and_aux_data_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("aux.data");
    let mut stream = made::beginning();
    stream.extend(made::sample(7, 10));
    let aux: Vec<u8> = [64_u64, 0, 0, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    stream.extend(made::record(tare_format::record::kind::AUXTRACE, 0, &aux));
    stream.extend([9; 64]);
    stream.extend(made::sample(7, 20));
    std::fs::write(&file, stream).unwrap();
    for sort in ["comm", "comm,sym"] {
        let text = stdout(&read("report", &file, &["--sort", sort]));
        assert!(text.contains("# Samples: 2 of event 'cycles"), "{text}");
        assert!(text.contains("# 64 bytes of AUX data"), "{text}");
    }
    let script = read("script", &file, &[]);
    assert!(stdout(&script).contains("cycles"), "{}", stdout(&script));
    assert!(stderr(&script).contains("64 bytes of AUX data"), "{}", stderr(&script));
}
