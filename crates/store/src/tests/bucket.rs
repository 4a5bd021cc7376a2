//! Buckets: in memory, and a server that can't be reached.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;

use super::reading::{Key, query, random_window, sums};
use super::{EVENING_US, files, info, store, table_files};
use crate::bucket::PART_BYTES;
use crate::{
    Bucket, BucketCredentials, BucketOptions, Query, StoreError, StoreLimits, StoreReader, Transfer,
};

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

#[test]
fn segments_go_through_a_spool_into_a_bucket_and_back() {
    let folder = tempfile::tempdir().unwrap();
    let [spool, mirror, work] = ["spool", "mirror", "work"].map(|name| folder.path().join(name));
    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "/team/profiles/").unwrap();
    let mut written = write(&spool, 0..3);
    store(&spool).write_gap(&info("web-1", EVENING_US + 9 * MINUTE_US), 5).unwrap();
    let sent = bucket.upload(&store(&spool)).unwrap();
    assert_eq!(sent.files, 10);
    assert_eq!(files(&spool).len(), 0);
    assert_eq!(bucket.upload(&store(&spool)).unwrap(), Transfer::default());

    let received = bucket.download(&mirror, &Query::default()).unwrap();
    assert_eq!(received, sent);
    assert_eq!(sums(&mirror, &Query::default()), written);
    assert_eq!(bucket.download(&mirror, &Query::default()).unwrap(), Transfer::default());

    written.extend(write(&spool, 3..5));
    bucket.upload(&store(&spool)).unwrap();
    let compaction = bucket.compact(&work, &Query::default(), HOUR_LATER_US).unwrap();
    assert_eq!((compaction.inputs, compaction.outputs), (6, 1));
    let received = bucket.download(&mirror, &Query::default()).unwrap();
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
    assert_eq!(bucket.get_object(&object, &received, &mut file).unwrap(), Some(bytes.len() as u64));
    assert!(fs::read(&received).unwrap() == bytes);
}

#[test]
fn a_large_file_is_sent_in_parts() {
    let folder = tempfile::tempdir().unwrap();
    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "prefix").unwrap();
    send_parts(&bucket, folder.path());
}

#[test]
fn only_files_of_the_times_are_downloaded() {
    let folder = tempfile::tempdir().unwrap();
    let [spool, mirror] = ["spool", "mirror"].map(|name| folder.path().join(name));
    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "").unwrap();
    let written = write(&spool, 0..4);
    bucket.upload(&store(&spool)).unwrap();
    let query = query(&[], Some(EVENING_US + MINUTE_US), Some(EVENING_US + 2 * MINUTE_US));
    assert_eq!(bucket.download(&mirror, &query).unwrap().files, 3);
    let expected = written.into_iter().filter(|(key, _)| key.3 == EVENING_US + MINUTE_US).collect();
    assert_eq!(sums(&mirror, &Query::default()), expected);
}

#[test]
fn an_outage_leaves_the_spool_within_its_limits() {
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let written = write(&spool, 0..4);
    let options = BucketOptions {
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
    };
    assert!(!format!("{options:?}").contains("a secret"));
    let sent = Bucket::open(&options).unwrap().upload(&store(&spool));
    assert!(matches!(sent, Err(StoreError::Bucket { .. })), "{sent:?}");
    assert_eq!(sums(&spool, &Query::default()), written);

    let bytes: u64 = files(&spool).iter().map(|path| path.metadata().unwrap().len()).sum();
    let limits = StoreLimits { max_bytes: Some(bytes * 6 / 10), ..StoreLimits::default() };
    assert_eq!(store(&spool).enforce(&limits, HOUR_LATER_US).unwrap().windows, 2);
    let bucket = Bucket::from_objects(Arc::new(InMemory::new()), "prefix").unwrap();
    assert_eq!(bucket.upload(&store(&spool)).unwrap().files, 6);
    let mirror = folder.path().join("mirror");
    bucket.download(&mirror, &Query::default()).unwrap();
    assert_eq!(table_files(&mirror, "samples").len(), 2);
    StoreReader::open(&mirror, 1).unwrap();
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
    bucket.upload(&store(&spool)).unwrap();
    assert_eq!(files(&spool).len(), 0);
    bucket.compact(&work, &Query::default(), HOUR_LATER_US).unwrap();
    assert_eq!(bucket.download(&mirror, &Query::default()).unwrap().files, 3);
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
