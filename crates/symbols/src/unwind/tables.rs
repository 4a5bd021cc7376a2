//! The unwind tables of a DSO: finds the row at an address.

use std::collections::HashMap;
use std::ops::Range;

use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, EhFrameHdr, EndianSlice,
    FrameDescriptionEntry, LittleEndian, ParsedEhFrameHdr, UnwindContext, UnwindSection, Vendor,
};
use object::read::ReadRef;

use super::arch::{self, Arch};
use super::row::{Cfa, ExpressionRange, Origin, Rule, UnwindRow};
use crate::elf::{FrameTables, Segments};
use crate::limits;

pub(super) type Bytes<'a> = EndianSlice<'a, LittleEndian>;

/// Unwind tables, with indices where the file has none.
#[derive(Debug)]
pub(super) struct UnwindTables {
    frames: FrameTables,
    bases: BaseAddresses,
    /// Index of `.eh_frame`, if the file has none.
    eh_frame_index: Option<Index>,
    debug_frame_index: Index,
}

/// First addresses of entries with their offsets in the section, sorted.
type Index = Vec<(u64, usize)>;

/// Buffers and work limit of a thread.
#[derive(Debug)]
pub(super) struct Context {
    rows: UnwindContext<usize>,
    /// Bytes of the tables' entries and of code that the thread may still read.
    pub(super) left: usize,
}

impl Default for Context {
    fn default() -> Self {
        Self { rows: UnwindContext::default(), left: limits::UNWIND_WORK }
    }
}

impl Context {
    /// Renews the limit on work.
    pub(super) fn renew(&mut self) {
        self.left = limits::UNWIND_WORK;
    }
}

/// Result of looking up an address.
#[derive(Debug)]
pub(super) enum RowLookup {
    Row {
        row: UnwindRow,
        /// Whether the address is the last byte of its entry.
        is_last: bool,
    },
    /// No entry contains the address.
    NoEntry,
    /// The file has no table.
    NoTable,
    /// The entry is damaged or too long, its row has values that no compiler writes, or the limit
    /// on work is reached.
    Damaged,
}

impl UnwindTables {
    pub(super) fn new(frames: FrameTables) -> Self {
        let bases = BaseAddresses::default()
            .set_eh_frame(frames.sections.eh_frame.address)
            .set_eh_frame_hdr(frames.sections.eh_frame_hdr.address)
            .set_text(frames.sections.text)
            .set_got(frames.sections.got);
        let mut tables =
            Self { frames, bases, eh_frame_index: None, debug_frame_index: Vec::new() };
        if tables.sorted().is_none_or(|sorted| sorted.table().is_none()) {
            let bytes = tables.frames.sections.eh_frame.bytes.len();
            tables.eh_frame_index = Some(tables.index(&tables.eh_frame(), bytes));
        }
        let bytes = tables.frames.sections.debug_frame.bytes.len();
        tables.debug_frame_index = tables.index(&tables.debug_frame(), bytes);
        tables
    }

    /// Architecture of the code; `None` if it isn't supported.
    pub(super) fn arch(&self) -> Option<&'static Arch> {
        [&arch::X86_64, &arch::X86, &arch::AARCH64]
            .into_iter()
            .find(|arch| arch.machine == self.frames.machine)
    }

    /// Bytes of the tables and of their indices.
    pub(super) fn bytes(&self) -> u64 {
        let entries =
            self.eh_frame_index.as_ref().map_or(0, Vec::len) + self.debug_frame_index.len();
        self.frames.bytes() + (entries * size_of::<(u64, usize)>()) as u64
    }

    pub(super) fn segments(&self) -> &Segments {
        &self.frames.segments
    }

    /// Whether an address is in the 64 bytes from the file's entry point on.
    pub(super) fn is_entry_point(&self, address: u64) -> bool {
        /// Bytes of `_start`, which sets up registers and makes a call.
        const BYTES: u64 = 64;
        self.frames.entry != 0 && address.wrapping_sub(self.frames.entry) < BYTES
    }

    fn eh_frame(&self) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(&self.frames.sections.eh_frame.bytes, LittleEndian);
        section.set_address_size(self.frames.address_bytes);
        section.set_vendor(Vendor::AArch64);
        section
    }

    fn debug_frame(&self) -> DebugFrame<Bytes<'_>> {
        let mut section = DebugFrame::new(&self.frames.sections.debug_frame.bytes, LittleEndian);
        section.set_address_size(self.frames.address_bytes);
        section.set_vendor(Vendor::AArch64);
        section
    }

    pub(super) fn expression(&self, place: &ExpressionRange) -> Option<Bytes<'_>> {
        let section = match place.is_debug_frame {
            true => &self.frames.sections.debug_frame.bytes,
            false => &self.frames.sections.eh_frame.bytes,
        };
        let start = place.offset as usize;
        let bytes = section.get(start..start.checked_add(place.length as usize)?)?;
        Some(EndianSlice::new(bytes, LittleEndian))
    }

    /// Parses the sorted table. `None` also if it claims more entries than it has bytes: gimli's
    /// size calculation would overflow.
    fn sorted(&self) -> Option<ParsedEhFrameHdr<Bytes<'_>>> {
        let bytes = &self.frames.sections.eh_frame_hdr.bytes;
        let address_bytes = self.frames.address_bytes;
        let parsed = EhFrameHdr::new(bytes, LittleEndian).parse(&self.bases, address_bytes).ok()?;
        let entries = parsed.table().map_or(0, |table| table.iter(&self.bases).size_hint().0);
        (entries <= bytes.len()).then_some(parsed)
    }

    /// Builds the index of a section.
    fn index<'a, S: UnwindSection<Bytes<'a>>>(&self, section: &S, bytes: usize) -> Index {
        let mut index = Vec::new();
        self.for_each_entry(section, bytes, |entry| {
            index.push((entry.initial_address(), entry.offset()));
        });
        index.sort_unstable();
        index
    }

    /// Calls `see` for the entries of a section, without damaged ones. Stops where the next entry
    /// can't be found, or at a limit on work.
    fn for_each_entry<'a, S: UnwindSection<Bytes<'a>>>(
        &self,
        section: &S,
        bytes: usize,
        mut see: impl FnMut(FrameDescriptionEntry<Bytes<'a>>),
    ) {
        let mut entries = section.entries(&self.bases);
        // The entries (FDEs) of a file share a handful of CIEs. Those of a damaged file may each
        // have their own, which overlap.
        let mut cies: HashMap<usize, CommonInformationEntry<Bytes<'a>>> = HashMap::new();
        let mut left = bytes.saturating_mul(4).saturating_add(1 << 20);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(entry) = entry else { continue };
            let parsed = entry.parse(|section: &S, bases, offset: S::Offset| {
                let at = gimli::UnwindOffset::into(offset);
                if let Some(cie) = cies.get(&at) {
                    return Ok(cie.clone());
                }
                let cie = section.cie_from_offset(bases, offset)?;
                left = left.saturating_sub(cie.entry_len().saturating_add(16));
                if cie.entry_len() <= limits::UNWIND_INSTRUCTIONS {
                    cies.insert(at, cie.clone());
                }
                Ok(cie)
            });
            parsed.into_iter().for_each(&mut see);
            if left == 0 {
                break;
            }
        }
    }

    /// Returns the functions with an entry, sorted by address.
    fn functions(&self) -> Vec<Range<u64>> {
        let mut ranges = Vec::new();
        let mut see = |entry: FrameDescriptionEntry<Bytes<'_>>| {
            if ranges.len() < limits::SYMBOLS && entry.end_address() > entry.initial_address() {
                ranges.push(entry.initial_address()..entry.end_address());
            }
        };
        let sections = &self.frames.sections;
        self.for_each_entry(&self.eh_frame(), sections.eh_frame.bytes.len(), &mut see);
        self.for_each_entry(&self.debug_frame(), sections.debug_frame.bytes.len(), &mut see);
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        ranges.dedup_by_key(|range| range.start);
        ranges
    }

    /// Returns the offset of the entry in `.eh_frame` that may contain an address.
    fn eh_frame_offset(&self, address: u64) -> Option<usize> {
        if let Some(index) = &self.eh_frame_index {
            return offset_in(index, address);
        }
        let sorted = self.sorted()?;
        let table = sorted.table()?;
        let pointer = table.lookup(address, &self.bases).ok()?;
        let begin = sorted.eh_frame_ptr().direct().ok()?;
        let offset = pointer.direct().ok()?.checked_sub(begin)?;
        usize::try_from(offset).ok()
    }

    /// Finds the row at an address of the file.
    pub(super) fn row(
        &self,
        dso: u32,
        address: u64,
        arch: &Arch,
        context: &mut Context,
    ) -> RowLookup {
        if self.frames.sections.eh_frame.bytes.is_empty()
            && self.frames.sections.debug_frame.bytes.is_empty()
        {
            return RowLookup::NoTable;
        }
        let at = Lookup { bases: &self.bases, dso, address, arch };
        let mut found = RowLookup::NoEntry;
        if let Some(offset) = self.eh_frame_offset(address) {
            found = at.find(&self.eh_frame(), offset, false, context);
        }
        if matches!(found, RowLookup::NoEntry)
            && let Some(offset) = offset_in(&self.debug_frame_index, address)
        {
            found = at.find(&self.debug_frame(), offset, true, context);
        }
        match found {
            RowLookup::NoEntry => match self.stub(address, arch) {
                Some(row) => RowLookup::Row { row, is_last: false },
                None => RowLookup::NoEntry,
            },
            found => found,
        }
    }

    /// Whether following frame pointers finds the caller of the function at an address: a row keeps
    /// the frame pointer or has no caller, or the function has no frame of its own. `None` if no
    /// readable entry contains the address.
    pub(super) fn keeps_frame_pointer(
        &self,
        address: u64,
        arch: &Arch,
        context: &mut Context,
    ) -> Option<bool> {
        let at = Lookup { bases: &self.bases, dso: 0, address, arch };
        let eh_frame = self.eh_frame_offset(address);
        let kept =
            eh_frame.and_then(|offset| at.keeps_frame_pointer(&self.eh_frame(), offset, context));
        kept.or_else(|| {
            let offset = offset_in(&self.debug_frame_index, address)?;
            at.keeps_frame_pointer(&self.debug_frame(), offset, context)
        })
    }

    /// Whether an address is in a stub of the procedure linkage table.
    pub(super) fn is_stub(&self, address: u64) -> bool {
        let stubs = &self.frames.stubs;
        stubs.plt.contains(&address) || stubs.plain.iter().any(|range| range.contains(&address))
    }

    /// Returns the row of a stub of the procedure linkage table: not every linker describes them.
    fn stub(&self, address: u64, arch: &Arch) -> Option<UnwindRow> {
        let (first_half, bytes) = arch.stub?;
        let plain = |range: &Range<u64>| range.contains(&address);
        let words_pushed = if self.frames.stubs.plt.contains(&address) {
            let (stub, at) = {
                let offset = address - self.frames.stubs.plt.start;
                (offset / bytes, offset % bytes)
            };
            // The first stub is entered with a word pushed, and pushes another.
            match stub {
                0 => 1 + i32::from(at >= 6),
                _ => i32::from(at >= first_half),
            }
        } else if self.frames.stubs.plain.iter().any(plain) {
            0
        } else {
            return None;
        };
        let word_bytes = i32::from(arch.word_bytes);
        Some(UnwindRow {
            cfa: Cfa::Register(arch.stack_pointer, word_bytes * (1 + words_pushed)),
            return_address: Some(Rule::Offset(-word_bytes)),
            saved: Box::default(),
            others: Box::default(),
            is_signal_frame: false,
        })
    }
}

/// Returns the functions that an ELF file's unwind tables list, sorted by address.
pub(crate) fn functions<'d, R: ReadRef<'d>>(data: R) -> Vec<Range<u64>> {
    let frames = FrameTables::read(data, limits::UNWIND_BYTES);
    frames.map_or_else(|_| Vec::new(), |frames| UnwindTables::new(frames).functions())
}

fn offset_in(index: &Index, address: u64) -> Option<usize> {
    let behind = index.partition_point(|(start, _)| *start <= address);
    Some(index.get(behind.checked_sub(1)?)?.1)
}

/// An address to look up.
struct Lookup<'a> {
    bases: &'a BaseAddresses,
    dso: u32,
    address: u64,
    arch: &'a Arch,
}

/// The entry is damaged or longer than any compiler writes, or the thread has no work left.
struct Unreadable;

impl Lookup<'_> {
    /// Reads the entry at an offset; `Ok(None)` if it doesn't contain the address.
    fn entry<'a, S: UnwindSection<Bytes<'a>>>(
        &self,
        section: &S,
        offset: usize,
        context: &mut Context,
    ) -> Result<Option<FrameDescriptionEntry<Bytes<'a>>>, Unreadable> {
        let offset = S::Offset::from(offset);
        let entry = section.fde_from_offset(self.bases, offset, S::cie_from_offset);
        let entry = entry.map_err(|_| Unreadable)?;
        let instructions = entry.entry_len().saturating_add(entry.cie().entry_len());
        context.left = context.left.saturating_sub(instructions);
        if instructions > limits::UNWIND_INSTRUCTIONS || context.left == 0 {
            return Err(Unreadable);
        }
        Ok(entry.contains(self.address).then_some(entry))
    }

    fn find<'a, S: UnwindSection<Bytes<'a>>>(
        &self,
        section: &S,
        offset: usize,
        is_debug_frame: bool,
        context: &mut Context,
    ) -> RowLookup {
        let entry = match self.entry(section, offset, context) {
            Ok(Some(entry)) => entry,
            Ok(None) => return RowLookup::NoEntry,
            Err(Unreadable) => return RowLookup::Damaged,
        };
        let origin = Origin {
            dso: self.dso,
            is_debug_frame,
            is_signal_frame: entry.is_signal_trampoline(),
            return_address: entry.cie().return_address_register(),
        };
        let row =
            entry.unwind_info_for_address(section, self.bases, &mut context.rows, self.address);
        match row.ok().and_then(|row| UnwindRow::new(row, &origin, self.arch)) {
            Some(row) => {
                RowLookup::Row { row, is_last: entry.end_address() == self.address.wrapping_add(1) }
            }
            None => RowLookup::Damaged,
        }
    }

    fn keeps_frame_pointer<'a, S: UnwindSection<Bytes<'a>>>(
        &self,
        section: &S,
        offset: usize,
        context: &mut Context,
    ) -> Option<bool> {
        let entry = self.entry(section, offset, context).ok()??;
        let origin = Origin {
            dso: 0,
            is_debug_frame: false,
            is_signal_frame: false,
            return_address: entry.cie().return_address_register(),
        };
        let mut rows = entry.rows(section, self.bases, &mut context.rows).ok()?;
        let mut calls = false;
        while let Ok(Some(row)) = rows.next_row() {
            let row = UnwindRow::new(row, &origin, self.arch)?;
            if row.return_address.is_none() || row.keeps_frame_pointer(self.arch) {
                return Some(true);
            }
            calls |= row.return_address != Some(Rule::Same);
        }
        // A function that leaves the return address in its register has no frame of its own.
        Some(!calls)
    }
}
