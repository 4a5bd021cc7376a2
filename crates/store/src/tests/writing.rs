//! What a writer leaves in the folder.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{
    EVENING_US, dying_store, files, info, read, schema, store, table_files, texts, window,
};
use crate::{
    Figures, LabelSet, MAX_TEXT_BYTES, OVERFLOW_TEXT, SegmentBuilder, SegmentInfo, SegmentLimits,
    StackFrame, StackId, Store, StoreError, StoreOptions,
};

#[test]
fn files_have_the_documented_columns() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path()).write(&window("web-1", EVENING_US)).unwrap();
    let time = "INT64 {} (TIMESTAMP(MICROS,true))";
    for (table, expected) in [("samples", SAMPLES), ("frames", FRAMES), ("segments", SEGMENTS)] {
        let columns = expected.split_whitespace().map(|column| {
            let (name, kind) = column.split_once(':').unwrap();
            let (kind, repetition) = match kind.strip_suffix('?') {
                Some(kind) => (kind, "OPTIONAL"),
                None => (kind, "REQUIRED"),
            };
            let column = match kind {
                "time" => time.replace("{}", name),
                "text" => format!("BYTE_ARRAY {name} (STRING)"),
                number => format!("{number} {name}"),
            };
            format!("  {repetition} {column};\n")
        });
        let expected = format!("message {table} {{\n{}}}\n", columns.collect::<String>());
        assert_eq!(schema(&table_files(folder.path(), table)[0]), expected);
    }
}

const SAMPLES: &str = "window:time window_us:INT64 service:text? version:text? host:text
    container:text? process:text? thread:text? unit:text? namespace:text? pod:text? owner:text?
    image:text? extra:text? event:text wait_reason:text? stack_id:INT64 function:text?
    samples:INT64 weight:INT64";
const FRAMES: &str = "stack_id:INT64 depth:INT32 function:text? file:text? line:INT32?
    module:text? build_id:text? address:INT64";
const SEGMENTS: &str = "kind:text host:text boot:text? kernel:text? agent_version:text? start:time
    end:time samples:INT64 lost:INT64 truncated:INT64 unnamed:INT64 omitted:INT64
    recorder_cpu_us:INT64 kernel_us:INT64 rate_millihertz:INT64 cpus:INT64";

#[test]
fn a_window_is_read_back_sorted_and_summed() {
    let folder = tempfile::tempdir().unwrap();
    let written = store(folder.path()).write(&window("web-1", EVENING_US)).unwrap();
    let paths = files(folder.path());
    let lengths = paths.iter().map(|path| path.metadata().unwrap().len());
    assert_eq!(lengths.sum::<u64>(), written.bytes);
    assert!(paths.iter().all(|path| path.to_str().unwrap().contains("/date=2026-11-26/")));

    let samples = table_files(folder.path(), "samples");
    assert!(samples[0].parent().unwrap().ends_with("hour=22"));
    let rows: Vec<_> = read(&samples[0]).iter().map(texts).collect();
    let column = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(column("service"), ["api", "api", "web", "web"]);
    let mut ordered: Vec<_> = rows
        .iter()
        .map(|row| (row["service"].clone(), row["stack_id"].parse::<i64>().unwrap()))
        .collect();
    ordered.sort();
    let stacks: Vec<_> = ordered.iter().map(|(_, stack)| stack.to_string()).collect();
    assert_eq!(column("stack_id"), stacks);
    let api = rows.iter().find(|row| row["function"] == "api_16").unwrap();
    assert_eq!((&*api["samples"], &*api["weight"]), ("3", "30"));
    assert_eq!((&*api["host"], &*api["version"], &*api["wait_reason"]), ("web-1", "null", "null"));
    assert_eq!(
        (&*api["window"], &*api["window_us"]),
        ("2026-11-26 22:00:00.000000 +00:00", "60000000")
    );
    let omitted = rows.iter().find(|row| row["stack_id"] == "0").unwrap();
    assert_eq!((&*omitted["function"], &*omitted["wait_reason"]), ("null", "futex"));

    let frames = read(&table_files(folder.path(), "frames")[0]);
    let depths: Vec<_> = frames.iter().map(|row| texts(row)["depth"].clone()).collect();
    assert_eq!(depths, ["0", "1", "2", "0", "1", "2"]);
    let segment = texts(&read(&table_files(folder.path(), "segments")[0])[0]);
    let figures = ["samples", "lost", "omitted", "cpus", "truncated"].map(|name| &*segment[name]);
    assert_eq!(figures, ["9", "4", "2", "2", "0"]);
    assert_eq!((&*segment["kind"], &*segment["kernel"]), ("window", "6.18.5"));
}

#[test]
fn the_same_window_isnt_written_twice() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store.write(&window("web-1", EVENING_US)).unwrap();
    let before = files(folder.path());
    let again = store.write(&window("web-1", EVENING_US));
    assert!(matches!(again, Err(StoreError::Exists(_))), "{again:?}");
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_stack_is_its_build_ids_and_offsets_and_not_its_names() {
    let mut window = SegmentBuilder::new(info("web-1", EVENING_US));
    let [name, id, path, other] =
        ["main", "8f3a", "/usr/bin/a", "/usr/bin/b"].map(|text| window.text(text));
    let bare = StackFrame { build_id: Some(id), address: 16, ..StackFrame::default() };
    let named = StackFrame { function: Some(name), line: Some(3), module: Some(path), ..bare };
    let moved = StackFrame { address: 17, ..bare };
    assert_eq!(window.stack(&[bare, moved]), window.stack(&[named, moved]));
    let without_id = |module| StackFrame { module, address: 16, ..StackFrame::default() };
    let stacks = [
        vec![bare],
        vec![bare, bare],
        vec![moved],
        vec![bare, moved],
        vec![moved, bare],
        vec![without_id(Some(path))],
        vec![without_id(Some(other))],
        // A path that reads like a build id isn't one.
        vec![without_id(Some(id))],
        vec![without_id(None)],
    ];
    let ids: std::collections::BTreeSet<_> =
        stacks.iter().map(|frames| window.stack(frames)).collect();
    assert_eq!(ids.len(), stacks.len());
    assert!(!ids.contains(&StackId::OMITTED));
}

#[test]
fn a_window_keeps_at_most_its_limits_and_counts_the_rest() {
    let limits = SegmentLimits { stacks: 2, frames: 100, text_bytes: 100 };
    let mut window = SegmentBuilder::with_limits(info("web-1", EVENING_US), limits);
    let event = window.text("cpu-clock");
    for address in 0..5 {
        let stack = window.stack(&[StackFrame { address, ..StackFrame::default() }]);
        window.add(&LabelSet::default(), event, None, stack, 1, 1);
    }
    let names: std::collections::BTreeSet<_> =
        (0..100).map(|number| window.text(&format!("function_{number}"))).collect();
    assert_eq!(window.text("cpu-clock"), event);
    assert!(names.contains(&window.text(OVERFLOW_TEXT)) && names.len() < 12);
    assert_eq!((window.rows(), window.samples()), (3, 5));

    let folder = tempfile::tempdir().unwrap();
    store(folder.path()).write(&window.finish(Figures::default())).unwrap();
    let segment = texts(&read(&table_files(folder.path(), "segments")[0])[0]);
    assert_eq!(segment["omitted"], "3");
}

#[test]
fn hostile_labels_stay_inside_the_store() {
    let outer = tempfile::tempdir().unwrap();
    let folder = outer.path().join("store");
    let store = store(&folder);
    let long = "ä".repeat(2048);
    let hostile =
        ["../../../x", "/date=2020-01-01/hour=00/y", "a\nb\r", "nul\0nul", "", "\u{1b}[2J", &long];
    let mut expected = Vec::new();
    for (at, text) in hostile.iter().enumerate() {
        let start_us = EVENING_US + i64::try_from(at).unwrap() * 60_000_000;
        let mut window =
            SegmentBuilder::new(SegmentInfo { boot: (*text).to_owned(), ..info(text, start_us) });
        let event = window.text(text);
        let id = Some(event);
        let extra = window.extra(&[("b", text), (text, "a"), ("b", "again")]);
        let labels = LabelSet {
            service: id,
            container: id,
            pod: id,
            thread: id,
            extra,
            ..LabelSet::default()
        };
        let stack =
            window.stack(&[StackFrame { function: id, module: id, ..StackFrame::default() }]);
        window.add(&labels, event, id, stack, 1, 1);
        store.write(&window.finish(Figures::default())).unwrap();
        let kept = &text[..text.len().min(MAX_TEXT_BYTES)];
        expected.push(kept.to_owned());
    }
    let mut found = Vec::new();
    for path in table_files(&folder, "samples") {
        let row = &read(&path)[0];
        let row = texts(row);
        assert_eq!((&row["service"], &row["pod"]), (&row["container"], &row["function"]));
        let extra: BTreeMap<String, String> = serde_json::from_str(&row["extra"]).unwrap();
        assert!(extra.contains_key("b") && extra["b"].len() <= MAX_TEXT_BYTES, "{extra:?}");
        found.push(row["service"].clone());
    }
    expected.sort();
    found.sort();
    assert_eq!(found, expected);
    assert_eq!(files(&folder).len(), 3 * hostile.len());
    let outside: Vec<_> = fs::read_dir(outer.path()).unwrap().collect();
    assert_eq!(outside.len(), 1, "{outside:?}");
}

#[test]
fn bytes_that_are_not_utf8_become_replacement_characters() {
    let mut window = SegmentBuilder::new(info("web-1", EVENING_US));
    assert_eq!(window.text_lossy(b"a\xffb"), window.text("a\u{fffd}b"));
}

#[test]
fn windows_with_impossible_times_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for [start_us, end_us] in [[-1, 5], [5, 4], [0, i64::MAX], [i64::MIN, i64::MAX]] {
        let window = SegmentBuilder::new(SegmentInfo { start_us, end_us, ..info("web-1", 0) });
        let result = store(folder.path()).write(&window.finish(Figures::default()));
        assert!(matches!(result, Err(StoreError::Window { .. })), "{result:?}");
    }
    assert_eq!(files(folder.path()), Vec::<PathBuf>::new());
}

#[test]
fn an_empty_window_and_a_gap_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    store
        .write(&SegmentBuilder::new(info("web-1", EVENING_US)).finish(Figures::default()))
        .unwrap();
    assert_eq!(read(&table_files(folder.path(), "samples")[0]).len(), 0);
    store.write_gap(&info("web-1", EVENING_US + 60_000_000), 17).unwrap();
    let segments = table_files(folder.path(), "segments");
    assert_eq!((segments.len(), files(folder.path()).len()), (2, 4));
    let gap = segments.iter().map(|path| texts(&read(path)[0])).find(|row| row["kind"] == "gap");
    assert_eq!(gap.unwrap()["samples"], "17");
}

#[test]
fn others_may_not_read_unless_an_option_lets_the_group() {
    for (group_reads, file_mode, folder_mode) in [(false, 0o600, 0o700), (true, 0o640, 0o750)] {
        let outer = tempfile::tempdir().unwrap();
        let folder = outer.path().join("store");
        let store = Store::open(&folder, StoreOptions { group_reads }).unwrap();
        store.write(&window("web-1", EVENING_US)).unwrap();
        for path in files(&folder) {
            let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
            // The umask of the test may take rights away.
            assert_eq!(mode(&path) & !file_mode, 0);
            assert_eq!(mode(path.parent().unwrap()) & !folder_mode, 0);
            assert_eq!(mode(&path) & 0o600, 0o600);
        }
    }
}

#[test]
fn a_writer_that_dies_leaves_a_whole_segment_or_none() {
    let mut whole = 0;
    for limit in 0.. {
        let folder = tempfile::tempdir().unwrap();
        store(folder.path()).write(&window("web-1", EVENING_US - 60_000_000)).unwrap();
        let (dying, changes) = dying_store(folder.path(), limit);
        let written = dying.is_some_and(|store| store.write(&window("web-1", EVENING_US)).is_ok());
        let living = store(folder.path());
        let recovery = living.recover().unwrap();
        assert!(recovery.is_complete);
        let tables = ["frames", "samples", "segments"];
        let counts = tables.map(|table| table_files(folder.path(), table).len());
        assert!(counts == [1; 3] || counts == [2; 3], "change {limit}: {counts:?}");
        for path in files(folder.path()) {
            read(&path);
        }
        let is_whole = counts == [2; 3];
        assert!(is_whole || !written);
        whole += usize::from(is_whole);
        assert_eq!(living.recover().unwrap().removed, 0);
        let again = living.write(&window("web-1", EVENING_US));
        assert_eq!(again.is_err(), is_whole);
        if changes.load(Ordering::Relaxed) <= limit {
            assert!(written);
            break;
        }
    }
    // After the rename of the samples come a sync, the rename of the segments and a sync.
    assert_eq!(whole, 4);
}

#[test]
fn recovery_leaves_files_of_a_living_writer_alone() {
    let folder = tempfile::tempdir().unwrap();
    let living = store(folder.path());
    let _writing = living.share().unwrap();
    let recovery = store(folder.path()).recover().unwrap();
    assert!(!recovery.is_complete);
}

/// Has a child process write windows until it is killed.
const WRITE_UNTIL_KILLED: &str = "TARE_TEST_WRITE_UNTIL_KILLED";

#[test]
fn child_that_writes_until_killed() {
    let Ok(folder) = std::env::var(WRITE_UNTIL_KILLED) else { return };
    let host = format!("host-{}", std::process::id());
    // More than a child writes before it is killed.
    for minute in 0..1000 {
        let start_us = EVENING_US + minute * 60_000_000;
        store(Path::new(&folder)).write(&window(&host, start_us)).unwrap();
    }
}

#[test]
fn killed_writers_leave_whole_segments() {
    let folder = tempfile::tempdir().unwrap();
    let count = || table_files(folder.path(), "segments").len();
    store(folder.path()).write(&window("host", EVENING_US)).unwrap();
    for wanted in 0..12 {
        let before = count();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::writing::child_that_writes_until_killed"])
            .env(WRITE_UNTIL_KILLED, folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while count() < before + wanted && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(store(folder.path()).recover().unwrap().is_complete);
        let counts = ["frames", "samples"].map(|table| table_files(folder.path(), table).len());
        assert_eq!(counts, [count(); 2]);
        let paths = files(folder.path());
        assert_eq!(paths.len(), 3 * count());
        for path in paths {
            read(&path);
        }
    }
}
