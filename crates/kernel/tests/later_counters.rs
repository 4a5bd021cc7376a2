//! Counters that are opened during a recording, as for a CPU that comes back: perf finds their
//! samples in the file of a killed recorder, in the finished file, and in a stream.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "all of this file is tests, the helpers too"
)]

use std::path::Path;

use rustix::io::Errno;
use tare_format::abi::bindings::{
    PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN, PERF_RECORD_SAMPLE,
    PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
};
use tare_format::abi::{Attr, Flags, Sampling};
use tare_format::file::writer::{
    DATA_SIZE_OFFSET, Description, EventDescription, FINISHED_INIT, FINISHED_ROUND,
};
use tare_kernel::open::{EventFile, EventTarget, Kernel, System};
use tare_kernel::ring::Ring;

const NAMES: [&str; 2] = ["all-faults", "minor-faults"];

fn attrs() -> [Attr; 2] {
    let bits = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME;
    [PERF_COUNT_SW_PAGE_FAULTS, PERF_COUNT_SW_PAGE_FAULTS_MIN].map(|config| Attr {
        kind: PERF_TYPE_SOFTWARE,
        config: config.into(),
        sampling: Sampling::Period(1),
        sample_type: bits.into(),
        flags: Flags::SAMPLE_ID_ALL | Flags::COMM | Flags::EXCLUDE_KERNEL,
        ..Attr::default()
    })
}

/// Records this thread's page faults. Returns the records and the events' ids, or `None` if
/// perf_event_open is not allowed.
fn faults() -> Option<(Vec<u8>, [u64; 2])> {
    let mut files: Vec<Box<dyn EventFile>> = Vec::new();
    for attr in attrs() {
        match System.open(&attr, EventTarget::Task(0), None) {
            Ok(file) => files.push(file),
            Err(error @ (Errno::ACCESS | Errno::PERM | Errno::NOSYS)) => {
                println!("skipped: perf_event_open is not allowed here: {error}");
                return None;
            }
            Err(error) => panic!("perf_event_open: {error}"),
        }
    }
    let mut ring = Ring::map(&*files[0], 1 << 18).unwrap();
    files[1].set_output(&*files[0]).unwrap();
    let pages = vec![1_u8; 64 << 12];
    assert_eq!(pages.iter().map(|byte| u32::from(*byte)).sum::<u32>(), 64 << 12);
    let batch = ring.batch();
    let bytes = batch.slices().concat();
    batch.advance();
    Some((bytes, [files[0].id().unwrap(), files[1].id().unwrap()]))
}

/// Returns the number of samples that `perf script` finds of each event; `None` if perf can't be
/// run.
fn samples(bytes: &[u8], path: &Path) -> Option<[usize; 2]> {
    std::fs::write(path, bytes).unwrap();
    let script = ["script", "-F", "comm,tid,time,event", "-i"];
    let output = std::process::Command::new("perf").args(script).arg(path).output();
    let Ok(output) = output else {
        println!("skipped: perf can't be run");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = output.stderr;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&errors));
    Some(NAMES.map(|name| text.lines().filter(|line| line.contains(name)).count()))
}

fn count(records: &[u8], id: u64) -> usize {
    let records = tare_format::record::Records::new(records, tare_format::Endian::NATIVE);
    records
        .filter(|record| record.kind == PERF_RECORD_SAMPLE && record.body[..8] == id.to_ne_bytes())
        .count()
}

#[test]
fn perf_finds_the_samples_of_counters_that_were_opened_later() {
    let Some((first, ids)) = faults() else { return };
    let Some((second, later)) = faults() else { return };
    let counted = [0, 1].map(|event| {
        let samples = [count(&first, ids[event]), count(&second, later[event])];
        assert!(samples[0] > 32 && samples[1] > 32, "{samples:?}");
        samples[0] + samples[1]
    });
    let event = |(attr, (name, id)): (Attr, (&str, u64))| EventDescription {
        attr,
        ids: vec![id],
        name: name.to_owned(),
    };
    let events = attrs().into_iter().zip(NAMES.into_iter().zip(ids)).map(event).collect();
    let mut description = Description { events, ..Description::default() };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");

    let mut beginning = description.beginning(|_| 4, 1).unwrap();
    let mut file = beginning.bytes.clone();
    let start = file.len() as u64;
    let mut stream = description.stream_beginning().unwrap();
    for into in [&mut file, &mut stream] {
        into.extend([&FINISHED_INIT[..], &first, &FINISHED_ROUND].concat());
    }
    for (event, id) in later.into_iter().enumerate() {
        let at = usize::try_from(beginning.room.take(event).unwrap()).unwrap();
        file[at..at + 8].copy_from_slice(&id.to_ne_bytes());
        description.events[event].ids.push(id);
    }
    stream.extend(description.stream_ids(&later).unwrap());
    for into in [&mut file, &mut stream] {
        into.extend([&second[..], &FINISHED_ROUND].concat());
    }
    let end = file.len() as u64;
    let killed_end = file.len();
    file.extend(&beginning.feature_table);
    let at = usize::try_from(DATA_SIZE_OFFSET).unwrap();
    file[at..at + 8].copy_from_slice(&beginning.data_size(end));
    let Some(found) = samples(&file, &path) else { return };
    assert_eq!(found, counted, "of a recorder that was killed");
    assert_eq!(samples(&stream, &path), Some(counted), "in a stream");
    file.truncate(killed_end);
    let ending = description.ending(&(start..end)).unwrap();
    file.extend(&ending.tail);
    file[..ending.header.len()].copy_from_slice(&ending.header);
    assert_eq!(samples(&file, &path), Some(counted), "finished");
}
