//! Age and size.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::{EVENING_US, dying_store, files, info, store, table_files, window};
use crate::{Removal, StoreError, StoreLimits};

const MINUTE_US: i64 = 60_000_000;

fn starts(folder: &std::path::Path) -> Vec<i64> {
    let names = table_files(folder, "samples");
    let starts = names.iter().map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        (name.split('-').nth(1).unwrap().parse::<i64>().unwrap() - EVENING_US) / MINUTE_US
    });
    starts.collect()
}

#[test]
fn windows_beyond_the_age_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for minute in [0, 1, 90, 24 * 60] {
        store.write(&window("web-1", EVENING_US + minute * MINUTE_US)).unwrap();
    }
    store.write_gap(&info("web-1", EVENING_US + 2 * MINUTE_US), 5).unwrap();
    let limits =
        StoreLimits { max_age: Some(Duration::from_secs(60 * 60)), ..StoreLimits::default() };
    let now_us = EVENING_US + 120 * MINUTE_US;
    let removal = store.enforce(&limits, now_us).unwrap();
    assert_eq!((removal.files, removal.windows), (3, 2));
    assert_eq!(starts(folder.path()), [90, 24 * 60]);
    assert!(!folder.path().join("samples/date=2026-11-26/hour=22").exists());
    assert_eq!(files(folder.path()).len(), 6);
    assert_eq!(store.enforce(&limits, now_us).unwrap(), Removal::default());
}

#[test]
fn the_oldest_windows_are_removed_until_the_size_fits() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut bytes = 0;
    for minute in 0..6 {
        bytes += store.write(&window("web-1", EVENING_US + minute * MINUTE_US)).unwrap().bytes;
    }
    let limits = StoreLimits { max_bytes: Some(bytes / 2), ..StoreLimits::default() };
    let removal = store.enforce(&limits, EVENING_US).unwrap();
    assert_eq!((removal.files, removal.windows), (3, 3));
    assert_eq!(starts(folder.path()), [3, 4, 5]);
    let left: u64 = files(folder.path()).iter().map(|path| path.metadata().unwrap().len()).sum();
    assert_eq!(left + removal.bytes, bytes);
}

#[test]
fn one_program_at_a_time_removes() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let _lock = store.folder().lock_rewriting().unwrap();
    let removal = store.enforce(&StoreLimits::default(), EVENING_US);
    assert!(matches!(removal, Err(StoreError::Locked(_))), "{removal:?}");
}

#[test]
fn a_removal_that_dies_is_finished_by_the_next() {
    for limit in 0.. {
        let folder = tempfile::tempdir().unwrap();
        for minute in 0..2 {
            store(folder.path()).write(&window("web-1", EVENING_US + minute * MINUTE_US)).unwrap();
        }
        let limits = StoreLimits { max_age: Some(Duration::ZERO), ..StoreLimits::default() };
        let now_us = EVENING_US + MINUTE_US;
        let (dying, changes) = dying_store(folder.path(), limit);
        let removed = dying.map(|store| store.enforce(&limits, now_us));
        let living = store(folder.path());
        living.recover().unwrap();
        living.enforce(&limits, now_us).unwrap();
        assert_eq!(starts(folder.path()), [1]);
        assert_eq!(files(folder.path()).len(), 3);
        if changes.load(Ordering::Relaxed) <= limit {
            assert!(removed.unwrap().is_ok());
            break;
        }
    }
}
