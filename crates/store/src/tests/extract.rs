//! Parts of a store as a new store.

use std::path::Path;

use super::{EVENING_US, files, info, read, store, table_files, texts, window};
use crate::{Extraction, LabelFilter, Query, StoreReader};

const MINUTE_US: i64 = 60_000_000;

fn write(folder: &Path) {
    let store = store(folder);
    for minute in 0..4 {
        store.write(&window("a", EVENING_US + minute * 30 * MINUTE_US)).unwrap();
        store.write(&window("../b\n", EVENING_US + minute * 30 * MINUTE_US)).unwrap();
    }
    store.write_gap(&info("a", EVENING_US + 40 * MINUTE_US), 7).unwrap();
}

fn query(conditions: &[&str]) -> Query {
    let filters = conditions.iter().map(|text| text.parse::<LabelFilter>().unwrap()).collect();
    Query {
        since_us: Some(EVENING_US + 30 * MINUTE_US),
        until_us: Some(EVENING_US + 90 * MINUTE_US),
        filters,
    }
}

fn extract(from: &Path, query: &Query, to: &Path) -> Extraction {
    StoreReader::open(from, 1).unwrap().extract(query, to).unwrap()
}

#[test]
fn an_extract_is_a_valid_store_with_the_wanted_rows() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    write(&from);
    for round in ["raw", "compacted"] {
        let to = folder.path().join(round);
        let extraction = extract(&from, &query(&["service=web", "host=a"]), &to);
        // Two of the four windows; five of the nine samples are of `web`.
        assert_eq!(extraction.samples, 2 * 5, "{round}");
        let rows: Vec<_> = table_files(&to, "samples").iter().flat_map(|path| read(path)).collect();
        assert_eq!(rows.len(), 4);
        assert!(rows.iter().all(|row| texts(row)["service"] == "web" && texts(row)["host"] == "a"));
        let frames: Vec<_> =
            table_files(&to, "frames").iter().flat_map(|path| read(path)).collect();
        assert!(frames.iter().all(|row| texts(row)["function"].starts_with("web")), "{round}");
        let reader = StoreReader::open(&to, 1).unwrap();
        let verification = reader.verify().unwrap();
        assert!(verification.problems.is_empty(), "{round}: {verification:?}");
        assert_eq!(verification.samples, 10);
        let overview = reader.overview(&Query::default()).unwrap();
        assert_eq!(overview.hosts.len(), 1);
        assert_eq!((overview.hosts["a"].windows, overview.hosts["a"].gaps.count), (2, 1));
        store(&from).compact(EVENING_US + 10_000 * MINUTE_US).unwrap();
    }
    let all = folder.path().join("all");
    assert_eq!(extract(&from, &Query::default(), &all).samples, 8 * 9);
    store(&all).compact(EVENING_US + 10_000 * MINUTE_US).unwrap();
    assert!(StoreReader::open(&all, 1).unwrap().verify().unwrap().problems.is_empty());
}

#[test]
fn an_extract_replaces_nothing_and_leaves_no_part() {
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("from");
    write(&from);
    let reader = StoreReader::open(&from, 1).unwrap();
    let before = files(&from);
    assert!(reader.extract(&Query::default(), &from).is_err());
    assert_eq!(files(&from), before);
    let none = folder.path().join("none");
    assert_eq!(reader.extract(&query(&["host=c"]), &none).unwrap(), Extraction::default());
    assert!(!none.exists());
    let damaged = table_files(&from, "frames").pop().unwrap();
    std::fs::write(&damaged, "").unwrap();
    let to = folder.path().join("to");
    assert!(reader.extract(&Query::default(), &to).is_err());
    assert!(!to.exists());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "a part is left");
}
