//! Checks and overviews of stores.

use std::fs;

use super::{EVENING_US, info, store, table_files, window};
use crate::{ProblemKind, Query, StoreReader, Verification};

const MINUTE_US: i64 = 60_000_000;

fn verify(folder: &std::path::Path) -> Verification {
    StoreReader::open(folder, 1).unwrap().verify().unwrap()
}

/// Writes two hours of a host with a name that no path may have.
fn write(folder: &std::path::Path) {
    let store = store(folder);
    for minute in 0..3 {
        store.write(&window("../../a\n", EVENING_US + minute * 40 * MINUTE_US)).unwrap();
        store.write(&window("b", EVENING_US + minute * 40 * MINUTE_US)).unwrap();
    }
    store.write_gap(&info("b", EVENING_US + 90 * MINUTE_US), 7).unwrap();
}

#[test]
fn a_store_is_valid_before_and_after_compaction() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let before = verify(folder.path());
    assert!(before.problems.is_empty(), "{before:?}");
    assert_eq!((before.segments, before.files, before.samples), (7, 19, 6 * 9));
    store(folder.path()).compact(EVENING_US + 10_000 * MINUTE_US).unwrap();
    let after = verify(folder.path());
    assert!(after.problems.is_empty(), "{after:?}");
    assert_eq!(after.samples, before.samples);
    assert!(after.segments < before.segments);
}

#[test]
fn lost_and_damaged_files_are_problems() {
    let folder = tempfile::tempdir().unwrap();
    let check = |damage: &dyn Fn(&std::path::Path)| {
        let folder = folder.path().join("store");
        write(&folder);
        damage(&folder);
        let verification = verify(&folder);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(verification.problems.len(), 1, "{verification:?}");
        verification.problems.into_iter().next().unwrap().kind
    };
    // The first file is that of the gap.
    let missing =
        check(&|folder| fs::remove_file(table_files(folder, "segments").last().unwrap()).unwrap());
    assert!(matches!(missing, ProblemKind::Missing), "{missing}");
    let cut = check(&|folder| {
        let path = &table_files(folder, "samples")[0];
        let bytes = fs::read(path).unwrap();
        fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
    });
    assert!(matches!(cut, ProblemKind::Unreadable(_)), "{cut}");
    let other = check(&|folder| {
        let other = tempfile::tempdir().unwrap();
        let empty = crate::SegmentBuilder::new(info("b", EVENING_US));
        store(other.path()).write(&empty.finish(crate::Figures::default())).unwrap();
        let frames = &table_files(folder, "frames")[0];
        fs::copy(&table_files(other.path(), "frames")[0], frames).unwrap();
    });
    assert!(matches!(other, ProblemKind::Frames(2)), "{other}");
    let sums = check(&|folder| {
        let other = tempfile::tempdir().unwrap();
        let mut figures = crate::SegmentBuilder::new(info("b", EVENING_US));
        let event = figures.text("e");
        figures.add(&crate::LabelSet::default(), event, None, crate::StackId::OMITTED, 8, 1);
        store(other.path()).write(&figures.finish(crate::Figures::default())).unwrap();
        let replaced = table_files(folder, "samples");
        let of_b = replaced.iter().find(|path| path.to_string_lossy().contains("-b-")).unwrap();
        fs::copy(&table_files(other.path(), "samples")[0], of_b).unwrap();
    });
    let expected = format!("host \"b\", window {EVENING_US}: 8 samples, but segments has 9");
    assert_eq!(sums.to_string(), expected);
}

#[test]
fn unfinished_files_are_not_part_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    fs::remove_file(table_files(folder.path(), "segments").last().unwrap()).unwrap();
    fs::remove_file(table_files(folder.path(), "samples").last().unwrap()).unwrap();
    let verification = verify(folder.path());
    assert!(verification.problems.is_empty(), "{verification:?}");
    assert_eq!((verification.unfinished, verification.segments), (1, 6));
}

#[test]
fn an_overview_has_hosts_gaps_and_sizes() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path());
    let reader = StoreReader::open(folder.path(), 1).unwrap();
    let overview = reader.overview(&Query::default()).unwrap();
    let hosts: Vec<&str> = overview.hosts.keys().map(String::as_str).collect();
    assert_eq!(hosts, ["../../a\n", "b"]);
    let host = overview.hosts["b"];
    assert_eq!((host.windows, host.samples, host.lost), (3, 27, 12));
    assert_eq!((host.gaps.count, host.gaps.samples, host.gaps.length_us), (1, 7, MINUTE_US));
    assert_eq!(host.start_us, EVENING_US);
    assert_eq!(host.end_us, EVENING_US + 91 * MINUTE_US);
    assert_eq!((overview.raw.files, overview.compacted.files), (19, 0));
    store(folder.path()).compact(EVENING_US + 10_000 * MINUTE_US).unwrap();
    let after = reader.overview(&Query::default()).unwrap();
    assert_eq!(after.hosts, overview.hosts);
    assert_eq!(after.raw.files, 0);
    assert!(after.compacted.bytes > 0);
    let query = Query { since_us: Some(EVENING_US + 30 * MINUTE_US), ..Query::default() };
    assert_eq!(reader.overview(&query).unwrap().hosts["b"].windows, 2);
    let filters = vec!["host=b".parse().unwrap()];
    let of_b = reader.overview(&Query { filters, ..Query::default() }).unwrap();
    assert_eq!(of_b.hosts.len(), 1);
}
