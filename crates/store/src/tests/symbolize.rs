//! Names that come later.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::Ordering;

use super::{EVENING_US, dying_store, files, info, read, store, table_files, texts};
use crate::{
    Figures, FrameName, LabelSet, SegmentBuilder, StackFrame, Store, StoreError, Symbolization,
    UnnamedFrame,
};

const MINUTE_US: i64 = 60_000_000;

/// Writes windows with one named and two unnamed frames, of which one has no build id.
fn write(folder: &Path, windows: i64) {
    for minute in 0..windows {
        let mut window = SegmentBuilder::new(info("web-1", EVENING_US + minute * MINUTE_US));
        let [event, name, build_id, module] =
            ["cpu-clock", "main", "8f3a", "/usr/bin/api"].map(|text| window.text(text));
        let unnamed = StackFrame { build_id: Some(build_id), address: 16, ..StackFrame::default() };
        let bare = StackFrame { module: Some(module), address: 32, ..StackFrame::default() };
        let named = StackFrame { function: Some(name), address: 48, ..unnamed };
        for frames in [[unnamed, bare, named], [named, unnamed, bare], [bare, bare, named]] {
            let stack = window.stack(&frames);
            window.add(&LabelSet::default(), event, None, stack, 1, 10);
        }
        store(folder).write(&window.finish(Figures::default())).unwrap();
    }
}

fn name(frame: &UnnamedFrame<'_>) -> Option<FrameName> {
    let function = format!("function_{}", frame.address);
    let line = Some(7);
    (frame.build_id == Some("8f3a")).then(|| FrameName { function, line, ..FrameName::default() })
}

fn functions(folder: &Path, table: &str) -> BTreeSet<(String, String)> {
    let rows = table_files(folder, table).into_iter().flat_map(|path| read(&path));
    let function = |row| {
        let row = texts(&row);
        let place = row.get("depth").or(row.get("window")).unwrap().clone();
        (place, row["function"].clone())
    };
    rows.map(function).collect()
}

fn set(pairs: &[(&str, &str)]) -> BTreeSet<(String, String)> {
    pairs.iter().map(|(place, name)| ((*place).to_owned(), (*name).to_owned())).collect()
}

#[test]
fn names_reach_frames_and_innermost_functions() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), 2);
    let store = store(folder.path());
    let mut asked = Vec::new();
    let symbolized = store.symbolize(|frame| {
        asked.push(frame.address);
        name(frame)
    });
    let expected = Symbolization { segments: 2, frames: 4, rows: 2, samples: 2, unnamed: 8 };
    assert_eq!(symbolized.unwrap(), expected);
    asked.sort_unstable();
    assert_eq!(asked, [16, 32]);
    assert_eq!(files(folder.path()).len(), 6);
    let [first, second] = [0, 1].map(|minute| format!("2026-11-26 22:0{minute}:00.000000 +00:00"));
    let mut expected = Vec::new();
    for window in [&*first, &*second] {
        expected.extend(["function_16", "main", "null"].map(|name| (window, name)));
    }
    assert_eq!(functions(folder.path(), "samples"), set(&expected));
    let frames = functions(folder.path(), "frames");
    assert!(frames.is_superset(&set(&[("0", "function_16"), ("1", "function_16"), ("2", "main")])));
    assert!(frames.contains(&("2".to_owned(), "null".to_owned())));

    let again = store.symbolize(name).unwrap();
    assert_eq!(again, Symbolization { unnamed: 8, ..Symbolization::default() });
    store.compact(EVENING_US + 76 * MINUTE_US).unwrap();
    assert_eq!(functions(folder.path(), "samples"), set(&expected));
    assert_eq!(store.symbolize(|_| Some(FrameName::default())).unwrap().unnamed, 0);
}

fn count_rows(folder: &Path) -> u64 {
    let reader = crate::StoreReader::open(folder, 1).unwrap();
    let count = reader.scan(
        &crate::Query::default(),
        &[],
        || 0,
        |count, batch| {
            *count += batch.rows() as u64;
        },
    );
    count.unwrap().iter().sum()
}

#[test]
fn a_program_that_dies_while_it_names_counts_each_row_once() {
    for limit in 0.. {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), 1);
        let (dying, changes) = dying_store(folder.path(), limit);
        let symbolized = dying.map(|store| store.symbolize(name));
        assert_eq!(count_rows(folder.path()), 3, "change {limit}");
        let living = store(folder.path());
        living.recover().unwrap();
        assert_eq!(count_rows(folder.path()), 3, "change {limit}");
        living.symbolize(name).unwrap();
        assert_eq!(count_rows(folder.path()), 3, "change {limit}");
        assert_eq!(files(folder.path()).len(), 3, "change {limit}");
        assert_eq!(functions(folder.path(), "samples").len(), 3, "change {limit}");
        if changes.load(Ordering::Relaxed) <= limit {
            assert!(symbolized.unwrap().is_ok());
            break;
        }
    }
}

#[test]
fn one_program_at_a_time_names() {
    let folder = tempfile::tempdir().unwrap();
    let [first, second]: [Store; 2] = std::array::from_fn(|_| store(folder.path()));
    let _lock = first.folder().lock_rewriting().unwrap();
    assert!(matches!(second.symbolize(name), Err(StoreError::Locked(_))));
}
