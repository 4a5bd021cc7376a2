//! Buckets: in memory, and a server that can't be reached.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;

use super::reading::{Key, query, random_window, sums};
use super::{EVENING_US, dying_store, files, info, store};
use crate::bucket::PART_BYTES;
use crate::{
    Bucket, BucketCredentials, BucketOptions, BucketStop, Query, Spool, SpoolTally, StoreError,
    StoreReader, Transfer,
};

/// A limit that is never reached.
const MANY_BYTES: u64 = 1 << 40;

const MINUTE_US: i64 = 60_000_000;
const HOUR_LATER_US: i64 = EVENING_US + 76 * MINUTE_US;

fn write(folder: &Path, minutes: std::ops::Range<i64>) -> BTreeMap<Key, [i64; 2]> {
    let mut random = fastrand::Rng::with_seed(minutes.start.cast_unsigned());
    let mut written = BTreeMap::new();
    for minute in minutes {
        let start_us = EVENING_US + minute * MINUTE_US;
        written.extend(random_window(folder, &mut random, start_us, 40));
    }
    written
}

fn upload(bucket: &Bucket, spool: &Path) -> Transfer {
    bucket.upload(&Spool::open(spool, MANY_BYTES).unwrap(), |_| {}).unwrap()
}

/// Returns the samples of a store's windows, and those that gaps have lost.
fn samples_of(folder: &Path) -> [u64; 2] {
    let overview = StoreReader::open(folder, 1).unwrap().overview(&Query::default()).unwrap();
    let hosts = || overview.hosts.values();
    [hosts().map(|host| host.samples).sum(), hosts().map(|host| host.gaps.samples).sum()]
}

#[test]
fn segments_go_through_a_spool_into_a_bucket_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let [spool, mirror, work] = ["spool", "mirror", "work"].map(|name| folder.path().join(name));
    let bucket =
        Bucket::from_objects(Arc::new(InMemory::new()), "bucket", "/team/profiles/").unwrap();
    let mut written = write(&spool, 0..3);
    store(&spool).write_gap(&info("web-1", EVENING_US + 9 * MINUTE_US), 5).unwrap();
    let sent = upload(&bucket, &spool);
    assert_eq!(sent.files, 10);
    assert_eq!(files(&spool).len(), 0);
    assert_eq!(upload(&bucket, &spool), Transfer::default());

    let received = bucket.download(&mirror, &Query::default(), MANY_BYTES).unwrap();
    assert_eq!(received, sent);
    assert_eq!(sums(&mirror, &Query::default()), written);
    assert_eq!(
        bucket.download(&mirror, &Query::default(), MANY_BYTES).unwrap(),
        Transfer::default()
    );

    written.extend(write(&spool, 3..5));
    upload(&bucket, &spool);
    let compaction = bucket.compact(&work, HOUR_LATER_US).unwrap();
    assert_eq!((compaction.inputs, compaction.outputs), (6, 1));
    let received = bucket.download(&mirror, &Query::default(), MANY_BYTES).unwrap();
    assert_eq!(received.files, 3);
    assert_eq!(files(&mirror).len(), 3);
    assert_eq!(sums(&mirror, &Query::default()), written);
}

/// Sends a file of several parts, and checks that it arrives.
fn send_parts(bucket: &Bucket, folder: &Path) {
    let [sent, received] = ["sent", "received"].map(|name| folder.join(name));
    let mut random = fastrand::Rng::with_seed(9);
    let bytes: Vec<u8> =
        std::iter::repeat_with(|| random.u8(..)).take(PART_BYTES * 5 / 2).collect();
    fs::write(&sent, &bytes).unwrap();
    let object = bucket.object("samples/large");
    assert_eq!(bucket.put(&sent, &object).unwrap(), bytes.len() as u64);
    let mut file = File::create(&received).unwrap();
    let length = bucket.run(bucket.get(&object, &received, &mut file)).unwrap();
    assert_eq!(length, Some(bytes.len() as u64));
    assert!(fs::read(&received).unwrap() == bytes);
}

#[test]
fn a_large_file_is_sent_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "bucket", "prefix").unwrap();
    send_parts(&bucket, folder.path());
}

#[test]
fn only_files_of_the_times_are_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let [spool, mirror] = ["spool", "mirror"].map(|name| folder.path().join(name));
    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "bucket", "").unwrap();
    let written = write(&spool, 0..4);
    upload(&bucket, &spool);
    let query = query(&[], Some(EVENING_US + MINUTE_US), Some(EVENING_US + 2 * MINUTE_US));
    assert_eq!(bucket.download(&mirror, &query, MANY_BYTES).unwrap().files, 3);
    let expected = written.into_iter().filter(|(key, _)| key.3 == EVENING_US + MINUTE_US).collect();
    assert_eq!(sums(&mirror, &Query::default()), expected);
}

/// Options of a server that doesn't exist.
fn nowhere() -> BucketOptions {
    BucketOptions {
        url: "s3://bucket/prefix".to_owned(),
        // Nothing listens on this port.
        endpoint: Some("http://127.0.0.1:1".to_owned()),
        region: None,
        credentials: Some(BucketCredentials {
            key_id: "key".to_owned(),
            secret: "a secret".to_owned(),
            token: None,
        }),
        allow_http: true,
        timeout: Duration::from_millis(200),
    }
}

#[test]
fn an_outage_leaves_the_spool_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let written = write(&spool, 0..2);
    let bucket = Bucket::open(&nowhere()).unwrap();
    let sent = bucket.upload(&Spool::open(&spool, MANY_BYTES).unwrap(), |_| {});
    let error = sent.unwrap_err().to_string();
    assert!(error.starts_with("s3://bucket/prefix/frames/date="), "{error}");
    assert!(error.contains("cannot connect: ") && error.contains("refused"), "{error}");
    assert!(!format!("{:?} {error}", nowhere()).contains("a secret"));
    assert_eq!(sums(&spool, &Query::default()), written);
    let stop = BucketStop::default();
    stop.stop();
    let stopped = bucket_with(stop).upload(&Spool::open(&spool, MANY_BYTES).unwrap(), |_| {});
    assert!(matches!(stopped, Err(StoreError::Stopped)), "{stopped:?}");
}

fn bucket_with(stop: BucketStop) -> Bucket {
    Bucket::open(&nowhere()).unwrap().with_stop(stop)
}

fn length(folder: &Path) -> u64 {
    files(folder).iter().map(|path| path.metadata().unwrap().len()).sum()
}

#[test]
fn beyond_its_limit_the_spool_drops_the_oldest_windows_but_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("spool");
    let limit = {
        write(&path, 0..4);
        length(&path)
    };
    let spool = Spool::open(&path, limit).unwrap();
    assert_eq!((spool.waiting().windows, spool.waiting().bytes), (4, limit));
    let mut dropped = SpoolTally::default();
    for minute in 4..12 {
        let before = length(&path);
        let written = write(&path, minute..minute + 1);
        let samples = written.values().map(|[samples, _]| samples.cast_unsigned()).sum();
        let bytes = length(&path) - before;
        let more = spool.add(SpoolTally { windows: 1, samples, bytes }).unwrap();
        dropped.windows += more.windows;
        dropped.samples += more.samples;
        assert_eq!(spool.waiting().bytes, length(&path));
        assert!(spool.waiting().bytes <= limit);
        let [kept, lost] = samples_of(&path);
        assert_eq!((kept, lost), (spool.waiting().samples, dropped.samples));
    }
    assert_eq!(spool.waiting().windows + dropped.windows, 12);
    let reader = StoreReader::open(&path, 1).unwrap();
    let overview = reader.overview(&Query::default()).unwrap();
    assert_eq!(overview.hosts["web-1"].gaps.count, 1, "gaps in a row are one");
    assert_eq!(overview.hosts["web-1"].start_us, EVENING_US, "the first window stays");
    assert!(reader.verify().unwrap().problems.is_empty());

    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "bucket", "").unwrap();
    let mut sent = SpoolTally::default();
    bucket.upload(&spool, |tally| sent.windows += tally.windows).unwrap();
    assert_eq!((sent.windows + dropped.windows, spool.waiting()), (12, SpoolTally::default()));
    let mirror = folder.path().join("mirror");
    bucket.download(&mirror, &Query::default(), MANY_BYTES).unwrap();
    assert_eq!(samples_of(&mirror)[1], dropped.samples);
}

#[test]
fn a_spool_whose_program_dies_anywhere_loses_and_repeats_nothing() {
    for limit in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let [path, mirror] = ["spool", "mirror"].map(|name| folder.path().join(name));
        let written = write(&path, 0..5);
        let total: i64 = written.values().map(|[samples, _]| samples).sum();
        let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "bucket", "").unwrap();
        let most = length(&path) * 7 / 10;
        let (dying, changes) = dying_store(&path, limit);
        if let Some(spool) = dying.and_then(|store| Spool::from_store(store, most).ok()) {
            // Each may die.
            let _ = spool.add(SpoolTally::default());
            let _ = bucket.upload(&spool, |_| {});
        }
        store(&path).recover().unwrap();
        let spool = Spool::open(&path, most).unwrap();
        spool.add(SpoolTally::default()).unwrap();
        bucket.upload(&spool, |_| {}).unwrap();
        assert_eq!(files(&path).len(), 0, "died at change {limit}");
        bucket.download(&mirror, &Query::default(), MANY_BYTES).unwrap();
        let [kept, lost] = samples_of(&mirror);
        assert_eq!(kept + lost, total.cast_unsigned(), "died at change {limit}");
        assert!(lost > 0, "died at change {limit}");
        let problems = StoreReader::open(&mirror, 1).unwrap().verify().unwrap().problems;
        assert!(problems.is_empty(), "died at change {limit}: {problems:?}");
        if changes.load(std::sync::atomic::Ordering::Relaxed) < limit {
            assert!(limit > 20, "{limit} changes");
            return;
        }
    }
}

#[test]
fn windows_beyond_the_mirrors_limit_are_refused_or_replace_others() {
    let folder = tempfile::tempdir().unwrap();
    let [spool, mirror] = ["spool", "mirror"].map(|name| folder.path().join(name));
    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "bucket", "").unwrap();
    write(&spool, 0..4);
    let most = length(&spool) / 2;
    upload(&bucket, &spool);
    let refused = bucket.download(&mirror, &Query::default(), most);
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
    for minute in 0..4 {
        let since_us = EVENING_US + minute * MINUTE_US;
        let query = query(&[], Some(since_us), Some(since_us + MINUTE_US));
        bucket.download(&mirror, &query, most).unwrap();
        assert!(length(&mirror) <= most);
        assert_eq!(sums(&mirror, &query).keys().next().unwrap().3, since_us);
    }
}

/// Runs where `TARE_TEST_S3` has the address of an S3 server with a bucket `tare`.
#[test]
fn an_s3_server_takes_and_returns_segments() {
    let Ok(endpoint) = std::env::var("TARE_TEST_S3") else {
        println!("skipped: no S3 server (TARE_TEST_S3)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let [spool, mirror, work] = ["spool", "mirror", "work"].map(|name| folder.path().join(name));
    let options = BucketOptions {
        url: format!("s3://tare/run-{}", fastrand::u64(..)),
        endpoint: Some(endpoint),
        region: None,
        credentials: Some(BucketCredentials {
            key_id: "key".to_owned(),
            secret: "secret".to_owned(),
            token: None,
        }),
        allow_http: true,
        timeout: Duration::from_secs(30),
    };
    let bucket = Bucket::open(&options).unwrap();
    send_parts(&bucket, folder.path());
    let written = write(&spool, 0..2);
    upload(&bucket, &spool);
    assert_eq!(files(&spool).len(), 0);
    bucket.compact(&work, HOUR_LATER_US).unwrap();
    assert_eq!(bucket.download(&mirror, &Query::default(), MANY_BYTES).unwrap().files, 3);
    assert_eq!(sums(&mirror, &Query::default()), written);
}

#[test]
fn other_urls_are_refused() {
    for url in ["", "bucket", "s3://", "s3:///prefix", "https://server/bucket"] {
        let options = BucketOptions {
            url: url.to_owned(),
            endpoint: None,
            region: None,
            credentials: None,
            allow_http: false,
            timeout: Duration::from_secs(1),
        };
        assert!(matches!(Bucket::open(&options), Err(StoreError::Url(_))), "{url}");
    }
}
