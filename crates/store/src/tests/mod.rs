//! Tests of a whole store.

#[cfg(feature = "s3")]
mod bucket;
mod compaction;
mod extract;
mod limits;
mod reading;
mod symbolize;
mod verification;
mod writing;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};

use crate::{
    Figures, LabelSet, Segment, SegmentBuilder, SegmentInfo, StackFrame, StackId, Store,
    StoreOptions,
};

/// 2026-11-26 22:00:00 UTC.
const EVENING_US: i64 = 1_795_730_400_000_000;

fn info(host: &str, start_us: i64) -> SegmentInfo {
    SegmentInfo {
        host: host.to_owned(),
        boot: "boot-1".to_owned(),
        kernel: "6.18.5".to_owned(),
        agent_version: "0.1.0".to_owned(),
        start_us,
        end_us: start_us + 60_000_000,
    }
}

fn window(host: &str, start_us: i64) -> Segment {
    let mut window = SegmentBuilder::new(info(host, start_us));
    let event = window.text("cpu-clock");
    let reason = window.text("futex");
    for (service, samples) in [("web", 3), ("api", 2)] {
        let labels = LabelSet { service: Some(window.text(service)), ..LabelSet::default() };
        let build_id = Some(window.text("8f3a"));
        let frames = [0x10, 0x20, 0x30].map(|address| StackFrame {
            function: Some(window.text(&format!("{service}_{address}"))),
            line: Some(7),
            build_id,
            address: address * samples,
            ..StackFrame::default()
        });
        let stack = window.stack(&frames);
        window.add(&labels, event, None, stack, samples, samples * 10);
        window.add(&labels, event, None, stack, 1, 10);
        window.add(&labels, event, Some(reason), StackId::OMITTED, 1, 5);
    }
    window.finish(Figures { samples: 9, lost: 4, cpus: 2, ..Figures::default() })
}

fn store(folder: &Path) -> Store {
    Store::open(folder, StoreOptions::default()).unwrap()
}

/// Returns the files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() { folders.push(path) } else { files.push(path) }
        }
    }
    files.retain(|path| {
        path.extension().is_none_or(|end| end != "lock") && !path.ends_with(".lock")
    });
    files.sort();
    files
}

fn table_files(folder: &Path, table: &str) -> Vec<PathBuf> {
    files(&folder.join(table))
}

fn read(path: &Path) -> Vec<Row> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    reader.get_row_iter(None).unwrap().map(|row| row.unwrap()).collect()
}

fn texts(row: &Row) -> BTreeMap<String, String> {
    let fields = row.get_column_iter();
    let text = |field: &Field| match field {
        Field::Str(text) => text.clone(),
        other => other.to_string(),
    };
    fields.map(|(name, field)| (name.clone(), text(field))).collect()
}

fn schema(path: &Path) -> String {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let mut printed = Vec::new();
    parquet::schema::printer::print_schema(
        &mut printed,
        reader.metadata().file_metadata().schema(),
    );
    String::from_utf8(printed).unwrap()
}

/// Opens a store that fails from its change number `limit` on, as if the program died there.
/// Returns it with the counter of changes.
fn dying_store(folder: &Path, limit: usize) -> (Option<Store>, Arc<AtomicUsize>) {
    let changes = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&changes);
    let hook = move || {
        if counter.fetch_add(1, Ordering::Relaxed) < limit {
            return Ok(());
        }
        Err(io::Error::other("died"))
    };
    let store = Store::open_with_hook(folder, StoreOptions::default(), Some(Box::new(hook)));
    (store.ok(), changes)
}

fn copy_folder(from: &Path, to: &Path) {
    for path in files(from) {
        let copy = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(path, copy).unwrap();
    }
}
