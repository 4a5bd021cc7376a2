//! What readers get.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use super::{EVENING_US, copy_folder, files, info, store, window};
use crate::schema::SampleColumn;
use crate::{
    Figures, LabelSet, Query, SampleBatch, ScanProgress, SegmentBuilder, SegmentLimits, StackFrame,
    StoreError, StoreReader,
};

const MINUTE_US: i64 = 60_000_000;

/// A row of samples: texts and numbers of some columns.
pub(super) type Key = (Option<String>, Option<String>, Option<String>, i64);

const WANTED: [SampleColumn; 6] = [
    SampleColumn::Service,
    SampleColumn::Version,
    SampleColumn::Function,
    SampleColumn::Window,
    SampleColumn::Samples,
    SampleColumn::Weight,
];

fn add(sums: &mut BTreeMap<Key, [i64; 2]>, batch: &SampleBatch<'_>) {
    let text = |column, row: usize| {
        let code = batch.codes(column)[row];
        batch.texts(column).unwrap().get(code).map(str::to_owned)
    };
    for row in 0..batch.rows() {
        let key = (
            text(SampleColumn::Service, row),
            text(SampleColumn::Version, row),
            text(SampleColumn::Function, row),
            batch.ints(SampleColumn::Window)[row],
        );
        let sum = sums.entry(key).or_default();
        sum[0] += batch.ints(SampleColumn::Samples)[row];
        sum[1] += batch.ints(SampleColumn::Weight)[row];
    }
}

pub(super) fn sums(folder: &Path, query: &Query) -> BTreeMap<Key, [i64; 2]> {
    let mut all = BTreeMap::new();
    let reader = StoreReader::open(folder, 2).unwrap();
    for sums in reader.scan(query, &WANTED, BTreeMap::new, add).unwrap() {
        for (key, [samples, weight]) in sums {
            let sum: &mut [i64; 2] = all.entry(key).or_default();
            sum[0] += samples;
            sum[1] += weight;
        }
    }
    all
}

pub(super) fn query(filters: &[&str], since_us: Option<i64>, until_us: Option<i64>) -> Query {
    let filters = filters.iter().map(|filter| filter.parse().unwrap()).collect();
    Query { since_us, until_us, filters }
}

/// Writes a window with rows of random labels, and returns its rows' sums.
pub(super) fn random_window(
    folder: &Path,
    random: &mut fastrand::Rng,
    start_us: i64,
    rows: usize,
) -> BTreeMap<Key, [i64; 2]> {
    let limits = SegmentLimits { stacks: 1 << 20, frames: 1 << 20, text_bytes: 1 << 28 };
    let mut window = SegmentBuilder::with_limits(info("web-1", start_us), limits);
    let event = window.text("cpu-clock");
    let mut sums: BTreeMap<Key, [i64; 2]> = BTreeMap::new();
    for _ in 0..rows {
        let service = random.u32(0..8).checked_sub(1).map(|number| format!("service-{number}"));
        let version = random.u32(0..3).checked_sub(1).map(|number| format!("1.{number}"));
        let address = random.u64(0..1 + rows as u64 / 3);
        let function =
            (!address.is_multiple_of(5)).then(|| format!("a_function_with_a_long_name_{address}"));
        let frame = StackFrame {
            function: function.as_deref().map(|function| window.text(function)),
            address,
            ..StackFrame::default()
        };
        let stack = window.stack(&[frame]);
        let labels = LabelSet {
            service: service.as_deref().map(|service| window.text(service)),
            version: version.as_deref().map(|version| window.text(version)),
            ..LabelSet::default()
        };
        let [samples, weight] = [random.u32(1..9), random.u32(0..1000)];
        window.add(&labels, event, None, stack, samples.into(), weight.into());
        let sum = sums.entry((service, version, function, start_us)).or_default();
        sum[0] += i64::from(samples);
        sum[1] += i64::from(weight);
    }
    let samples = window.samples();
    let figures = Figures { samples, ..Figures::default() };
    store(folder).write(&window.finish(figures)).unwrap();
    sums
}

#[test]
fn queries_return_the_rows_that_they_want() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(7);
    let mut written = BTreeMap::new();
    // The large window has two row groups, and more names than a dictionary holds.
    for (minute, rows) in [(0, 50), (1, 132_000), (2, 1), (59, 3), (60, 3_000), (24 * 60, 40)] {
        let start_us = EVENING_US + minute * MINUTE_US;
        written.extend(random_window(folder.path(), &mut random, start_us, rows));
    }
    let first = Some(EVENING_US + MINUTE_US);
    let queries = [
        query(&[], None, None),
        query(&[], first, Some(EVENING_US + 2 * MINUTE_US)),
        query(&[], None, first),
        query(&["service=service-3"], None, None),
        query(&["service=service-3", "version!=1.0"], None, None),
        query(&["service~^service-[1-4]$", "version~1"], first, None),
        query(&["function=a_function_with_a_long_name_777"], None, None),
        query(&["function~_77[0-9]$"], None, None),
        query(&["service=nothing"], None, None),
        query(&["host=web-1", "event!=cpu-clock"], None, None),
    ];
    for query in queries {
        let keeps = |(service, version, function, window): &Key| {
            query.since_us.is_none_or(|since| *window >= since)
                && query.until_us.is_none_or(|until| *window < until)
                && query.filters.iter().all(|filter| {
                    filter.keeps(match filter.column() {
                        SampleColumn::Service => service.as_deref(),
                        SampleColumn::Version => version.as_deref(),
                        SampleColumn::Function => function.as_deref(),
                        SampleColumn::Host => Some("web-1"),
                        _ => Some("cpu-clock"),
                    })
                })
        };
        let expected: BTreeMap<&Key, &[i64; 2]> =
            written.iter().filter(|(key, _)| keeps(key)).collect();
        let found = sums(folder.path(), &query);
        assert!(found.iter().eq(expected), "{query:?}: {} rows", found.len());
    }
}

#[test]
fn a_frame_is_the_named_one_of_any_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut id = 0;
    for (minute, name) in [(0, None), (1, Some("main")), (2, None), (3, Some("main_alias"))] {
        let mut window = SegmentBuilder::new(info("web-1", EVENING_US + minute * MINUTE_US));
        let [build_id, caller] = ["8f3a", "caller"].map(|text| Some(window.text(text)));
        let function = name.map(|name| window.text(name));
        let leaf = StackFrame { function, build_id, address: 16, ..StackFrame::default() };
        let root = StackFrame { function: caller, address: 32, line: Some(9), ..leaf };
        id = window.stack(&[leaf, root]).get();
        store(folder.path()).write(&window.finish(Figures::default())).unwrap();
    }
    let reader = StoreReader::open(folder.path(), 1).unwrap();
    let stacks = reader.stacks(&Query::default(), &HashSet::from([id, 5])).unwrap();
    assert_eq!((stacks.len(), stacks.frames(5).len()), (1, 0));
    let frames: Vec<_> =
        stacks.frames(id).map(|frame| (frame.function, frame.line, frame.address)).collect();
    assert_eq!(frames, [(Some("main"), None, 16), (Some("caller"), Some(9), 32)]);
    assert_eq!(stacks.frames(id).next().unwrap().build_id, Some("8f3a"));
    let before = query(&[], None, Some(EVENING_US + MINUTE_US));
    let stacks = reader.stacks(&before, &HashSet::from([id])).unwrap();
    assert_eq!(stacks.frames(id).next().unwrap().function, None);
}

#[test]
fn segments_that_overlap_the_times_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    for (host, minute) in [("web-1", 0), ("web-2", 0), ("web-1", 1), ("web-1", 90)] {
        store(folder.path()).write(&window(host, EVENING_US + minute * MINUTE_US)).unwrap();
    }
    let mut gap = info("web-1", EVENING_US + 2 * MINUTE_US);
    gap.end_us = EVENING_US + 90 * MINUTE_US;
    store(folder.path()).write_gap(&gap, 17).unwrap();
    let reader = StoreReader::open(folder.path(), 1).unwrap();
    let list = |filters: &[&str], since: Option<i64>, until: Option<i64>| {
        let times = [since, until].map(|time| time.map(|minute| EVENING_US + minute * MINUTE_US));
        let query = query(filters, times[0], times[1]);
        let found = reader.segments(&query, Vec::new, |found, segment| {
            let minute = (segment.start_us - EVENING_US) / MINUTE_US;
            found.push((minute, segment.host.to_owned(), segment.is_gap, segment.figures.samples));
        });
        let mut found = found.unwrap();
        found.sort();
        found
    };
    let [first, second] = ["web-1", "web-2"].map(str::to_owned);
    let gap = [(2, first.clone(), true, 17)];
    assert_eq!(list(&[], None, None).len(), 5);
    assert_eq!(list(&[], Some(60), Some(61)), gap);
    assert_eq!(list(&["host=web-2"], None, Some(1)), [(0, second, false, 9)]);
    assert_eq!(list(&[], Some(90), None), [(90, first, false, 9)]);
}

/// Reads everything, with errors if need be.
fn read_all(folder: &Path) -> bool {
    let reader = StoreReader::open(folder, 1).unwrap();
    let times = query(&["service~service"], Some(EVENING_US + 1), None);
    let scanned = [Query::default(), times]
        .map(|query| reader.scan(&query, SampleColumn::ALL, BTreeMap::new, add).is_ok());
    let stacks: HashSet<i64> = [i64::MIN, i64::MAX].into();
    let others = [
        reader.stacks(&Query::default(), &stacks).is_ok(),
        reader.segments(&Query::default(), || (), |_, _| ()).is_ok(),
        store(folder).compact(EVENING_US + 76 * MINUTE_US).is_ok(),
    ];
    scanned.iter().chain(&others).all(|is_ok| *is_ok)
}

#[test]
fn damaged_files_are_errors() {
    let mut random = fastrand::Rng::with_seed(5);
    let folder = tempfile::tempdir().unwrap();
    let original = folder.path().join("original");
    random_window(&original, &mut random, EVENING_US, 60);
    random_window(&original, &mut random, EVENING_US + MINUTE_US, 60);
    let mut errors = 0;
    for number in 0..120 {
        let copy = folder.path().join("copy");
        copy_folder(&original, &copy);
        let paths = files(&copy);
        let path = random.choice(&paths).unwrap();
        let mut bytes = std::fs::read(path).unwrap();
        for _ in 0..random.usize(1..4) {
            let at = random.usize(0..bytes.len());
            bytes[at] = random.u8(..);
        }
        if number % 8 == 0 {
            bytes.truncate(random.usize(0..bytes.len()));
        }
        std::fs::write(path, &bytes).unwrap();
        errors += usize::from(!read_all(&copy));
        std::fs::remove_dir_all(&copy).unwrap();
    }
    // Others change a value, or a byte that isn't read.
    assert!(errors > 30, "{errors}");
}

#[test]
fn a_scan_tells_its_progress_and_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for minute in 0..20 {
        store.write(&window("web", EVENING_US + minute * MINUTE_US)).unwrap();
    }
    let progress = Arc::new(ScanProgress::default());
    let reader = StoreReader::open(folder.path(), 1).unwrap();
    let reader = reader.with_progress(Arc::clone(&progress));
    let scan = |each: &(dyn Fn() + Sync)| {
        let batches = |count: &mut u32, _: &SampleBatch<'_>| {
            *count += 1;
            each();
        };
        reader.scan(&Query::default(), &WANTED, || 0, batches).map(|counts| counts[0])
    };
    assert_eq!(scan(&|| {}).unwrap(), 20);
    // A file and its row group are a part each.
    assert_eq!(progress.parts(), [40, 40]);
    let stopping = || progress.stop();
    assert!(matches!(scan(&stopping), Err(StoreError::Stopped)));
    let [read, parts] = progress.parts();
    assert!(read < parts, "{read} of {parts}");
}
