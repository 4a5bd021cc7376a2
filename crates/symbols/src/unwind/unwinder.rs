//! Unwinds stacks, from one thread or several.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use object::read::ReadCache;

use super::arch::{self, Arch};
use super::frame::{Frame, Memory, Stop};
use super::row::Row;
use super::tables::{Context, RowLookup, Tables};
use super::{Registers, Stack, UnwindEnd, splice};
use crate::address_space::{AddressSpace, Mapping};
use crate::dso::{DsoId, DsoKind, DsoTable};
use crate::elf::Frames;
use crate::limits;
use crate::once_vec::OnceVec;
use crate::runtime::Runtime;
use crate::search::location::FileLocation;
use crate::search::{self, SymbolOptions, find};

/// Unwinds stacks, and keeps the tables of the DSOs that it met. It serves one [`DsoTable`], and any
/// number of threads, each with a cache of its own.
pub struct Unwinder {
    options: SymbolOptions,
    by_dso: OnceVec<Result<DsoTables, UnwindEnd>>,
    /// Bytes of all tables.
    bytes: AtomicU64,
}

/// What is kept of a DSO.
struct DsoTables {
    tables: Tables,
    code: Code,
}

/// Where the DSO's instructions are.
enum Code {
    /// In a file.
    File(FileLocation),
    /// Here.
    Image(Vec<u8>),
}

impl fmt::Debug for Unwinder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unwinder")
            .field("options", &self.options)
            .field("bytes", &self.bytes)
            .finish_non_exhaustive()
    }
}

/// What a thread that unwinds has found already: how to go on from an address. It serves one
/// [`Unwinder`], and changes nothing but how long that takes.
#[derive(Default)]
pub struct UnwindCache {
    recent: RecentRows,
    by_address: HashMap<(u32, u64), UnwindMethod, foldhash::fast::RandomState>,
    rows: Vec<Row>,
    by_row: HashMap<Row, u32, foldhash::fast::RandomState>,
    context: Context,
}

impl fmt::Debug for UnwindCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwindCache")
            .field("addresses", &self.by_address.len())
            .field("rows", &self.rows.len())
            .finish_non_exhaustive()
    }
}

/// How the caller of code at an address is found.
#[derive(Clone, Copy, Debug)]
enum UnwindMethod {
    /// By the row with this index.
    Row(u32),
    /// By the frame pointer; why, if that leads nowhere.
    FramePointer(UnwindEnd),
    /// By what the kernel put on the stack for a signal handler.
    OutOfSignal,
    /// It has none: a thread began there.
    First,
    Not(UnwindEnd),
}

/// The rows of addresses that were met last, one in each place: a stack's outer frames are those of
/// the stacks before it, and one line of the CPU's cache has all that is known of an address.
#[derive(Default)]
struct RecentRows(Vec<RecentRow>);

#[derive(Clone, Copy, Default)]
struct RecentRow {
    address: u64,
    dso: u32,
    /// The row's index and 1; 0: nothing is here.
    row: u32,
}

impl RecentRows {
    /// 512 KiB.
    const BITS: u32 = 15;

    /// Of fewer addresses the CPU's caches hold all that is known.
    const FROM: usize = 1 << 10;

    /// Fibonacci hashing.
    #[inline]
    fn index(dso: u32, address: u64) -> usize {
        const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
        let mixed = (address ^ u64::from(dso) << 40).wrapping_mul(FACTOR);
        (mixed >> (u64::BITS - Self::BITS)) as usize
    }

    #[inline]
    fn get(&self, key: (u32, u64)) -> Option<u32> {
        let place = self.0.get(Self::index(key.0, key.1))?;
        if (place.dso, place.address) == key { place.row.checked_sub(1) } else { None }
    }

    fn set(&mut self, key: (u32, u64), row: u32) {
        if self.0.is_empty() {
            self.0.resize(1 << Self::BITS, RecentRow::default());
        }
        if let Some(place) = self.0.get_mut(Self::index(key.0, key.1)) {
            *place = RecentRow { dso: key.0, address: key.1, row: row.saturating_add(1) };
        }
    }
}

impl UnwindCache {
    fn insert(&mut self, row: Row) -> u32 {
        if let Some(index) = self.by_row.get(&row) {
            return *index;
        }
        let index = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        self.rows.push(row.clone());
        self.by_row.insert(row, index);
        index
    }

    /// Forgets everything where a hostile recording had it grow.
    fn bound(&mut self) {
        if self.by_address.len() >= limits::UNWIND_ADDRESSES {
            self.recent = RecentRows::default();
            self.by_address.clear();
            self.by_row.clear();
            self.rows.clear();
        }
    }
}

impl Unwinder {
    /// Bytes of the tables that were read of all DSOs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Nothing is read yet.
    #[must_use]
    pub fn new(options: SymbolOptions) -> Self {
        Self { options, by_dso: OnceVec::default(), bytes: AtomicU64::new(0) }
    }

    /// Adds the addresses of a stack, the innermost first: where the CPU was, then of each caller
    /// the last byte of its call; of what a signal interrupted, where that was. Returns how far
    /// that went, and how many of the addresses are those of frame pointers.
    pub fn unwind(
        &self,
        cache: &mut UnwindCache,
        dsos: &DsoTable,
        space: &AddressSpace,
        stack: &Stack<'_>,
        addresses: &mut Vec<u64>,
    ) -> (UnwindEnd, usize) {
        let (arch, frame) = match stack.registers {
            Registers::X86_64 { ip, general } => {
                (&arch::X86_64, Frame::new(*ip, general, &arch::X86_64))
            }
            Registers::Aarch64 { pc, general } => {
                (&arch::AARCH64, Frame::new(*pc, general, &arch::AARCH64))
            }
        };
        cache.bound();
        let memory = Memory { start: stack.registers.stack_pointer(), bytes: stack.copy };
        let mut walk = Walk { unwinder: self, cache, dsos, space, arch, memory, frame };
        let end = walk.run(addresses);
        if end == UnwindEnd::Whole || stack.frame_pointers.is_empty() {
            return (end, 0);
        }
        if addresses.is_empty() {
            addresses.extend(stack.frame_pointers.first());
        }
        let rest = splice::beyond(&walk.memory, arch, stack, &walk.frame, addresses);
        addresses.extend(rest.iter().map(|address| address.wrapping_sub(1)));
        match rest.last() {
            Some(last) if walk.is_first_function(last.wrapping_sub(1)) => {
                (UnwindEnd::Whole, rest.len())
            }
            _ => (end, rest.len()),
        }
    }

    /// Whether the function at an address keeps frame pointers, so that following them leads from
    /// it to its caller; `None` where nothing is known of it.
    pub fn keeps_frame_pointer(
        &self,
        cache: &mut UnwindCache,
        dsos: &DsoTable,
        dso: DsoId,
        address: u64,
    ) -> Option<bool> {
        let loaded = self.loaded(dsos, dso).as_ref().ok()?;
        let own = loaded.tables.segments().to_address(address)?;
        let arch = loaded.tables.arch()?;
        loaded.tables.keeps_frame_pointer(own, arch, &mut cache.context)
    }

    fn loaded(&self, dsos: &DsoTable, dso: DsoId) -> &Result<DsoTables, UnwindEnd> {
        self.by_dso.get_or_init(dso.number(), || self.load(dsos, dso))
    }

    /// The tables of a DSO: those of the file that was recorded.
    fn load(&self, dsos: &DsoTable, id: DsoId) -> Result<DsoTables, UnwindEnd> {
        let recorded = dsos.recorded(id).ok_or(UnwindEnd::NoBinary)?;
        let most = limits::UNWIND_BYTES.saturating_sub(self.bytes.load(Ordering::Relaxed));
        let (frames, code) = match recorded.dso.kind {
            DsoKind::Elf => {
                let found = find::binary(&self.options, &recorded);
                let found = found.map_err(|_| UnwindEnd::NoBinary)?;
                (Frames::read(&ReadCache::new(&found.file), most), Code::File(found.place))
            }
            DsoKind::Vdso => {
                let image = search::own_vdso().map_err(|_| UnwindEnd::NoBinary)?;
                (Frames::read(image.as_slice(), most), Code::Image(image))
            }
            _ => return Err(UnwindEnd::NoTable),
        };
        let frames = frames.map_err(|_| UnwindEnd::NoBinary)?;
        let is_other = |(recorded, found)| recorded != found;
        if recorded.dso.build_id.zip(frames.build_id).is_some_and(is_other) {
            return Err(UnwindEnd::NoBinary);
        }
        self.bytes.fetch_add(frames.bytes, Ordering::Relaxed);
        Ok(DsoTables { tables: Tables::new(frames), code })
    }
}

impl DsoTables {
    /// Whether these instructions lie at an address of the file.
    fn has_code(&self, address: u64, code: &[u8]) -> bool {
        let mut found = [0; 16];
        let (Some(found), Some(offset)) =
            (found.get_mut(..code.len()), self.tables.segments().to_offset(address))
        else {
            return false;
        };
        let is_read = match &self.code {
            Code::File(place) => {
                place.open().is_ok_and(|file| file.read_exact_at(found, offset).is_ok())
            }
            Code::Image(image) => {
                let at = usize::try_from(offset).ok();
                let bytes = at.and_then(|at| image.get(at..)?.get(..found.len()));
                bytes.map(|bytes| found.copy_from_slice(bytes)).is_some()
            }
        };
        is_read && found == code
    }
}

/// One stack on its way.
struct Walk<'a> {
    unwinder: &'a Unwinder,
    cache: &'a mut UnwindCache,
    dsos: &'a DsoTable,
    space: &'a AddressSpace,
    arch: &'static Arch,
    memory: Memory<'a>,
    frame: Frame,
}

impl Walk<'_> {
    fn run(&mut self, addresses: &mut Vec<u64>) -> UnwindEnd {
        // Signed return addresses have their signature above the bits that addresses have.
        let space = self.space;
        let highest = space.mappings().next_back().map_or(u64::MAX, |map| map.end);
        let signature = if self.arch.has_link_register { highest.leading_zeros() } else { 0 };
        let mut interrupted = false;
        let mut last: Option<&Mapping> = None;
        for _ in 0..limits::FRAMES {
            if self.frame.pc == 0 && !addresses.is_empty() {
                return UnwindEnd::Whole;
            }
            let address = self.frame.pc.wrapping_sub(u64::from(!self.frame.is_exact));
            // Most callers are in the file of what they call.
            let last_one = last.filter(|map| map.start <= address && address < map.end);
            let mapping = last_one.or_else(|| space.find(address));
            let Some(mapping) = mapping else { return UnwindEnd::NoMapping };
            last = Some(mapping);
            addresses.push(address);
            let how = self.how(mapping, address);
            let stepped = match how {
                UnwindMethod::Row(row) => self.step(row),
                UnwindMethod::FramePointer(_) => self.step_without_table(mapping.dso),
                UnwindMethod::OutOfSignal => self.frame.step_out_of_signal(&self.memory, self.arch),
                UnwindMethod::First => return UnwindEnd::Whole,
                UnwindMethod::Not(why) => return why,
            };
            match (stepped, how) {
                (Ok(()), _) => {}
                (Err(Stop::First), _) => return UnwindEnd::Whole,
                (Err(Stop::Unread(at)), _) => return self.unread(at, interrupted),
                (Err(Stop::Damaged), UnwindMethod::FramePointer(why)) => return why,
                (Err(Stop::Damaged), _) => return UnwindEnd::Damaged,
            }
            interrupted |= self.frame.is_exact;
            self.frame.pc = self.frame.pc << signature >> signature;
        }
        UnwindEnd::TooDeep
    }

    fn step(&mut self, row: u32) -> Result<(), Stop> {
        let Self { unwinder, cache, arch, memory, frame, .. } = self;
        let Some(row) = cache.rows.get(row as usize) else { return Err(Stop::Damaged) };
        frame.step(row, memory, arch, &|place| {
            let loaded = unwinder.by_dso.get(place.dso)?.as_ref().ok()?;
            loaded.tables.expression(place)
        })
    }

    /// Code without tables: by the frame pointer, which a trampoline of Python mostly lacks.
    fn step_without_table(&mut self, dso: DsoId) -> Result<(), Stop> {
        let Self { dsos, space, arch, memory, frame, .. } = self;
        let of = |dso| dsos.get(dso);
        let is_compiled = of(dso).is_some_and(|dso| matches!(dso.kind, DsoKind::PerfMap { .. }));
        let is_interpreter = |address: u64| {
            let dso = space.find(address).and_then(|mapping| of(mapping.dso));
            dso.is_some_and(|dso| Runtime::of_file(&dso.name) == Some(Runtime::Python))
        };
        if is_compiled && frame.step_out_of_trampoline(memory, arch, is_interpreter) {
            return Ok(());
        }
        frame.step_by_frame_pointer(memory, arch)
    }

    /// What it means that the copy doesn't have an address.
    fn unread(&self, address: u64, interrupted: bool) -> UnwindEnd {
        let copied = self.space.find(self.memory.start);
        match copied {
            _ if address >= self.memory.start && address < self.memory.end() => {
                UnwindEnd::CopyEnded
            }
            Some(stack) if stack.start <= address && address < stack.end => UnwindEnd::CopyEnded,
            None if address >= self.memory.end() => UnwindEnd::CopyEnded,
            _ if interrupted => UnwindEnd::OtherStack,
            _ => UnwindEnd::Damaged,
        }
    }

    fn how(&mut self, mapping: &Mapping, address: u64) -> UnwindMethod {
        let in_dso = mapping.to_dso(address);
        let key = (mapping.dso.number(), in_dso);
        if let Some(row) = self.cache.recent.get(key) {
            return UnwindMethod::Row(row);
        }
        let known = self.cache.by_address.get(&key).copied();
        let how = known.unwrap_or_else(|| {
            let how = self.find(mapping.dso, in_dso);
            self.cache.by_address.insert(key, how);
            how
        });
        if let UnwindMethod::Row(row) = how
            && self.cache.by_address.len() >= RecentRows::FROM
        {
            self.cache.recent.set(key, row);
        }
        how
    }

    fn find(&mut self, dso: DsoId, in_dso: u64) -> UnwindMethod {
        let loaded = match self.unwinder.loaded(self.dsos, dso) {
            Ok(loaded) => loaded,
            Err(UnwindEnd::NoTable) => return UnwindMethod::FramePointer(UnwindEnd::NoTable),
            Err(why) => return UnwindMethod::Not(*why),
        };
        let tables = &loaded.tables;
        let Some(own) = tables.segments().to_address(in_dso) else {
            return UnwindMethod::Not(UnwindEnd::NoMapping);
        };
        if tables.arch().is_none_or(|arch| arch.machine != self.arch.machine) {
            return UnwindMethod::Not(UnwindEnd::NoBinary);
        }
        let found = tables.row(dso.number(), own, self.arch, &mut self.cache.context);
        // A handler returns to the first byte of a function that it wasn't called from, so the byte
        // before it belongs to another one, or to none.
        let leaves_signal = |at: u64| loaded.has_code(at, self.arch.signal_return);
        let is_described =
            matches!(found, RowLookup::Row { ref row, is_last: false } if !row.is_signal_frame);
        if !is_described
            && !matches!(found, RowLookup::Row { ref row, .. } if row.is_signal_frame)
            && leaves_signal(own.wrapping_add(1))
        {
            return UnwindMethod::OutOfSignal;
        }
        match found {
            RowLookup::Row { row, .. } => UnwindMethod::Row(self.cache.insert(row)),
            RowLookup::Damaged => UnwindMethod::Not(UnwindEnd::Damaged),
            RowLookup::NoEntry | RowLookup::NoTable if leaves_signal(own) => {
                UnwindMethod::OutOfSignal
            }
            RowLookup::NoEntry | RowLookup::NoTable if tables.is_entry_point(own) => {
                UnwindMethod::First
            }
            RowLookup::NoTable => UnwindMethod::FramePointer(UnwindEnd::NoTable),
            RowLookup::NoEntry => UnwindMethod::Not(UnwindEnd::Assembly),
        }
    }

    /// Whether threads begin with the function at an address.
    fn is_first_function(&mut self, address: u64) -> bool {
        let Some(mapping) = self.space.find(address) else { return false };
        match self.how(mapping, address) {
            UnwindMethod::First => true,
            UnwindMethod::Row(row) => {
                self.cache.rows.get(row as usize).is_some_and(|row| row.return_address.is_none())
            }
            _ => false,
        }
    }
}
