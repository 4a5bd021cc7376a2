//! Recordings of made-up samples, on real files.

use std::fs::{self, File};
use std::path::Path as FilePath;
use std::process::Command;

use tare_format::abi::bindings::{
    PERF_COUNT_SW_CPU_CLOCK, PERF_RECORD_SAMPLE, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
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
    Description { events, features: vec![Feature::Hostname("some-host".to_owned())], tracing_data: None }
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

/// The numbers of the samples that a recording holds.
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

/// How many samples perf finds; `None` where it is not installed.
fn perf_finds(path: &FilePath) -> Option<usize> {
    let Ok(output) = Command::new("perf").args(["script", "-F", "tid,time", "-i"]).arg(path).output() else {
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
    let mut output = Output::open(&to(&path), &Options::default()).unwrap();
    output.begin(&description()).unwrap();
    output.append(&[&samples(0..100), &samples(100..150)]).unwrap();
    output.flush().unwrap();
    output.append(&[&samples(150..200), &FINISHED_ROUND]).unwrap();
    let killed = folder.path().join("killed");
    fs::copy(&path, &killed).unwrap();
    assert_eq!(numbers(&killed), (0..150).collect::<Vec<_>>());
    assert!(matches!(perf_finds(&killed), None | Some(150)));

    let account = output.finish(&description());
    assert_eq!((account.path, account.stopped, account.unfinished), (Path::Write, None, false));
    assert_eq!(account.uncompressed_bytes, 200 * 40 + 8);
    assert_eq!(account.bytes, fs::metadata(&path).unwrap().len());
    assert_eq!(numbers(&path), (0..200).collect::<Vec<_>>());
    assert!(matches!(perf_finds(&path), None | Some(200)));
    let reader = Reader::open(File::open(&path).unwrap()).unwrap();
    assert!(matches!(reader.header(), Header::File(header) if header.features[0] != 0));
}
