//! Windows that become hours, and hours that become days.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::reading::{Key, query, random_window, sums};
use super::{
    EVENING_US, copy_folder, dying_store, files, info, read, store, table_files, texts, window,
};
use crate::schema::{FRAMES, SAMPLES, SEGMENTS};
use crate::{Figures, LabelSet, Query, SegmentBuilder, StackFrame, Store, StoreError, StoreReader};

const MINUTE_US: i64 = 60_000_000;
const HOUR_US: i64 = 60 * MINUTE_US;

/// A moment at which the evening's hour has ended, but not its day.
const HOUR_LATER_US: i64 = EVENING_US + HOUR_US + 16 * MINUTE_US;
const DAY_LATER_US: i64 = EVENING_US + 26 * HOUR_US;

fn write_windows(folder: &Path) -> BTreeMap<Key, [i64; 2]> {
    let mut random = fastrand::Rng::with_seed(3);
    let mut written = BTreeMap::new();
    for (minute, rows) in [(0, 700), (1, 5), (2, 300), (59, 3), (60, 90), (61, 200)] {
        let start_us = EVENING_US + minute * MINUTE_US;
        written.extend(random_window(folder, &mut random, start_us, rows));
    }
    written
}

fn tables(folder: &Path) -> [usize; 3] {
    ["frames", "samples", "segments"].map(|table| table_files(folder, table).len())
}

#[test]
fn hours_and_days_have_the_rows_of_their_windows_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_windows(folder.path());
    let store = store(folder.path());
    store.write_gap(&info("web-2", EVENING_US + 5 * MINUTE_US), 11).unwrap();
    let compaction = store.compact(HOUR_LATER_US).unwrap();
    assert_eq!((compaction.inputs, compaction.outputs), (5, 1));
    assert_eq!(tables(folder.path()), [3, 3, 3]);
    assert_eq!(sums(folder.path(), &Query::default()), written);

    let compaction = store.compact(DAY_LATER_US).unwrap();
    // The second hour, then both hours.
    assert_eq!((compaction.inputs, compaction.outputs), (4, 2));
    assert_eq!(tables(folder.path()), [1, 1, 1]);
    let day = &table_files(folder.path(), "samples")[0];
    assert!(day.to_str().unwrap().contains("/date=2026-11-26/hour=all/d-"), "{day:?}");
    assert_eq!(sums(folder.path(), &Query::default()), written);
    assert_eq!(
        sums(folder.path(), &query(&["service=service-2"], Some(EVENING_US), Some(EVENING_US + 1))),
        written
            .iter()
            .filter(|(key, _)| key.0.as_deref() == Some("service-2") && key.3 == EVENING_US)
            .map(|(key, sum)| (key.clone(), *sum))
            .collect()
    );

    let rows: Vec<_> = read(day).iter().map(texts).collect();
    let key = |row: &BTreeMap<String, String>| {
        let stack: i64 = row["stack_id"].parse().unwrap();
        let service = Some(row["service"].clone()).filter(|service| service != "null");
        (service, row["container"].clone(), row["event"].clone(), stack, row["window"].clone())
    };
    assert!(rows.is_sorted_by_key(key));
    let segments = read(&table_files(folder.path(), "segments")[0]);
    assert_eq!(segments.len(), 7);
    assert_eq!(store.compact(DAY_LATER_US).unwrap().inputs, 0);
}

#[test]
fn windows_of_an_hour_that_goes_on_stay() {
    let folder = tempfile::tempdir().unwrap();
    write_windows(folder.path());
    let before = files(folder.path());
    assert_eq!(store(folder.path()).compact(EVENING_US + HOUR_US).unwrap().inputs, 0);
    assert_eq!(files(folder.path()), before);
}

#[test]
fn a_late_window_joins_its_hour_and_waits_to_join_its_day() {
    let folder = tempfile::tempdir().unwrap();
    let mut written = write_windows(folder.path());
    let store = store(folder.path());
    store.compact(HOUR_LATER_US).unwrap();
    let mut random = fastrand::Rng::with_seed(4);
    let mut late =
        |minute| random_window(folder.path(), &mut random, EVENING_US + minute * MINUTE_US, 50);
    written.extend(late(7));
    assert_eq!(sums(folder.path(), &Query::default()), written);
    assert_eq!(store.compact(HOUR_LATER_US).unwrap().inputs, 2);
    store.compact(DAY_LATER_US).unwrap();
    written.extend(late(8));
    assert_eq!(store.compact(DAY_LATER_US).unwrap().inputs, 0);
    assert_eq!(tables(folder.path()), [2, 2, 2]);
    assert_eq!(sums(folder.path(), &Query::default()), written);
}

#[test]
fn a_frame_is_kept_once_and_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for (minute, name) in [(0, None), (1, Some("main")), (2, None), (3, Some("main_alias"))] {
        let mut window = SegmentBuilder::new(info("web-1", EVENING_US + minute * MINUTE_US));
        let function = name.map(|name| window.text(name));
        let frames =
            [16, 32].map(|address| StackFrame { function, address, ..StackFrame::default() });
        let stack = window.stack(&frames);
        let event = window.text("cpu-clock");
        window.add(&LabelSet::default(), event, None, stack, 1, 1);
        store(folder.path()).write(&window.finish(Figures::default())).unwrap();
    }
    store(folder.path()).compact(HOUR_LATER_US).unwrap();
    let frames: Vec<_> = read(&table_files(folder.path(), "frames")[0])
        .iter()
        .map(|row| (texts(row)["depth"].clone(), texts(row)["function"].clone()))
        .collect();
    let expected = [("0", "main"), ("1", "main")];
    assert_eq!(frames, expected.map(|(depth, name)| (depth.to_owned(), name.to_owned())));
}

/// Returns all segments as (host, start), and the stacks' frames.
fn others(folder: &Path) -> (Vec<(String, i64)>, usize) {
    let reader = StoreReader::open(folder, 1).unwrap();
    let segments = reader.segments(&Query::default(), Vec::new, |found, segment| {
        found.push((segment.host.to_owned(), segment.start_us));
    });
    let mut segments = segments.unwrap();
    segments.sort();
    let wanted = reader.scan(
        &Query::default(),
        &[crate::schema::SampleColumn::StackId],
        HashSet::new,
        |found, batch| found.extend(batch.ints(crate::schema::SampleColumn::StackId)),
    );
    let wanted: HashSet<i64> =
        wanted.unwrap().into_iter().flatten().filter(|id| *id != 0).collect();
    let stacks = reader.stacks(&Query::default(), &wanted).unwrap();
    assert_eq!(stacks.len(), wanted.len());
    (segments, wanted.iter().map(|stack| stacks.frames(*stack).len()).sum())
}

#[test]
fn a_compaction_that_dies_counts_each_row_once() {
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    for minute in 0..3 {
        store(&original).write(&window("web-1", EVENING_US + minute * MINUTE_US)).unwrap();
    }
    store(&original).write_gap(&info("web-1", EVENING_US + 5 * MINUTE_US), 11).unwrap();
    let expected = (sums(&original, &Query::default()), others(&original));
    for limit in 0.. {
        let copy = folder.path().join(format!("copy-{limit}"));
        copy_folder(&original, &copy);
        let (dying, changes) = dying_store(&copy, limit);
        let compacted = dying.map(|store| store.compact(HOUR_LATER_US));
        let seen = sums(&copy, &Query::default());
        assert_eq!(seen, expected.0, "change {limit}");
        let living = store(&copy);
        living.recover().unwrap();
        assert_eq!((sums(&copy, &Query::default()), others(&copy)), expected, "change {limit}");
        living.compact(HOUR_LATER_US).unwrap();
        assert_eq!((sums(&copy, &Query::default()), others(&copy)), expected, "change {limit}");
        assert_eq!(tables(&copy), [1, 1, 1], "change {limit}");
        fs::remove_dir_all(&copy).unwrap();
        if changes.load(Ordering::Relaxed) <= limit {
            assert!(compacted.unwrap().is_ok());
            break;
        }
    }
}

#[test]
fn readers_see_each_row_once_while_the_store_is_compacted() {
    let folder = tempfile::tempdir().unwrap();
    let written = write_windows(folder.path());
    let store = store(folder.path());
    std::thread::scope(|scope| {
        let compacting = scope.spawn(|| {
            for now_us in [HOUR_LATER_US, DAY_LATER_US] {
                store.compact(now_us).unwrap();
            }
        });
        while !compacting.is_finished() {
            assert_eq!(sums(folder.path(), &Query::default()), written);
        }
        compacting.join().unwrap();
    });
    assert_eq!(tables(folder.path()), [1, 1, 1]);
    let reader = StoreReader::open(folder.path(), 1).unwrap();
    for table in [&SAMPLES, &FRAMES, &SEGMENTS] {
        let paths = reader.paths(table, &Query::default()).unwrap();
        assert_eq!(paths, table_files(folder.path(), table.name));
    }
}

#[test]
fn one_program_at_a_time_compacts() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second]: [Store; 2] = std::array::from_fn(|_| store(folder.path()));
    let lock = first.folder().lock_rewriting().unwrap();
    assert!(matches!(second.compact(DAY_LATER_US), Err(StoreError::Locked(_))));
    drop(lock);
    second.compact(DAY_LATER_US).unwrap();
}

#[test]
fn a_damaged_file_keeps_its_own_hour_alone_from_compaction() {
    let folder = tempfile::tempdir().unwrap();
    write_windows(folder.path());
    let damaged = table_files(folder.path(), "samples").swap_remove(0);
    fs::write(&damaged, "PAR1").unwrap();
    let compacted = store(folder.path()).compact(EVENING_US + 2 * HOUR_US + 16 * MINUTE_US);
    assert!(matches!(compacted, Err(StoreError::Parquet { .. })), "{compacted:?}");
    // Four windows of the first hour, and the second hour.
    assert_eq!(tables(folder.path()), [5, 5, 5]);
}
