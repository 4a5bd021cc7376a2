//! Writes recordings of made-up samples to real files.

use std::fs::{self, File};
use std::path::Path as FilePath;
use std::process::Command;

use tare_format::abi::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_SAMPLE, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,
    PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{EventDescription, FINISHED_ROUND, Feature};
use tare_format::file::{Header, Reader};

use super::*;

const ID: u64 = 77;

fn description() -> Description {
    let sample_type = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    let attr = Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK.into(),
        sampling: Sampling::Period(1000),
        sample_type: sample_type.into(),
        flags: Flags::SAMPLE_ID_ALL,
        ..Attr::default()
    };
    let events = vec![EventDescription { attr, ids: vec![ID], name: "made-up".to_owned() }];
    Description {
        events,
        features: vec![Feature::Hostname("some-host".to_owned())],
        tracing_data: None,
    }
}

/// A sample whose time is its number.
fn sample(number: u64) -> Vec<u8> {
    let mut record = [PERF_RECORD_SAMPLE.to_ne_bytes(), (40_u32 << 16 | 2).to_le_bytes()].concat();
    record.extend([ID, 0x1000 + number, 1 << 32 | 1, number].map(u64::to_ne_bytes).as_flattened());
    record
}

fn samples(numbers: std::ops::Range<u64>) -> Vec<u8> {
    numbers.flat_map(sample).collect()
}

/// Returns the numbers of the samples in a recording.
fn numbers(path: &FilePath) -> Vec<u64> {
    let mut reader = Reader::open(File::open(path).unwrap()).unwrap();
    let mut numbers = Vec::new();
    while let Some(entry) = reader.next_record().unwrap() {
        if entry.record.kind == PERF_RECORD_SAMPLE {
            numbers.push(u64::from_ne_bytes(entry.record.body[24..32].try_into().unwrap()));
        }
    }
    assert!(reader.losses().is_empty(), "{:?}", reader.losses());
    numbers
}

/// Returns the number of samples that perf finds; `None` if perf isn't installed.
fn perf_finds(path: &FilePath) -> Option<usize> {
    let Ok(output) =
        Command::new("perf").args(["script", "-F", "tid,time", "-i"]).arg(path).output()
    else {
        println!("skipped: perf can't be run");
        return None;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).lines().count())
}

fn to(path: &FilePath) -> Destination {
    Destination::File(path.to_owned())
}

#[test]
fn a_file_is_whole_at_its_end_and_readable_up_to_the_last_flush_before() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let mut output = Output::open(&to(&path), &OutputOptions::default()).unwrap();
    output.begin(&description()).unwrap();
    output.append(&[&samples(0..100), &samples(100..150)]).unwrap();
    output.flush().unwrap();
    output.append(&[&samples(150..200), &FINISHED_ROUND]).unwrap();
    let killed = folder.path().join("killed");
    fs::copy(&path, &killed).unwrap();
    assert_eq!(numbers(&killed), (0..150).collect::<Vec<_>>());
    assert!(matches!(perf_finds(&killed), None | Some(150)));

    let account = output.finish(&Closing { description: &description(), records: &[] });
    assert_eq!((account.path, account.stopped, account.unfinished), (Path::Write, None, false));
    assert_eq!(account.uncompressed_bytes, 200 * 40 + 8);
    assert_eq!(account.bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(numbers(&path), (0..200).collect::<Vec<_>>());
    assert!(matches!(perf_finds(&path), None | Some(200)));
    let reader = Reader::open(File::open(&path).unwrap()).unwrap();
    assert!(matches!(reader.header(), Header::File(header) if header.features[0] != 0));
}

fn options(choice: PathChoice, compress: Option<i32>) -> OutputOptions {
    OutputOptions {
        choice,
        compress,
        window_bytes: 1 << 20,
        queue_bytes: 1 << 20,
        direct_at: 100 << 10,
        ..OutputOptions::default()
    }
}

/// Path choices, each without and with compression.
const WAYS: [(PathChoice, Option<i32>); 8] = [
    (PathChoice::Auto, None),
    (PathChoice::Auto, Some(1)),
    (PathChoice::Write, None),
    (PathChoice::Mmap, None),
    (PathChoice::Direct, None),
    (PathChoice::Write, Some(1)),
    (PathChoice::Mmap, Some(3)),
    (PathChoice::Direct, Some(2)),
];

/// Appends records in batches of random size, split at random places, with flushes in between.
fn append_randomly(output: &mut Output, random: &mut fastrand::Rng, total: u64) {
    let mut next = 0;
    while next < total {
        let most = [3, 300, 10_000][random.usize(..3)];
        let end = (next + random.u64(1..=most)).min(total);
        let bytes = samples(next..end);
        let (first, second) = bytes.split_at(random.usize(..=bytes.len()));
        output.append(&[first, second, &FINISHED_ROUND]).unwrap();
        if random.u8(..4) == 0 {
            output.flush().unwrap();
        }
        next = end;
    }
}

#[test]
fn all_paths_keep_every_record() {
    let folder = tempfile::tempdir().unwrap();
    for seed in 0..8 {
        let mut random = fastrand::Rng::with_seed(seed);
        let total = random.u64(1..40_000);
        for (choice, compress) in WAYS {
            let path = folder.path().join(format!("{seed}"));
            let _ = fs::remove_file(&path);
            let mut output = Output::open(&to(&path), &options(choice, compress)).unwrap();
            output.begin(&description()).unwrap();
            append_randomly(&mut output, &mut random, total);
            let account = output.finish(&Closing { description: &description(), records: &[] });
            let case = format!("{seed}, {choice:?}, {compress:?}: {account:?}");
            assert_eq!(numbers(&path), (0..total).collect::<Vec<_>>(), "{case}");
            assert_eq!(
                (account.stopped.as_ref(), account.dropped_bytes, account.fallback.as_ref()),
                (None, 0, None),
                "{case}"
            );
            assert_eq!(account.bytes, fs::metadata(&path).unwrap().len(), "{case}");
            let path_taken = match choice {
                PathChoice::Mmap => Path::Mmap,
                PathChoice::Direct => Path::Direct,
                PathChoice::Auto if compress.is_none() && total > 5_000 => Path::Direct,
                // Compression makes the size unpredictable.
                PathChoice::Auto => account.path,
                PathChoice::Write => Path::Write,
            };
            assert_eq!(account.path, path_taken, "{case}");
            if seed < 3 {
                assert!(perf_finds(&path).is_none_or(|found| found as u64 == total), "{case}");
            }
        }
    }
}

/// A mounted tmpfs of limited size.
struct Tmpfs(tempfile::TempDir);

impl Tmpfs {
    fn mount(bytes: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let options = format!("size={bytes}");
        let mount = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(folder.path())
            .output();
        if !mount.is_ok_and(|output| output.status.success()) {
            println!("skipped: a tmpfs can't be mounted, which takes root");
            return None;
        }
        Some(Self(folder))
    }
}

impl Drop for Tmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_ends_the_recording_with_a_whole_file_that_fills_it() {
    let size = 8 << 20;
    let Some(tmpfs) = Tmpfs::mount(size) else { return };
    let path = tmpfs.0.path().join("perf.data");
    for (choice, compress) in WAYS {
        let _ = fs::remove_file(&path);
        let mut output = Output::open(&to(&path), &options(choice, compress)).unwrap();
        output.begin(&description()).unwrap();
        let batch = samples(0..20_000);
        let mut random = fastrand::Rng::with_seed(1);
        let mut appended = 0_u64;
        // Random instruction pointers keep the records from being compressed to almost nothing.
        let error = loop {
            let mut batch = batch.clone();
            batch.chunks_mut(40).for_each(|record| random.fill(&mut record[16..24]));
            appended += batch.len() as u64;
            if let Err(error) = output.append(&[&batch]).and_then(|()| output.flush()) {
                break error;
            }
            assert!(appended < 1 << 30);
        };
        let case = format!("{choice:?}, {compress:?}");
        assert_eq!(error, OutputError::Full, "{case}");
        assert_eq!(output.append(&[&samples(0..1)]), Err(OutputError::Full), "{case}");
        let account = output.finish(&Closing { description: &description(), records: &[] });
        assert_eq!(
            (account.stopped.clone(), account.unfinished),
            (Some(OutputError::Full), false),
            "{case}"
        );
        let found = numbers(&path).len() as u64 * 40;
        assert_eq!(
            found,
            account.uncompressed_bytes - account.dropped_bytes,
            "{case}: {account:?}"
        );
        let len = fs::metadata(&path).unwrap().len();
        assert!(len <= size && len > size * 9 / 10, "{case}: {len} of {size} bytes");
        assert!(perf_finds(&path).is_none_or(|perf| perf as u64 * 40 == found), "{case}");
    }
}

#[test]
fn a_file_is_readable_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let killed = folder.path().join("killed");
    for (choice, compress) in WAYS {
        let _ = fs::remove_file(&path);
        let mut output = Output::open(&to(&path), &options(choice, compress)).unwrap();
        output.begin(&description()).unwrap();
        output.append(&[&samples(0..10_000)]).unwrap();
        output.flush().unwrap();
        // A queue flushes asynchronously.
        let is_queued =
            compress.is_some() || matches!(choice, PathChoice::Direct | PathChoice::Auto);
        while is_queued && numbers(&path).len() < 10_000 {
            std::thread::yield_now();
        }
        output.append(&[&samples(10_000..10_100)]).unwrap();
        fs::copy(&path, &killed).unwrap();
        drop(output);
        assert_eq!(numbers(&killed).len(), 10_000, "{choice:?}, {compress:?}");
        assert!(matches!(perf_finds(&killed), None | Some(10_000)), "{choice:?}, {compress:?}");
    }
}
