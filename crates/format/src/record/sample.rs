//! `PERF_RECORD_SAMPLE`: every field that `sample_type` can select.

use perf_event_open_sys::bindings::{
    PERF_SAMPLE_ADDR, PERF_SAMPLE_AUX, PERF_SAMPLE_BRANCH_COUNTERS, PERF_SAMPLE_BRANCH_HW_INDEX,
    PERF_SAMPLE_BRANCH_STACK, PERF_SAMPLE_CALLCHAIN, PERF_SAMPLE_CGROUP,
    PERF_SAMPLE_CODE_PAGE_SIZE, PERF_SAMPLE_CPU, PERF_SAMPLE_DATA_PAGE_SIZE, PERF_SAMPLE_DATA_SRC,
    PERF_SAMPLE_ID, PERF_SAMPLE_IDENTIFIER, PERF_SAMPLE_IP, PERF_SAMPLE_PERIOD,
    PERF_SAMPLE_PHYS_ADDR, PERF_SAMPLE_RAW, PERF_SAMPLE_READ, PERF_SAMPLE_REGS_INTR,
    PERF_SAMPLE_REGS_USER, PERF_SAMPLE_STACK_USER, PERF_SAMPLE_STREAM_ID, PERF_SAMPLE_TID,
    PERF_SAMPLE_TIME, PERF_SAMPLE_TRANSACTION, PERF_SAMPLE_WEIGHT, PERF_SAMPLE_WEIGHT_STRUCT,
};

use super::layout::bit;
use super::{DecodeError, Events, Layout, RawRecord, ReadValues, RecordHeader};
use crate::bytes::{Cursor, Endian, Words};

/// The fields after the copied user stack.
const LAST: u32 = PERF_SAMPLE_WEIGHT
    | PERF_SAMPLE_WEIGHT_STRUCT
    | PERF_SAMPLE_DATA_SRC
    | PERF_SAMPLE_TRANSACTION
    | PERF_SAMPLE_REGS_INTR
    | PERF_SAMPLE_PHYS_ADDR
    | PERF_SAMPLE_CGROUP
    | PERF_SAMPLE_DATA_PAGE_SIZE
    | PERF_SAMPLE_CODE_PAGE_SIZE
    | PERF_SAMPLE_AUX;

/// A sample. Fields that the event's samples lack are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample<'a> {
    /// The first fields.
    pub head: SampleHead,
    /// The counts of the event or its group.
    pub read: Option<ReadValues<'a>>,
    /// Return addresses, the innermost first, with `PERF_CONTEXT_*` markers between them.
    pub callchain: Option<Words<'a>>,
    /// A tracepoint's fields, or the PMU's own bytes.
    pub raw: Option<&'a [u8]>,
    /// The last branches.
    pub branches: Option<Branches<'a>>,
    /// User registers.
    pub regs_user: Option<Registers<'a>>,
    /// A copy of a part of the user stack.
    pub stack_user: Option<UserStack<'a>>,
    /// The cost of the sampled access; its unit depends on the event.
    pub weight: Option<u64>,
    /// With `WEIGHT_STRUCT`, the instruction's latency in cycles.
    pub ins_lat: Option<u16>,
    /// With `WEIGHT_STRUCT`, the cycles that the instruction spent in a stage of the pipeline;
    /// which one depends on the CPU.
    pub p_stage_cyc: Option<u16>,
    /// Source of the data (`union perf_mem_data_src`): see [`super::DataSource`].
    pub data_src: Option<u64>,
    /// Outcome of a transaction (`PERF_TXN_*`).
    pub transaction: Option<u64>,
    /// Registers at the interrupt.
    pub regs_intr: Option<Registers<'a>>,
    /// The physical address of `addr`.
    pub phys_addr: Option<u64>,
    /// The cgroup's id.
    pub cgroup: Option<u64>,
    /// Size in bytes of the page that contains `addr`.
    pub data_page_size: Option<u64>,
    /// Size in bytes of the page that contains `ip`.
    pub code_page_size: Option<u64>,
    /// The AUX data before the sample.
    pub aux: Option<&'a [u8]>,
}

/// The parts of a sample around its copied user stack, to write it again without the copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackParts<'a> {
    /// The body up to the call chain.
    before: &'a [u8],
    /// The recorded call chain.
    pub callchain: Words<'a>,
    /// The fields between the call chain and the copy that stay.
    between: &'a [u8],
    /// The fields after the copy.
    after: &'a [u8],
}

/// The parts of a sample around its copied user stack, to write it again with a shorter copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StackCopy<'a> {
    /// The first fields.
    pub head: SampleHead,
    /// The user registers, if recorded.
    pub registers: Option<Registers<'a>>,
    /// The copied bytes.
    pub bytes: &'a [u8],
    /// The body up to the size of the copy.
    before: &'a [u8],
    /// The fields after the copy.
    after: &'a [u8],
}

/// The first fields of a sample, one word each. Reports that need no more skip the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleHead {
    /// The event's id (`IDENTIFIER`, else `ID`).
    pub id: Option<u64>,
    /// Instruction pointer.
    pub ip: Option<u64>,
    /// The process.
    pub pid: Option<i32>,
    /// The thread.
    pub tid: Option<i32>,
    /// Time in nanoseconds of the recording's clock.
    pub time_ns: Option<u64>,
    /// The accessed address; its meaning depends on the event.
    pub addr: Option<u64>,
    /// The counter's id.
    pub stream_id: Option<u64>,
    /// The CPU.
    pub cpu: Option<u32>,
    /// Occurrences that the sample stands for (nanoseconds for clock events).
    pub period: Option<u64>,
}

/// Register values, one for each bit in the event's mask, from the lowest bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers<'a> {
    /// `PERF_SAMPLE_REGS_ABI_*`: 0 for no registers (a kernel thread), 1 for 32 bits, 2 for 64
    /// bits.
    pub abi: u64,
    /// One bit per register.
    pub mask: u64,
    /// The values; empty if `abi` is 0.
    pub values: Words<'a>,
}

impl Registers<'_> {
    /// Returns the value of the register with this number (`PERF_REG_*` of the machine).
    #[must_use]
    pub fn get(&self, register: u32) -> Option<u64> {
        let below = 1_u64.checked_shl(register)?;
        if self.mask & below == 0 {
            return None;
        }
        self.values.get((self.mask & (below - 1)).count_ones() as usize)
    }
}

/// A copy of the user stack, from the stack pointer upwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The copied bytes.
    pub bytes: &'a [u8],
    /// Bytes that the sample has for the copy: the requested size, or less if the sample would be
    /// too long; 0 without a user stack.
    pub room: u64,
}

/// The last branches before the sample, the latest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branches<'a> {
    /// Position in the hardware's branch list.
    pub hw_index: Option<u64>,
    entries: Words<'a>,
    /// Counts of events between branches, one word per branch, if requested.
    pub counters: Option<Words<'a>>,
    endian: Endian,
}

/// One branch (`struct perf_branch_entry`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Source of the branch.
    pub from: u64,
    /// Target of the branch.
    pub to: u64,
    /// Whether it was mispredicted.
    pub mispredicted: bool,
    /// Whether it was predicted correctly. If neither flag is set, the prediction is unknown.
    pub predicted: bool,
    /// Whether it was in a transaction.
    pub in_transaction: bool,
    /// Whether it aborted a transaction.
    pub abort: bool,
    /// CPU cycles since the previous branch; 0 if unknown.
    pub cycles: u16,
    /// `PERF_BR_*`.
    pub branch_type: u8,
    /// `PERF_BR_NEW_*`, if the type is `PERF_BR_EXTEND_ABI`.
    pub new_type: u8,
}

impl<'a> Branches<'a> {
    /// Iterates over the branches, the latest first.
    pub fn iter(&self) -> impl Iterator<Item = Branch> + 'a {
        let Self { entries, endian, .. } = *self;
        (0..entries.len() / 3).filter_map(move |at| {
            let word = |place| entries.get(at * 3 + place);
            Some(Branch::new(word(0)?, word(1)?, word(2)?, endian))
        })
    }
}

impl Branch {
    /// Creates a branch. Its flags are C bit fields, which compilers for big-endian machines
    /// allocate from the highest bit down.
    fn new(from: u64, to: u64, flags: u64, endian: Endian) -> Self {
        let field = |at: u32, width: u32| {
            let shift = if endian == Endian::Big { 64 - at - width } else { at };
            flags >> shift & ((1 << width) - 1)
        };
        Self {
            from,
            to,
            mispredicted: field(0, 1) != 0,
            predicted: field(1, 1) != 0,
            in_transaction: field(2, 1) != 0,
            abort: field(3, 1) != 0,
            cycles: u16::try_from(field(4, 16)).unwrap_or_default(),
            branch_type: u8::try_from(field(20, 4)).unwrap_or_default(),
            new_type: u8::try_from(field(26, 4)).unwrap_or_default(),
        }
    }
}

impl<'a> Sample<'a> {
    /// Decodes a `SAMPLE` record according to its event.
    ///
    /// # Errors
    /// Fails if the event is unknown, or the record is shorter than its layout says.
    pub fn from_record(record: &RawRecord<'a>, events: &Events) -> Result<Self, DecodeError> {
        Self::decode(
            record,
            events.layout_of(record).ok_or(DecodeError::NoEvent { kind: record.kind })?,
        )
    }

    /// Decodes a `SAMPLE` record made by an event with this layout.
    ///
    /// # Errors
    /// Fails if the record is shorter than the layout says.
    pub fn decode(record: &RawRecord<'a>, layout: &Layout) -> Result<Self, DecodeError> {
        let mut sample = Self::default();
        sample.fill(record, layout)?;
        Ok(sample)
    }

    /// Like [`Self::decode`], into an empty sample, which saves moving a large struct.
    ///
    /// # Errors
    /// Fails if the record is shorter than the layout says.
    pub fn fill(&mut self, record: &RawRecord<'a>, layout: &Layout) -> Result<(), DecodeError> {
        let mut fields = Fields { cursor: Cursor::new(record.body, record.endian), layout };
        self.fill_whole(&mut fields)
            .ok_or(DecodeError::Truncated { kind: record.kind, len: record.body.len() })
    }

    /// Decodes the front of a `SAMPLE` record: its head, and the counts of its event or group. The
    /// rest is ignored and may be missing.
    ///
    /// # Errors
    /// Fails if the record ends before that.
    pub fn decode_front(record: &RawRecord<'a>, layout: &Layout) -> Result<Self, DecodeError> {
        let mut sample = Self::default();
        sample.fill_front(record, layout)?;
        Ok(sample)
    }

    /// Like [`Self::decode_front`], into an empty sample.
    ///
    /// # Errors
    /// Fails if the record ends before that.
    pub fn fill_front(
        &mut self,
        record: &RawRecord<'a>,
        layout: &Layout,
    ) -> Result<(), DecodeError> {
        let mut fields = Fields { cursor: Cursor::new(record.body, record.endian), layout };
        let filled = fields.fill_head(&mut self.head).and_then(|()| self.fill_counts(&mut fields));
        filled.ok_or(DecodeError::Truncated { kind: record.kind, len: record.body.len() })
    }

    fn fill_whole(&mut self, fields: &mut Fields<'a, '_>) -> Option<()> {
        fields.fill_head(&mut self.head)?;
        self.fill_sized(fields)?;
        if fields.has(LAST) { self.fill_last(fields) } else { Some(()) }
    }

    /// Decodes the fields from the counts to the copied user stack.
    fn fill_sized(&mut self, fields: &mut Fields<'a, '_>) -> Option<()> {
        self.fill_counts(fields)?;
        if fields.has(PERF_SAMPLE_CALLCHAIN) {
            let count = fields.cursor.u64()?;
            self.callchain = Some(fields.cursor.words(count)?);
        }
        self.fill_raw_and_branches(fields)?;
        self.fill_user(fields)
    }

    fn fill_raw_and_branches(&mut self, fields: &mut Fields<'a, '_>) -> Option<()> {
        if fields.has(PERF_SAMPLE_RAW) {
            let size = fields.cursor.u32()?;
            self.raw = Some(fields.cursor.take(size.into())?);
        }
        if fields.has(PERF_SAMPLE_BRANCH_STACK) {
            self.branches = Some(fields.branches()?);
        }
        Some(())
    }

    /// Decodes the user registers and the copied user stack.
    fn fill_user(&mut self, fields: &mut Fields<'a, '_>) -> Option<()> {
        if fields.has(PERF_SAMPLE_REGS_USER) {
            self.regs_user = Some(fields.registers(fields.layout.regs_user)?);
        }
        if fields.has(PERF_SAMPLE_STACK_USER) {
            self.stack_user = Some(fields.stack()?);
        }
        Some(())
    }

    fn fill_counts(&mut self, fields: &mut Fields<'a, '_>) -> Option<()> {
        if fields.has(PERF_SAMPLE_READ) {
            self.read = Some(ReadValues::decode(&mut fields.cursor, fields.layout.read_format)?);
        }
        Some(())
    }

    /// Decodes the fields after the copied user stack.
    fn fill_last(&mut self, fields: &mut Fields<'a, '_>) -> Option<()> {
        self.weight = fields.word(PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT).ok()?;
        if let Some(weight) = self.weight.filter(|_| fields.has(PERF_SAMPLE_WEIGHT_STRUCT)) {
            // `union perf_sample_weight` holds three numbers of 32, 16 and 16 bits, the lowest
            // first.
            self.weight = Some(weight & u64::from(u32::MAX));
            self.ins_lat = u16::try_from(weight >> 32 & 0xffff).ok();
            self.p_stage_cyc = u16::try_from(weight >> 48).ok();
        }
        self.data_src = fields.word(PERF_SAMPLE_DATA_SRC).ok()?;
        self.transaction = fields.word(PERF_SAMPLE_TRANSACTION).ok()?;
        if fields.has(PERF_SAMPLE_REGS_INTR) {
            self.regs_intr = Some(fields.registers(fields.layout.regs_intr)?);
        }
        self.phys_addr = fields.word(PERF_SAMPLE_PHYS_ADDR).ok()?;
        self.cgroup = fields.word(PERF_SAMPLE_CGROUP).ok()?;
        self.data_page_size = fields.word(PERF_SAMPLE_DATA_PAGE_SIZE).ok()?;
        self.code_page_size = fields.word(PERF_SAMPLE_CODE_PAGE_SIZE).ok()?;
        if fields.has(PERF_SAMPLE_AUX) {
            let size = fields.cursor.u64()?;
            self.aux = Some(fields.cursor.take(size)?);
        }
        Some(())
    }
}

impl<'a> StackParts<'a> {
    /// Finds the parts of a sample that was made by an event with this layout. `None` if the sample
    /// is shorter than the layout says, or has no call chain. `keeps_registers`: whether the user
    /// registers stay.
    #[must_use]
    pub fn find(record: &RawRecord<'a>, layout: &Layout, keeps_registers: bool) -> Option<Self> {
        let mut fields = Fields { cursor: Cursor::new(record.body, record.endian), layout };
        let body = |from: &'a [u8], to: &'a [u8]| from.get(..from.len().checked_sub(to.len())?);
        let mut sample = Sample::default();
        fields.fill_head(&mut sample.head)?;
        sample.fill_counts(&mut fields)?;
        let before = body(record.body, fields.cursor.rest())?;
        if !fields.has(PERF_SAMPLE_CALLCHAIN) {
            return None;
        }
        let count = fields.cursor.u64()?;
        let callchain = fields.cursor.words(count)?;
        let rest = fields.cursor.rest();
        sample.fill_raw_and_branches(&mut fields)?;
        let mut end = fields.cursor.rest();
        sample.fill_user(&mut fields)?;
        let after = fields.cursor.rest();
        if keeps_registers && fields.has(PERF_SAMPLE_REGS_USER) {
            let registers = sample.regs_user?.values.len();
            end = end.get(8 * (1 + registers)..)?;
        }
        Some(Self { before, callchain, between: body(rest, end)?, after })
    }

    /// Appends the sample with this call chain and without the copy, in the byte order of this
    /// machine. Addresses beyond the longest record are left out.
    pub fn encode(&self, header: RecordHeader, chain: &[u64], into: &mut Vec<u8>) {
        let Self { before, between, after, .. } = self;
        let others = before.len() + 8 + between.len() + after.len();
        let room = usize::from(u16::MAX).saturating_sub(RecordHeader::SIZE + others) / 8;
        let chain = chain.get(..room).unwrap_or(chain);
        let body = others + 8 * chain.len();
        // The parts are shorter than the sample that they are from.
        let Ok(header) = RecordHeader::new(header.kind, header.misc, body) else { return };
        into.extend(header.encode());
        into.extend_from_slice(before);
        into.extend((chain.len() as u64).to_ne_bytes());
        chain.iter().for_each(|address| into.extend(address.to_ne_bytes()));
        into.extend_from_slice(between);
        into.extend_from_slice(after);
    }
}

impl<'a> StackCopy<'a> {
    /// Finds the copied stack of a sample that was made by an event with this layout. `None` if the
    /// sample is shorter than the layout says, or has no room for a copy of whole words.
    #[must_use]
    pub fn find(record: &RawRecord<'a>, layout: &Layout) -> Option<Self> {
        let mut fields = Fields { cursor: Cursor::new(record.body, record.endian), layout };
        if !fields.has(PERF_SAMPLE_STACK_USER) {
            return None;
        }
        let mut sample = Sample::default();
        fields.fill_head(&mut sample.head)?;
        sample.fill_counts(&mut fields)?;
        if fields.has(PERF_SAMPLE_CALLCHAIN) {
            let count = fields.cursor.u64()?;
            sample.callchain = Some(fields.cursor.words(count)?);
        }
        sample.fill_raw_and_branches(&mut fields)?;
        if fields.has(PERF_SAMPLE_REGS_USER) {
            sample.regs_user = Some(fields.registers(fields.layout.regs_user)?);
        }
        let rest = fields.cursor.rest();
        let before = record.body.get(..record.body.len().checked_sub(rest.len())?)?;
        // The kernel makes room for whole words.
        let has_room = |room: u64| room > 0 && room.is_multiple_of(8);
        let stack = fields.stack().filter(|stack| has_room(stack.room))?;
        let after = fields.cursor.rest();
        let Sample { head, regs_user: registers, .. } = sample;
        Some(Self { head, registers, bytes: stack.bytes, before, after })
    }

    /// Appends the sample with at most the first `most` bytes of the copy, in the byte order of
    /// this machine. It has no room for more than these, rounded up to words, at least one.
    pub fn encode(&self, header: RecordHeader, most: usize, into: &mut Vec<u8>) {
        let Self { before, bytes, after, .. } = self;
        let bytes = bytes.get(..most).unwrap_or(bytes);
        let room = bytes.len().next_multiple_of(8).max(8);
        let body = before.len() + 8 + room + 8 + after.len();
        // It isn't longer than the sample that it is from, whose room is a multiple of words.
        let Ok(header) = RecordHeader::new(header.kind, header.misc, body) else { return };
        into.extend(header.encode());
        into.extend_from_slice(before);
        into.extend((room as u64).to_ne_bytes());
        into.extend_from_slice(bytes);
        into.resize(into.len() + room - bytes.len(), 0);
        into.extend((bytes.len() as u64).to_ne_bytes());
        into.extend_from_slice(after);
    }
}

impl SampleHead {
    /// Decodes the first fields of a `SAMPLE` record made by an event with this layout. The rest is
    /// ignored.
    ///
    /// # Errors
    /// Fails if the record ends before that.
    #[inline]
    pub fn decode(record: &RawRecord<'_>, layout: &Layout) -> Result<Self, DecodeError> {
        let mut head = Self::default();
        Fields { cursor: Cursor::new(record.body, record.endian), layout }
            .fill_head(&mut head)
            .map(|()| head)
            .ok_or(DecodeError::Truncated { kind: record.kind, len: record.body.len() })
    }
}

/// A sample's remaining bytes, and its layout. Decoding methods return `None` or [`TooShort`] if
/// the bytes end early.
struct Fields<'a, 'l> {
    cursor: Cursor<'a>,
    layout: &'l Layout,
}

/// The bytes of a sample end before the word.
struct TooShort;

impl<'a> Fields<'a, '_> {
    fn has(&self, bits: u32) -> bool {
        self.layout.has(bit(bits))
    }

    /// Takes the next word if one of the bits is set.
    fn word(&mut self, bits: u32) -> Result<Option<u64>, TooShort> {
        if self.has(bits) { self.cursor.u64().map(Some).ok_or(TooShort) } else { Ok(None) }
    }

    #[inline]
    fn fill_head(&mut self, head: &mut SampleHead) -> Option<()> {
        head.id = self.word(PERF_SAMPLE_IDENTIFIER).ok()?;
        head.ip = self.word(PERF_SAMPLE_IP).ok()?;
        if self.has(PERF_SAMPLE_TID) {
            head.pid = Some(self.cursor.i32()?);
            head.tid = Some(self.cursor.i32()?);
        }
        head.time_ns = self.word(PERF_SAMPLE_TIME).ok()?;
        head.addr = self.word(PERF_SAMPLE_ADDR).ok()?;
        let id = self.word(PERF_SAMPLE_ID).ok()?;
        head.id = head.id.or(id);
        head.stream_id = self.word(PERF_SAMPLE_STREAM_ID).ok()?;
        if self.has(PERF_SAMPLE_CPU) {
            head.cpu = Some(self.cursor.u32()?);
            self.cursor.u32()?;
        }
        head.period = self.word(PERF_SAMPLE_PERIOD).ok()?;
        Some(())
    }

    fn branches(&mut self) -> Option<Branches<'a>> {
        let has = |bits: u32| self.layout.branch_sample_type & bit(bits) != 0;
        let count = self.cursor.u64()?;
        let hw_index =
            if has(PERF_SAMPLE_BRANCH_HW_INDEX) { Some(self.cursor.u64()?) } else { None };
        let entries = self.cursor.words(count.checked_mul(3)?)?;
        let counters =
            if has(PERF_SAMPLE_BRANCH_COUNTERS) { Some(self.cursor.words(count)?) } else { None };
        Some(Branches { hw_index, entries, counters, endian: self.cursor.endian() })
    }

    fn registers(&mut self, mask: u64) -> Option<Registers<'a>> {
        let abi = self.cursor.u64()?;
        let count = if abi == 0 { 0 } else { mask.count_ones() };
        Some(Registers { abi, mask, values: self.cursor.words(count.into())? })
    }

    fn stack(&mut self) -> Option<UserStack<'a>> {
        let room = self.cursor.u64()?;
        let all = self.cursor.take(room)?;
        let copied = if room == 0 { 0 } else { self.cursor.u64()? };
        let bytes =
            usize::try_from(copied).ok().and_then(|copied| all.get(..copied)).unwrap_or(all);
        Some(UserStack { bytes, room })
    }
}
