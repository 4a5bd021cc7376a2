//! What is in a file whose data had to end early: what was handed to the output is more than that.

use std::sync::Arc;

use tare_format::file::Reader;
use tare_format::file::writer::Description;
use tare_format::record::{RecordHeader, kind};

use super::{Recording, State};
use crate::capture::scanner::{EventTable, Scanner};
use crate::capture::stats::{FileStats, Stats};
use crate::output::disk::CutFile;

/// Bytes that the ledger of an event takes, at most.
const EVENT_BYTES: u64 = 1 << 10;

/// Bytes of the rest of a ledger.
const LEDGER_BYTES: u64 = 4 << 10;

impl Recording {
    /// Where the output takes nothing more: cuts its data so far back that the end of the file finds
    /// room, and counts what is left. `None` where all is there that was appended.
    pub(super) fn recount(&mut self, description: &Description) -> Option<Scanner> {
        let tail = description.ending(&(0..0)).map_or(0, |ending| ending.tail.len() as u64);
        let room = tail + LEDGER_BYTES + EVENT_BYTES * description.events.len() as u64;
        let file = self.shared.with_output(|output| output.cut_back(room))?;
        if let Err(why) = self.shared.flush()
            && !self.is_stopped()
        {
            self.state = State::Stopped(why.into());
        }
        Some(count(file, &self.shared.with_scanner(|scanner| scanner.shared_table())))
    }
}

/// The figures of a file with those that were counted in it.
pub(super) fn replace(stats: &mut FileStats, counted: &Scanner) {
    stats.forgotten = Stats::default();
    for ring in &mut stats.rings {
        let Stats { lost, throttled, fullest, .. } = ring.stats;
        ring.stats = Stats { lost, throttled, fullest, ..Stats::default() };
    }
    if let Some(ring) = stats.rings.first_mut() {
        let Stats { by_event, bytes, first_ns, last_ns, .. } = counted.stats.clone();
        ring.stats = Stats { by_event, bytes, first_ns, last_ns, ..ring.stats.clone() };
    }
}

/// Goes through a recording that was not finished.
fn count(file: CutFile, table: &Arc<EventTable>) -> Scanner {
    let mut scanner = Scanner::new(table);
    let Ok(mut reader) = Reader::open(file) else { return scanner };
    let mut bytes = Vec::new();
    while let Ok(Some(entry)) = reader.next_record() {
        let raw = entry.record;
        let is_kernels = raw.kind < kind::HEADER_ATTR;
        if let Some(header) =
            RecordHeader::new(raw.kind, raw.misc, raw.body.len()).ok().filter(|_| is_kernels)
        {
            bytes.clear();
            bytes.extend_from_slice(&header.encode());
            bytes.extend_from_slice(raw.body);
            scanner.see(&bytes, [&[], &[]]);
        }
    }
    scanner
}
