//! Summarizes a recording with the project's own reader.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use tare_format::file::{Description, Reader};
use tare_format::record::kind::{FINISHED_INIT, PERF_RECORD_SAMPLE};
use tare_format::record::{RawRecord, Record, Sample};

/// The prefix of a note that holds a ledger.
const LEDGER: &[u8] = b"tare ledger ";

/// Totals of a recording.
#[derive(Debug, Default)]
pub(in crate::benchmark) struct Summary {
    pub(in crate::benchmark) samples: u64,
    /// Samples that name a thread of the recorder.
    pub(super) own: u64,
    /// Lost records, or the ledger's lost samples if those are more.
    pub(in crate::benchmark) lost: u64,
    /// Bytes of samples, decompressed.
    pub(super) sample_bytes: u64,
    /// Bytes of compressed records.
    pub(super) packed_bytes: u64,
    /// The latest time of a sample.
    pub(super) last_ns: u64,
    pub(super) ledger: Option<Value>,
}

/// Reads a whole recording. `recorder` is the pid of the process that made it, for recordings
/// without a ledger.
///
/// # Errors
/// The file or a record can't be read.
pub(in crate::benchmark) fn summarize(
    path: &Path,
    recorder: Option<i32>,
) -> anyhow::Result<Summary> {
    let mut reader = Reader::open(File::open(path)?).with_context(|| path.display().to_string())?;
    let mut summary = Summary::default();
    let mut own: BTreeSet<i32> = recorder.into_iter().collect();
    let mut fields = TaskFields::default();
    while let Some(entry) = reader.next_record()? {
        let size = entry.record.size() as u64;
        match entry.record.kind {
            PERF_RECORD_SAMPLE => {
                let event = entry.description.lookup().index_of(&entry.record);
                let sample = Sample::from_record(&entry.record, entry.description.lookup())?;
                summary.samples += 1;
                summary.sample_bytes += size;
                summary.last_ns = summary.last_ns.max(sample.head.time_ns.unwrap_or(0));
                let names_own = sample.head.tid.is_some_and(|tid| own.contains(&tid))
                    || fields.name_any(&own, event, &sample, entry.description);
                summary.own += u64::from(names_own);
            }
            FINISHED_INIT => {
                summary.ledger = entry
                    .description
                    .notes()
                    .iter()
                    .rev()
                    .find_map(|note| serde_json::from_slice(note.strip_prefix(LEDGER)?).ok());
                let tids = summary
                    .ledger
                    .as_ref()
                    .and_then(|ledger| ledger["recorder"]["tids"].as_array());
                own.extend(
                    tids.into_iter().flatten().filter_map(|tid| i32::try_from(tid.as_i64()?).ok()),
                );
            }
            _ => summary.count(&entry.record),
        }
    }
    anyhow::ensure!(
        reader.losses().is_empty(),
        "{}: not all of it can be read: {:?}",
        path.display(),
        reader.losses()
    );
    summary.lost = summary.lost.max(summary.ledger.as_ref().map_or(0, lost_by_event));
    Ok(summary)
}

impl Summary {
    fn count(&mut self, record: &RawRecord<'_>) {
        match record.decode() {
            Ok(Record::Lost(lost)) => self.lost += lost.lost,
            Ok(Record::Compressed { .. }) => self.packed_bytes += record.size() as u64,
            _ => {}
        }
    }
}

/// Lost samples of all events, according to a ledger.
fn lost_by_event(ledger: &Value) -> u64 {
    ledger["events"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|event| event["lost"].as_u64())
        .sum()
}

/// Offsets of thread ids in the raw data of tracepoints, by the event's index in the recording.
#[derive(Debug, Default)]
struct TaskFields(HashMap<usize, Vec<usize>>);

impl TaskFields {
    fn name_any(
        &mut self,
        own: &BTreeSet<i32>,
        event: Option<usize>,
        sample: &Sample<'_>,
        description: &Description,
    ) -> bool {
        let Some(event) = event else { return false };
        let Some(raw) = sample.raw else { return false };
        let offsets = self.0.entry(event).or_insert_with(|| {
            let name = description
                .events()
                .get(event)
                .and_then(|event| event.name.as_deref())
                .unwrap_or_default();
            offsets(&String::from_utf8_lossy(name))
        });
        let field = |at: &usize| raw.get(*at..at + 4)?.try_into().ok().map(i32::from_ne_bytes);
        offsets.iter().filter_map(field).any(|tid| own.contains(&tid))
    }
}

/// The offsets of the fields of a tracepoint, such as `sched:sched_switch`, that hold a thread id.
fn offsets(name: &str) -> Vec<usize> {
    let format = std::fs::read_to_string(format!(
        "/sys/kernel/tracing/events/{}/format",
        name.replace(':', "/")
    ))
    .unwrap_or_default();
    let offset = |line: &str| {
        let (declaration, rest) = line.trim_start().strip_prefix("field:")?.split_once(';')?;
        let is_task = declaration.rsplit(' ').next()?.ends_with("pid");
        rest.trim_start()
            .strip_prefix("offset:")?
            .split_once(';')?
            .0
            .parse()
            .ok()
            .filter(|_| is_task)
    };
    format.lines().filter_map(offset).collect()
}
