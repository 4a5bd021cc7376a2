//! Reads the contents of a file, a stream or a sink record by record.

use std::io::Cursor;

use tare_format::Endian;
use tare_format::file::{Description, Entry, OpenError, Reader, RecordedEvent};
use tare_format::ledger::Ledger;
use tare_format::record::{Record, Records, Sample, kind};

use crate::failure::Failure;
use crate::sink::KeptRecords;

/// A sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleContent {
    /// The event's id.
    pub(crate) id: u64,
    /// The address, which is the sample's number.
    pub(crate) ip: u64,
    /// The time in nanoseconds.
    pub(crate) time_ns: u64,
    /// The thread id.
    pub(crate) tid: i32,
    /// The period, if the sample has one.
    pub(crate) period: Option<u64>,
}

/// Contents of a file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    /// The samples in file order.
    pub(crate) samples: Vec<SampleContent>,
    /// The sum of the counts in `PERF_RECORD_LOST`.
    pub(crate) lost: u64,
    /// The number of `PERF_RECORD_THROTTLE`.
    pub(crate) throttled: u64,
    /// The last ledger in the notes.
    pub(crate) ledger: Option<Ledger>,
    /// Times in file order; `None` is a round mark.
    times: Vec<Option<u64>>,
}

impl Contents {
    /// Reads a file, or a stream.
    ///
    /// # Errors
    /// The reason why it can't be read completely.
    pub(crate) fn of_bytes(bytes: &[u8], is_stream: bool) -> Result<Self, String> {
        let error = |error: OpenError| error.to_string();
        if is_stream {
            Self::of_reader(Reader::stream(Cursor::new(bytes)).map_err(error)?)
        } else {
            Self::of_reader(Reader::open(Cursor::new(bytes)).map_err(error)?)
        }
    }

    fn of_reader<R: std::io::Read>(mut reader: Reader<R>) -> Result<Self, String> {
        let mut contents = Self::default();
        while let Some(entry) = reader.next_record().map_err(|error| error.to_string())? {
            contents.take(&entry)?;
        }
        // A recorder that was killed while it wrote the header leaves losses, but no samples.
        if !reader.losses().is_empty() && !contents.samples.is_empty() {
            return Err(format!("{:?}", reader.losses()));
        }
        let notes = reader.description().notes().iter();
        contents.ledger = notes.rev().find_map(|note| Ledger::from_note(note));
        Ok(contents)
    }

    /// Reads the records of a sink.
    ///
    /// # Errors
    /// The reason why it can't be read completely.
    pub(crate) fn of_sink(records: &KeptRecords) -> anyhow::Result<Self> {
        let unreadable = |reason: String| Failure::Unreadable { file: "sink".to_owned(), reason };
        let Some(described) = records.description() else { return Ok(Self::default()) };
        let events = described.events.into_iter().map(|event| RecordedEvent {
            attr: event.attr,
            ids: event.ids,
            name: Some(event.name.into_bytes()),
        });
        let description = Description::from_events(Endian::NATIVE, events);
        let bytes = records.bytes();
        let mut contents = Self::default();
        let mut all = Records::new(&bytes, Endian::NATIVE);
        for record in all.by_ref() {
            let entry = Entry { offset: 0, record, description: &description, payload: None };
            contents.take(&entry).map_err(unreadable)?;
        }
        if !all.rest().is_empty() {
            return Err(unreadable("the records end within one".to_owned()).into());
        }
        Ok(contents)
    }

    fn take(&mut self, entry: &Entry<'_>) -> Result<(), String> {
        let Entry { record, description, .. } = entry;
        let events = description.lookup();
        match record.kind {
            kind::PERF_RECORD_SAMPLE => {
                let layout = events.layout_of(record).ok_or("a sample of no event")?;
                let sample = Sample::decode(record, layout).map_err(|error| error.to_string())?;
                let head = sample.head;
                let whole = head.id.zip(head.ip).zip(head.time_ns).zip(head.tid);
                let (((id, ip), time_ns), tid) = whole.ok_or("a sample lacks a field")?;
                self.samples.push(SampleContent { id, ip, time_ns, tid, period: head.period });
                self.times.push(Some(time_ns));
            }
            kind::FINISHED_ROUND => self.times.push(None),
            // Records of perf's own kinds have no kernel time.
            _ if record.kind >= kind::HEADER_ATTR => {}
            _ => {
                let time_ns = events.time_ns(record).filter(|time_ns| *time_ns > 0);
                self.times.extend(time_ns.map(Some));
                match record.decode() {
                    Ok(Record::Lost(lost)) => self.lost += lost.lost,
                    Ok(Record::Throttle(_)) => self.throttled += 1,
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Checks round marks: no record after a mark is older than the records before the previous
    /// mark.
    ///
    /// # Errors
    /// [`Failure::Order`].
    pub(crate) fn order(&self, file: &str) -> Result<(), Failure> {
        let mut newest = 0;
        let mut limit = 0;
        let mut next_limit = 0;
        for time_ns in &self.times {
            match *time_ns {
                None => (limit, next_limit) = (next_limit, newest),
                Some(time_ns) if time_ns < limit => {
                    return Err(Failure::Order { file: file.to_owned(), time_ns, limit_ns: limit });
                }
                Some(time_ns) => newest = newest.max(time_ns),
            }
        }
        Ok(())
    }
}
