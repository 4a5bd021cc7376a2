//! Finds the event of a record, and describes the layout of an event's records.

use std::collections::HashMap;

use perf_event_open_sys::bindings::{
    PERF_SAMPLE_ADDR, PERF_SAMPLE_CPU, PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP,
    PERF_SAMPLE_PERIOD, PERF_SAMPLE_READ, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID, PERF_SAMPLE_TIME,
};

use super::{RawRecord, kind};
use crate::abi::{Attr, Flags, ReadFormat};
use crate::bytes::{Cursor, Words};

/// Converts bits of the bindings to the attribute's type.
pub(super) const fn bit(bit: u32) -> u64 {
    bit as u64
}

/// The attributes that determine the layout of an event's records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// The layout of counts.
    pub read_format: ReadFormat,
    /// `PERF_SAMPLE_BRANCH_*`.
    pub branch_sample_type: u64,
    /// One bit for each user register.
    pub regs_user: u64,
    /// One bit for each register at the interrupt.
    pub regs_intr: u64,
    /// Whether the kernel's records other than samples end with a [`SampleId`].
    pub sample_id_all: bool,
    /// Whether the event is inherited: the counts in its samples are then those of the sampled
    /// thread (Linux 6.12 and later; earlier kernels refuse such samples).
    pub is_inherited: bool,
}

impl From<&Attr> for Layout {
    fn from(attr: &Attr) -> Self {
        Self {
            sample_type: attr.sample_type,
            read_format: attr.read_format,
            branch_sample_type: attr.branch_sample_type,
            regs_user: attr.sample_regs_user,
            regs_intr: attr.sample_regs_intr,
            sample_id_all: attr.flags.contains(Flags::SAMPLE_ID_ALL),
            is_inherited: attr.flags.contains(Flags::INHERIT),
        }
    }
}

const IDENTIFIER: u64 = bit(PERF_SAMPLE_IDENTIFIER);
const TID: u64 = bit(PERF_SAMPLE_TID);
const TIME: u64 = bit(PERF_SAMPLE_TIME);
const ID: u64 = bit(PERF_SAMPLE_ID);
const STREAM_ID: u64 = bit(PERF_SAMPLE_STREAM_ID);
const CPU: u64 = bit(PERF_SAMPLE_CPU);

/// ```text
/// front of a sample:   [IDENTIFIER] [IP] [TID] [TIME] [ADDR] [ID] ...
/// end of other records: ... [TID] [TIME] [ID] [STREAM_ID] [CPU] [IDENTIFIER]     eight bytes each
/// ```
impl Layout {
    pub(super) fn has(&self, bits: u64) -> bool {
        self.sample_type & bits != 0
    }

    fn words(&self, bits: u64) -> usize {
        (self.sample_type & bits).count_ones() as usize
    }

    /// Returns the index of the word of a sample that holds its event's id.
    fn id_in_sample(&self) -> Option<usize> {
        let before = IDENTIFIER | bit(PERF_SAMPLE_IP) | TID | TIME | bit(PERF_SAMPLE_ADDR);
        if self.has(IDENTIFIER) { Some(0) } else { self.has(ID).then(|| self.words(before)) }
    }

    /// Returns which word of the trailer of any other record holds its event's id, counted from the
    /// trailer's end: 1 is the last.
    fn id_from_end(&self) -> Option<usize> {
        if self.has(IDENTIFIER) {
            Some(1)
        } else {
            self.has(ID).then(|| 1 + self.words(STREAM_ID | CPU))
        }
    }

    /// Returns a record's time in nanoseconds of the recording's clock, if it has one. Time 0
    /// counts as none: recorders write it into the records that they make up, such as mappings from
    /// before the recording, and these are due at their position.
    #[must_use]
    pub fn time_ns(&self, record: &RawRecord<'_>) -> Option<u64> {
        let time_ns = if !self.has(TIME) {
            None
        } else if record.kind == kind::PERF_RECORD_SAMPLE {
            Words::new(record.body, record.endian)
                .get(self.words(IDENTIFIER | bit(PERF_SAMPLE_IP) | TID))
        } else if self.has_trailer(record) {
            self.word_from_end(record, 1 + self.words(ID | STREAM_ID | CPU | IDENTIFIER))
        } else {
            None
        };
        time_ns.filter(|time_ns| *time_ns != 0)
    }

    /// Returns the number of bytes at the front of a sample that [`super::Sample::decode_front`]
    /// needs; `None` if it depends on the sample, which holds counts.
    #[must_use]
    pub fn front_size(&self) -> Option<usize> {
        let head = IDENTIFIER | bit(PERF_SAMPLE_IP) | TID | TIME | bit(PERF_SAMPLE_ADDR);
        let head = head | ID | STREAM_ID | CPU | bit(PERF_SAMPLE_PERIOD);
        (!self.has(bit(PERF_SAMPLE_READ))).then(|| 8 * self.words(head))
    }

    fn has_trailer(&self, record: &RawRecord<'_>) -> bool {
        self.sample_id_all && record.kind < kind::USER_TYPE_START
    }

    fn trailer_size(&self) -> usize {
        8 * self.words(TID | TIME | ID | STREAM_ID | CPU | IDENTIFIER)
    }

    /// Returns where the trailer of a record other than a sample ends in its body.
    fn trailer_end(&self, record: &RawRecord<'_>) -> usize {
        let stated = record.body.len();
        own_size(record).map_or(stated, |own| (own + self.trailer_size()).min(stated))
    }

    /// Returns the size in bytes of a record's body without the stale bytes that the kernel may
    /// append to records about its code and about BPF programs.
    #[must_use]
    pub fn true_body_size(&self, record: &RawRecord<'_>) -> usize {
        if self.has_trailer(record) { self.trailer_end(record) } else { record.body.len() }
    }

    /// Returns a word of the trailer, counted from its end: 1 is the last.
    fn word_from_end(&self, record: &RawRecord<'_>, from_end: usize) -> Option<u64> {
        let at = self.trailer_end(record).checked_sub(from_end * 8)?;
        Cursor::new(record.body.get(at..)?, record.endian).u64()
    }

    /// Encodes the end of a record other than a sample; empty without
    /// [`sample_id_all`](Self::sample_id_all). Fields that `id` lacks are 0.
    #[must_use]
    pub fn trailer(&self, id: &SampleId) -> Vec<u8> {
        let mut into = Vec::new();
        if !self.sample_id_all {
            return into;
        }
        if self.has(TID) {
            into.extend(
                [id.pid, id.tid].map(|number| number.unwrap_or(0).to_ne_bytes()).as_flattened(),
            );
        }
        let cpu = id.cpu.map(u64::from);
        let cpu = if cfg!(target_endian = "big") { cpu.map(|cpu| cpu << 32) } else { cpu };
        for (field, number) in [
            (TIME, id.time_ns),
            (ID, id.id),
            (STREAM_ID, id.stream_id),
            (CPU, cpu),
            (IDENTIFIER, id.id),
        ] {
            if self.has(field) {
                into.extend(number.unwrap_or(0).to_ne_bytes());
            }
        }
        into
    }

    /// Decodes the end of a record other than a sample. Fields that aren't recorded are `None`, and
    /// so are all if the record is too short.
    #[must_use]
    pub fn sample_id(&self, record: &RawRecord<'_>) -> SampleId {
        let at = self.trailer_end(record).checked_sub(self.trailer_size());
        let at = at.filter(|_| self.has_trailer(record));
        let Some(bytes) = at.and_then(|at| record.body.get(at..)) else {
            return SampleId::default();
        };
        let mut fields = Cursor::new(bytes, record.endian);
        let mut id = SampleId::default();
        if self.has(TID) {
            id.pid = fields.i32();
            id.tid = fields.i32();
        }
        let mut word = |bits: u64| if self.has(bits) { fields.u64() } else { None };
        id.time_ns = word(TIME);
        id.id = word(ID);
        id.stream_id = word(STREAM_ID);
        if self.has(CPU) {
            id.cpu = fields.u32();
            fields.u32();
        }
        id.id = if self.has(IDENTIFIER) { fields.u64() } else { id.id };
        id
    }
}

/// Returns the size of a record's own fields, for those kinds whose size the kernel may overstate:
/// `perf_event_ksymbol_output()`, `perf_event_bpf_output()` and `perf_event_text_poke_output()` in
/// `kernel/events/core.c` add the trailer's size to one shared header for each event that gets the
/// record, so stale bytes follow the trailer if it isn't the first event.
fn own_size(record: &RawRecord<'_>) -> Option<usize> {
    let size = match record.kind {
        kind::PERF_RECORD_KSYMBOL => {
            let name = record.body.get(16..)?;
            16 + name.iter().position(|byte| *byte == 0)? + 1
        }
        kind::PERF_RECORD_BPF_EVENT => 16,
        kind::PERF_RECORD_TEXT_POKE => {
            let mut lengths = Cursor::new(record.body.get(8..)?, record.endian);
            12 + usize::from(lengths.u16()?) + usize::from(lengths.u16()?)
        }
        _ => return None,
    };
    Some(size.next_multiple_of(8))
}

/// The end of a kernel's record other than a sample (`struct sample_id`). Fields that the event's
/// records lack are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleId {
    /// The process.
    pub pid: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// Time in nanoseconds of the recording's clock.
    pub time_ns: Option<u64>,
    /// The event's id.
    pub id: Option<u64>,
    /// The counter's id.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
}

/// Finds the events of a recording by the ids that records carry.
#[derive(Clone, Debug, Default)]
pub struct Events {
    layouts: Vec<Layout>,
    by_id: ById,
}

/// Ids less than this above the first are looked up in a table, others in a hash map.
const NEAR: u64 = 1 << 16;

/// Events by id. The kernel assigns ids consecutively, so those of one recording lie close
/// together.
#[derive(Clone, Debug, Default)]
struct ById {
    first: Option<u64>,
    /// The event of each id from `first` on, counted from 1; 0 if the id is unknown.
    near: Vec<usize>,
    far: HashMap<u64, usize, foldhash::fast::RandomState>,
}

impl ById {
    fn place(&self, id: u64) -> Option<usize> {
        let distance = id.checked_sub(self.first?).filter(|distance| *distance < NEAR)?;
        usize::try_from(distance).ok()
    }

    #[inline]
    fn get(&self, id: u64) -> Option<usize> {
        match self.place(id) {
            Some(at) => self.near.get(at)?.checked_sub(1),
            None => self.far.get(&id).copied(),
        }
    }

    /// Adds an id, unless it is known. Returns whether it is new.
    fn insert(&mut self, id: u64, event: usize) -> bool {
        self.first = self.first.or(Some(id));
        let Some(at) = self.place(id) else {
            let is_new = !self.far.contains_key(&id);
            self.far.entry(id).or_insert(event);
            return is_new;
        };
        if at >= self.near.len() {
            self.near.resize(at + 1, 0);
        }
        let is_new = self.near[at] == 0;
        if is_new {
            self.near[at] = event + 1;
        }
        is_new
    }
}

impl Events {
    /// Adds the next event, with its ids. An id that an earlier event has stays with that event.
    pub fn add(&mut self, layout: Layout, ids: impl IntoIterator<Item = u64>) {
        let event = self.layouts.len();
        self.layouts.push(layout);
        for id in ids {
            self.by_id.insert(id, event);
        }
    }

    /// Adds an id to the event at index `event`. Returns `false` if an event already has it.
    pub(crate) fn add_id(&mut self, event: usize, id: u64) -> bool {
        self.by_id.insert(id, event)
    }

    /// Returns the layout of each event, in the order in which they were added.
    #[must_use]
    pub fn layouts(&self) -> &[Layout] {
        &self.layouts
    }

    /// Returns the index of the event that has this id.
    #[must_use]
    pub fn with_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(id)
    }

    /// Returns the index of a record's event. Records without an id, or with id 0, which recorders
    /// write, belong to the first event; so do records with any id if there is one event. Returns
    /// `None` for an unknown id, and for kinds from [`kind::USER_TYPE_START`] on.
    #[must_use]
    pub fn index_of(&self, record: &RawRecord<'_>) -> Option<usize> {
        let first = self.layouts.first()?;
        if record.kind >= kind::USER_TYPE_START {
            return None;
        }
        let id = if record.kind == kind::PERF_RECORD_SAMPLE {
            first.id_in_sample().map(|at| Words::new(record.body, record.endian).get(at))
        } else {
            first
                .id_from_end()
                .filter(|_| first.sample_id_all)
                .map(|from_end| first.word_from_end(record, from_end))
        };
        match id {
            None | Some(Some(0)) => Some(0),
            Some(Some(_)) if self.layouts.len() == 1 => Some(0),
            Some(id) => self.with_id(id?),
        }
    }

    /// Returns the layout of a record's event: see [`Events::index_of`].
    #[must_use]
    pub fn layout_of(&self, record: &RawRecord<'_>) -> Option<&Layout> {
        self.layouts.get(self.index_of(record)?)
    }

    /// Returns a record's time: see [`Layout::time_ns`].
    #[must_use]
    pub fn time_ns(&self, record: &RawRecord<'_>) -> Option<u64> {
        self.layout_of(record)?.time_ns(record)
    }
}
