//! Features of the session: its command, events, clocks, compression and files. The layouts are
//! those that `tools/perf/util/header.c` writes.

use super::{
    BUILD_ID, CLOCK_DATA, CMDLINE, COMPRESSED, EVENT_DESC, FeatureError, Features, GROUP_DESC,
    SAMPLE_TIME, decode_list,
};
use crate::abi::Attr;
use crate::bytes::{Cursor, Words};
use crate::limits;
use crate::record::{BuildId, RawRecord};

/// An event, with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct EventDesc<'a> {
    /// As passed to the kernel.
    pub attr: Attr,
    /// Its name in reports.
    pub name: &'a [u8],
    /// The ids of its counters.
    pub ids: Words<'a>,
}

/// A group of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupDesc<'a> {
    /// Its name; empty, or `{anon_group}` in perf's recordings, if the user gave none.
    pub name: &'a [u8],
    /// The leader's index among the events.
    pub leader: u32,
    /// Number of events, the leader included.
    pub members: u32,
}

impl GroupDesc<'_> {
    /// Returns the indices of its events. `events` is the number of events; a damaged recording may
    /// claim more.
    #[must_use]
    pub fn places(&self, events: usize) -> std::ops::Range<usize> {
        let first = (self.leader as usize).min(events);
        first..first.saturating_add(self.members as usize).min(events)
    }
}

/// The recording's clock and the time of day, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockData {
    /// `CLOCK_*`.
    pub clockid: u32,
    /// The time of day, in ns since 1970.
    pub wall_clock_ns: u64,
    /// The recording's clock, in ns.
    pub clock_ns: u64,
}

impl ClockData {
    /// Converts a time of the recording's clock to ns since 1970. Times before 1970 become 0.
    #[must_use]
    pub fn to_wall_ns(&self, recorded_ns: u64) -> u64 {
        if recorded_ns >= self.clock_ns {
            self.wall_clock_ns.saturating_add(recorded_ns - self.clock_ns)
        } else {
            self.wall_clock_ns.saturating_sub(self.clock_ns - recorded_ns)
        }
    }
}

/// Compression of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// 1: zstd.
    pub kind: u32,
    /// The requested level.
    pub level: u32,
    /// Bytes of records per compressed byte, rounded.
    pub ratio: u32,
    /// Maximum number of bytes that a compressed record decompresses to; in perf's recordings the
    /// size of a ring.
    pub mmap_len: u32,
}

impl Features {
    /// Returns the recorder's command line, by argument.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn cmdline(&self) -> Result<Vec<&[u8]>, FeatureError> {
        self.decode(CMDLINE, |fields| decode_list(fields, Cursor::header_string))
    }

    /// Returns the events with their names.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn event_desc(&self) -> Result<Vec<EventDesc<'_>>, FeatureError> {
        self.decode(EVENT_DESC, |fields| {
            let count = fields.u32().filter(|count| *count <= limits::LIST_ITEMS)?;
            let attr_size = fields.u32()?;
            let event = |_| {
                let attr =
                    Attr::from_bytes_in(fields.take(attr_size.into())?, fields.endian()).ok()?;
                let ids = fields.u32()?;
                Some(EventDesc {
                    attr,
                    name: fields.header_string()?,
                    ids: fields.words(ids.into())?,
                })
            };
            (0..count).map(event).collect()
        })
    }

    /// Returns the groups; recorders list those of more than one event.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn group_desc(&self) -> Result<Vec<GroupDesc<'_>>, FeatureError> {
        self.decode(GROUP_DESC, |fields| {
            decode_list(fields, |fields| {
                Some(GroupDesc {
                    name: fields.header_string()?,
                    leader: fields.u32()?,
                    members: fields.u32()?,
                })
            })
        })
    }

    /// Returns the times of the first and the last sample, in nanoseconds of the recording's clock.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn sample_time_ns(&self) -> Result<(u64, u64), FeatureError> {
        self.decode(SAMPLE_TIME, |fields| Some((fields.u64()?, fields.u64()?)))
    }

    /// Returns the recording's clock relative to the time of day.
    ///
    /// # Errors
    /// See [`FeatureError`]. A version other than 1 is malformed.
    pub fn clock_data(&self) -> Result<ClockData, FeatureError> {
        self.decode(CLOCK_DATA, |fields| {
            fields.u32().filter(|version| *version == 1)?;
            Some(ClockData {
                clockid: fields.u32()?,
                wall_clock_ns: fields.u64()?,
                clock_ns: fields.u64()?,
            })
        })
    }

    /// Returns how the records are compressed.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn compression(&self) -> Result<Compression, FeatureError> {
        self.decode(COMPRESSED, |fields| {
            let _version = fields.u32()?;
            Some(Compression {
                kind: fields.u32()?,
                level: fields.u32()?,
                ratio: fields.u32()?,
                mmap_len: fields.u32()?,
            })
        })
    }

    /// Iterates over the build ids of files, up to the first truncated entry.
    ///
    /// # Errors
    /// See [`FeatureError`].
    pub fn build_ids(&self) -> Result<impl Iterator<Item = BuildId<'_>>, FeatureError> {
        let mut rest = self.section(BUILD_ID).ok_or(FeatureError::Absent(BUILD_ID))?;
        let endian = self.endian;
        Ok(std::iter::from_fn(move || {
            let record = RawRecord::first(rest, endian)?;
            rest = rest.get(record.size()..)?;
            BuildId::decode(Cursor::new(record.body, endian), record.misc)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::GroupDesc;

    #[test]
    fn a_group_has_no_more_events_than_there_are() {
        let places = |leader, members| GroupDesc { name: b"", leader, members }.places(4);
        assert_eq!((places(1, 2), places(1, u32::MAX), places(9, 1)), (1..3, 1..4, 4..4));
    }
}
