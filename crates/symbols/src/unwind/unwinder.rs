//! The unwinder, and the cache of each thread.

use std::collections::HashMap;
use std::fmt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use object::read::ReadCache;

use super::arch::{self, Arch};
use super::assembly;
use super::call::{self, Call};
use super::frame::{Memory, RegisterFrame, Stop};
use super::row::UnwindRow;
use super::splice::LastFrame;
use super::tables::{Context, RowLookup, UnwindTables};
use super::{CallChain, Registers, Stack, UnwindOutcome, UnwoundFrame, splice};
use crate::UNREAD_BYTE;
use crate::address_space::{AddressSpace, Mapping};
use crate::dso::{DsoAddress, DsoId, DsoKind, DsoRenumbering, DsoTable};
use crate::elf::FrameTables;
use crate::limits;
use crate::once_vec::OnceVec;
use crate::runtime::Runtime;
use crate::search::location::FileLocation;
use crate::search::{self, SymbolOptions, find};

/// Unwinds stacks, and keeps the tables of their DSOs. It serves a single [`DsoTable`] and any
/// number of threads, each with its own [`UnwindCache`].
pub struct Unwinder {
    options: SymbolOptions,
    by_dso: OnceVec<LoadedDso>,
    /// Bytes of all tables.
    bytes: AtomicU64,
    /// Number of times that tables were used, other than through an [`UnwindCache`].
    uses: AtomicU64,
}

/// What loading the tables of a DSO resulted in.
struct LoadedDso {
    tables: Result<Box<DsoTables>, UnwindOutcome>,
    /// [`Unwinder::uses`] when they were last used.
    used: AtomicU64,
}

/// Unwind tables and code of a DSO.
struct DsoTables {
    /// Bytes of the tables.
    bytes: u64,
    tables: UnwindTables,
    code: DsoBytes,
}

/// Where to read a DSO's instructions.
enum DsoBytes {
    /// From a file.
    File(FileLocation),
    /// From memory.
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

/// A thread's cache of unwind methods by address, and its limit on work
/// ([`crate::limits::UNWIND_WORK`]). It serves a single [`Unwinder`].
#[derive(Default)]
pub struct UnwindCache {
    recent: RecentRows,
    by_address: HashMap<(u32, u64), UnwindMethod, foldhash::fast::RandomState>,
    rows: Vec<UnwindRow>,
    by_row: HashMap<UnwindRow, u32, foldhash::fast::RandomState>,
    /// The calls before return addresses of functions without tables.
    calls: HashMap<(u32, u64), Option<Call>, foldhash::fast::RandomState>,
    /// Rows of addresses without tables, found by following the code to the return.
    followed: HashMap<(u32, u64), Option<u32>, foldhash::fast::RandomState>,
    /// Such rows, found by following the code from where its function may begin.
    begun: HashMap<(u32, u64), Box<[u32]>, foldhash::fast::RandomState>,
    context: Context,
    /// Memory for the frames of one stack.
    frames: Vec<UnwoundFrame>,
    stack_base: Option<u64>,
}

impl fmt::Debug for UnwindCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnwindCache")
            .field("addresses", &self.by_address.len())
            .field("rows", &self.rows.len())
            .finish_non_exhaustive()
    }
}

/// How to find the caller of the code at an address.
#[derive(Clone, Copy, Debug)]
enum UnwindMethod {
    /// With the row at this index.
    Row(u32),
    /// With the frame pointer; the outcome if that fails.
    FramePointer(UnwindOutcome),
    /// With the registers that the kernel saved for a signal handler.
    OutOfSignal,
    /// It has no caller: a thread starts there.
    First,
    Not(UnwindOutcome),
}

/// Direct-mapped cache of the rows of recent addresses. Successive stacks share outer frames, and a
/// lookup touches one cache line.
#[derive(Default)]
struct RecentRows(Vec<RecentRow>);

#[derive(Clone, Copy, Default)]
struct RecentRow {
    address: u64,
    dso: u32,
    /// Index of the row plus 1; 0 for an empty slot.
    row: u32,
}

impl RecentRows {
    /// log2 of the slots: 512 KiB.
    const BITS: u32 = 15;

    /// Addresses from which on it is used: the CPU's caches hold the hash table of fewer.
    const MIN_ADDRESSES: usize = 1 << 10;

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
    /// Returns the stack pointer of the outermost frame that the last stack was unwound to, if it
    /// was whole in the copy. Unwinding needed no memory above it, except a word or two.
    #[must_use]
    pub fn stack_base(&self) -> Option<u64> {
        self.stack_base
    }

    fn insert(&mut self, row: UnwindRow) -> u32 {
        if let Some(index) = self.by_row.get(&row) {
            return *index;
        }
        let index = u32::try_from(self.rows.len()).unwrap_or(u32::MAX);
        self.rows.push(row.clone());
        self.by_row.insert(row, index);
        index
    }

    /// Clears the methods if they are of more than this number of addresses, and renews the limit on
    /// work: for an unwinder that runs as long as a recording.
    pub fn begin_round(&mut self, addresses: usize) {
        self.context.renew();
        if self.by_address.len() > addresses || self.calls.len() > addresses {
            *self = Self::default();
        }
    }

    /// Clears the cache if a hostile recording has made it too large.
    fn bound(&mut self) {
        if self.by_address.len() >= limits::UNWIND_ADDRESSES {
            self.recent = RecentRows::default();
            self.by_address.clear();
            self.by_row.clear();
            self.rows.clear();
            self.followed.clear();
            self.begun.clear();
        }
        if self.calls.len() >= limits::UNWIND_ADDRESSES {
            self.calls.clear();
        }
    }
}

impl Unwinder {
    /// Bytes of the unwind tables in memory, of all DSOs.
    #[must_use]
    pub fn bytes(&self) -> usize {
        usize::try_from(self.bytes.load(Ordering::Relaxed)).unwrap_or(usize::MAX)
    }

    /// Creates an unwinder that has read nothing yet.
    #[must_use]
    pub fn new(options: SymbolOptions) -> Self {
        let by_dso = OnceVec::default();
        Self { options, by_dso, bytes: AtomicU64::new(0), uses: AtomicU64::new(0) }
    }

    /// Drops the tables that were used least recently until the others have at most `most` bytes.
    /// They are read again when a new address needs them: a cache keeps the rows of addresses that
    /// it knows.
    pub fn drop_unused(&mut self, most: usize) {
        if self.bytes() <= most {
            return;
        }
        // ATOMICS: no other thread uses the unwinder meanwhile.
        let used = |loaded: &LoadedDso| loaded.used.load(Ordering::Relaxed);
        let loaded = self.by_dso.iter().filter(|(_, loaded)| loaded.tables.is_ok());
        let mut loaded: Vec<_> = loaded.map(|(dso, loaded)| (used(loaded), dso)).collect();
        loaded.sort_unstable();
        for (_, dso) in loaded {
            if self.bytes() <= most {
                return;
            }
            self.drop_dso(dso);
        }
    }

    fn drop_dso(&mut self, dso: u32) {
        if let Some(Ok(tables)) = self.by_dso.take(dso).map(|loaded| loaded.tables) {
            let bytes = self.bytes.get_mut();
            *bytes = bytes.saturating_sub(tables.bytes);
        }
    }

    /// Changes the numbers of DSOs, and drops the tables of those without a new one. DSOs without
    /// tables are tried again. Caches become invalid.
    pub fn renumber(&mut self, now: &DsoRenumbering) {
        *self.bytes.get_mut() = 0;
        for (before, loaded) in std::mem::take(&mut self.by_dso).into_values() {
            if let (Some(after), Ok(tables)) = (now.number(before), &loaded.tables) {
                *self.bytes.get_mut() += tables.bytes;
                self.by_dso.get_or_init(after, || loaded);
            }
        }
    }

    /// Unwinds a stack: finds the call chain at the moment of its registers.
    ///
    /// `dsos` and `space` name the files that the process had mapped then, with all mappings that
    /// hold code. A mapping of the stack itself lets the outcome tell a copy that is too short from
    /// damage. Tables are read from the files at the first address in them, which takes
    /// milliseconds for large ones; a further stack takes about 0.1 us per frame.
    ///
    /// Never fails: what is missing shortens the chain, and [`CallChain::outcome`] has the reason.
    /// All input is untrusted. Work is bounded by [`limits::FRAMES`] for a stack,
    /// [`limits::UNWIND_BYTES`] for tables, and [`limits::UNWIND_WORK`] for a cache.
    #[must_use]
    pub fn call_chain(
        &self,
        cache: &mut UnwindCache,
        dsos: &DsoTable,
        space: &AddressSpace,
        stack: &Stack<'_>,
    ) -> CallChain {
        let mut frames = Vec::with_capacity(32);
        let (outcome, spliced) = self.unwind_frames(cache, dsos, space, stack, &mut frames);
        CallChain { frames, outcome, spliced }
    }

    /// Appends the addresses of a stack, innermost first: the instruction pointer, then for each
    /// caller the last byte of its call, or the exact address if a signal interrupted it or its
    /// handler returns there. Returns the outcome, and how many addresses come from the
    /// frame-pointer chain.
    pub fn unwind(
        &self,
        cache: &mut UnwindCache,
        dsos: &DsoTable,
        space: &AddressSpace,
        stack: &Stack<'_>,
        addresses: &mut Vec<u64>,
    ) -> (UnwindOutcome, usize) {
        let mut frames = std::mem::take(&mut cache.frames);
        frames.clear();
        let outcome = self.unwind_frames(cache, dsos, space, stack, &mut frames);
        addresses.extend(frames.iter().map(UnwoundFrame::code_address));
        cache.frames = frames;
        outcome
    }

    /// Appends the frames of a stack, innermost first. Returns the outcome, and how many frames
    /// come from the frame-pointer chain.
    pub fn unwind_frames(
        &self,
        cache: &mut UnwindCache,
        dsos: &DsoTable,
        space: &AddressSpace,
        stack: &Stack<'_>,
        frames: &mut Vec<UnwoundFrame>,
    ) -> (UnwindOutcome, usize) {
        let arch = arch_of(stack.registers);
        let frame = match stack.registers {
            Registers::X86_64 { ip, general } => RegisterFrame::new(*ip, general, arch),
            Registers::X86 { ip, general } => RegisterFrame::new(*ip, general, arch),
            Registers::Aarch64 { pc, general } => RegisterFrame::new(*pc, general, arch),
        };
        cache.bound();
        let memory = Memory {
            start: stack.registers.stack_pointer(),
            bytes: stack.copy,
            word_bytes: arch.word_bytes,
        };
        let mut walk = Walk {
            unwinder: self,
            cache,
            dsos,
            space,
            arch,
            memory,
            frame,
            callee_frame_pointer: None,
        };
        let end = walk.run(frames);
        let base = walk.frame.get(arch.stack_pointer);
        walk.cache.stack_base = base.filter(|_| end == UnwindOutcome::Whole);
        if end == UnwindOutcome::Whole || stack.frame_pointers.is_empty() {
            return (end, 0);
        }
        if frames.is_empty() {
            frames.extend(stack.frame_pointers.first().map(|pc| UnwoundFrame::exact(*pc)));
        }
        let last = match end {
            _ if end == UnwindOutcome::NoMapping || walk.is_caller_unread() => {
                LastFrame::Callee { frame_pointer: walk.callee_frame_pointer }
            }
            _ => LastFrame::Caller(&walk.frame),
        };
        let rest = splice::beyond(&walk.memory, arch, stack, last, frames.last());
        let callers = rest.iter().map(|pc| UnwoundFrame { pc: *pc, is_return: true });
        let before = frames.len();
        frames.extend(callers.take_while(|caller| walk.is_code(caller.code_address())));
        let spliced = frames.len() - before;
        match frames.last() {
            Some(last) if spliced == rest.len() && walk.is_first_function(last.code_address()) => {
                (UnwindOutcome::Whole, spliced)
            }
            _ => (end, spliced),
        }
    }

    /// Whether following frame pointers finds the caller of the function at an address. `None` if
    /// that is unknown.
    pub fn keeps_frame_pointer(
        &self,
        cache: &mut UnwindCache,
        dsos: &DsoTable,
        at: DsoAddress,
    ) -> Option<bool> {
        let loaded = self.loaded(dsos, at.dso).as_ref().ok()?;
        let own = loaded.tables.segments().to_address(at.address)?;
        let arch = loaded.tables.arch()?;
        loaded.tables.keeps_frame_pointer(own, arch, &mut cache.context)
    }

    fn loaded(&self, dsos: &DsoTable, dso: DsoId) -> &Result<Box<DsoTables>, UnwindOutcome> {
        let loaded = self.by_dso.get_or_init(dso.number(), || LoadedDso {
            tables: self.load(dsos, dso).map(Box::new),
            used: AtomicU64::new(0),
        });
        // ATOMICS: an approximate order; no other memory depends on it.
        loaded.used.store(self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        &loaded.tables
    }

    /// Reads the tables of a DSO from the recorded file.
    fn load(&self, dsos: &DsoTable, id: DsoId) -> Result<DsoTables, UnwindOutcome> {
        let recorded = dsos.recorded(id).ok_or(UnwindOutcome::NoBinary)?;
        let most = limits::UNWIND_BYTES.saturating_sub(self.bytes.load(Ordering::Relaxed));
        let (frames, code) = match recorded.dso.kind {
            DsoKind::Elf => {
                let found = find::binary(&self.options, &recorded);
                let found = found.map_err(|_| UnwindOutcome::NoBinary)?;
                (FrameTables::read(&ReadCache::new(&found.file), most), DsoBytes::File(found.place))
            }
            DsoKind::Vdso => {
                let image = search::own_vdso().map_err(|_| UnwindOutcome::NoBinary)?;
                (FrameTables::read(image.as_slice(), most), DsoBytes::Image(image))
            }
            _ => return Err(UnwindOutcome::NoTable),
        };
        let frames = frames.map_err(|_| UnwindOutcome::NoBinary)?;
        let is_other = |(recorded, found)| recorded != found;
        if recorded.dso.build_id.zip(frames.build_id).is_some_and(is_other) {
            return Err(UnwindOutcome::NoBinary);
        }
        let tables = UnwindTables::new(frames);
        let bytes = tables.bytes();
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(DsoTables { bytes, tables, code })
    }
}

fn arch_of(registers: &Registers) -> &'static Arch {
    match registers {
        Registers::X86_64 { .. } => &arch::X86_64,
        Registers::X86 { .. } => &arch::X86,
        Registers::Aarch64 { .. } => &arch::AARCH64,
    }
}

impl DsoTables {
    /// Whether the file has these instructions at an address.
    fn has_code(&self, address: u64, code: &[u8]) -> bool {
        let mut found = [0; 16];
        let Some(found) = found.get_mut(..code.len()) else { return false };
        self.read(address, found) && found == code
    }

    /// Reads the file's instructions at an address. Returns whether there are as many.
    fn read(&self, address: u64, into: &mut [u8]) -> bool {
        let Some(offset) = self.tables.segments().to_offset(address) else { return false };
        match &self.code {
            DsoBytes::File(place) => {
                place.open().is_ok_and(|file| file.read_exact_at(into, offset).is_ok())
            }
            DsoBytes::Image(image) => {
                let at = usize::try_from(offset).ok();
                let bytes = at.and_then(|at| image.get(at..)?.get(..into.len()));
                bytes.map(|bytes| into.copy_from_slice(bytes)).is_some()
            }
        }
    }
}

/// A stack while it is unwound.
struct Walk<'a> {
    unwinder: &'a Unwinder,
    cache: &'a mut UnwindCache,
    dsos: &'a DsoTable,
    space: &'a AddressSpace,
    arch: &'static Arch,
    memory: Memory<'a>,
    frame: RegisterFrame,
    /// The frame pointer of the function that `frame` called.
    callee_frame_pointer: Option<u64>,
}

impl Walk<'_> {
    fn run(&mut self, frames: &mut Vec<UnwoundFrame>) -> UnwindOutcome {
        // Pointer authentication puts a signature into the bits above the highest address.
        let space = self.space;
        let highest = space.mappings().next_back().map_or(u64::MAX, |map| map.end);
        let signature = if self.arch.has_link_register { highest.leading_zeros() } else { 0 };
        let mut interrupted = false;
        let mut last: Option<&Mapping> = None;
        for _ in 0..limits::FRAMES {
            if self.frame.pc == 0 && !frames.is_empty() {
                return UnwindOutcome::Whole;
            }
            let address = self.frame.pc.wrapping_sub(u64::from(!self.frame.is_exact));
            // Most callers are in the same mapping as their callee.
            let last_one = last.filter(|map| map.start <= address && address < map.end);
            let mapping = last_one.or_else(|| space.find(address));
            // The instruction pointer may be in memory that isn't code: in a jump to nowhere.
            let is_caller = !frames.is_empty();
            let Some(mapping) = mapping.filter(|mapping| mapping.is_code || !is_caller) else {
                return match self.is_caller_unread() {
                    true => UnwindOutcome::CopyEnded,
                    false => UnwindOutcome::NoMapping,
                };
            };
            last = Some(mapping);
            let how = self.method(mapping, address);
            // A signal handler returns to the trampoline's first byte.
            let is_return = !self.frame.is_exact && !self.is_signal_trampoline(how);
            frames.push(UnwoundFrame { pc: self.frame.pc, is_return });
            self.callee_frame_pointer = self.frame.get(self.arch.frame_pointer);
            match self.step_by(how, mapping) {
                Ok(()) => {}
                Err(Stop::Incomplete(why)) => return why,
                Err(Stop::First) => return UnwindOutcome::Whole,
                Err(Stop::Unread(at)) => return self.unread(at, interrupted),
                Err(Stop::Damaged) => return UnwindOutcome::Damaged,
            }
            interrupted |= self.frame.is_exact;
            self.frame.pc = self.frame.pc << signature >> signature;
        }
        UnwindOutcome::TooDeep
    }

    /// Whether the return address is a word of memory that couldn't be read: its lower half is enough
    /// to tell, as signatures are in the upper one.
    fn is_caller_unread(&self) -> bool {
        const UNREAD: u32 = u32::from_ne_bytes([UNREAD_BYTE; 4]);
        self.frame.pc & u64::from(u32::MAX) == u64::from(UNREAD) && !self.frame.is_exact
    }

    /// Goes from a frame to its caller.
    fn step_by(&mut self, how: UnwindMethod, mapping: &Mapping) -> Result<(), Stop> {
        match how {
            UnwindMethod::Row(row) => self.step(row),
            UnwindMethod::FramePointer(why) => {
                if self.step_out_of_system_call(mapping.dso)
                    || self.step_out_of_signal_in_32_bits(mapping.dso)
                    || self.step_by_code(mapping)
                    || self.step_out_of_leaf(false)
                {
                    return Ok(());
                }
                self.step_without_table(mapping.dso).map_err(|stop| match stop {
                    Stop::Damaged => Stop::Incomplete(why),
                    other => other,
                })
            }
            UnwindMethod::OutOfSignal => self.frame.step_out_of_signal(&self.memory, self.arch),
            UnwindMethod::First => Err(Stop::First),
            UnwindMethod::Not(UnwindOutcome::Assembly)
                if self.step_by_code(mapping)
                    || self.step_out_of_leaf(true)
                    || self.step_by_own_frame_pointer() =>
            {
                Ok(())
            }
            UnwindMethod::Not(UnwindOutcome::Assembly) if self.is_outermost() => Err(Stop::First),
            UnwindMethod::Not(why) => Err(Stop::Incomplete(why)),
        }
    }

    fn is_signal_trampoline(&self, how: UnwindMethod) -> bool {
        match how {
            UnwindMethod::OutOfSignal => true,
            UnwindMethod::Row(row) => {
                self.cache.rows.get(row as usize).is_some_and(|row| row.is_signal_frame)
            }
            _ => false,
        }
    }

    fn is_code(&self, address: u64) -> bool {
        self.space.find(address).is_some_and(|mapping| mapping.is_code)
    }

    fn step(&mut self, row: u32) -> Result<(), Stop> {
        let Self { unwinder, cache, dsos, arch, memory, frame, .. } = self;
        let Some(row) = cache.rows.get(row as usize) else { return Err(Stop::Damaged) };
        frame.step(row, memory, arch, &|place| {
            // They may have been dropped since the row was read.
            let loaded = unwinder.loaded(dsos, DsoId::from_index(place.dso)).as_ref().ok()?;
            loaded.tables.expression(place)
        })
    }

    /// Steps out of code without tables by the frame pointer, which most of Python's trampolines
    /// don't keep: those have a step of their own.
    fn step_without_table(&mut self, dso: DsoId) -> Result<(), Stop> {
        let Self { dsos, space, arch, memory, frame, .. } = self;
        let is_compiled =
            dsos.get(dso).is_some_and(|dso| matches!(dso.kind, DsoKind::PerfMap { .. }));
        let is_interpreter = |address: u64| {
            let dso = space.find(address).and_then(|mapping| dsos.get(mapping.dso));
            dso.is_some_and(|dso| Runtime::from_path(&dso.name) == Some(Runtime::Python))
        };
        if is_compiled && frame.step_out_of_trampoline(memory, arch, is_interpreter) {
            return Ok(());
        }
        frame.step_by_frame_pointer(memory, arch)
    }

    /// Steps out of code of a file without tables by its instructions, if a call is before the
    /// return address that they name. Returns whether it is.
    fn step_by_code(&mut self, mapping: &Mapping) -> bool {
        if self.arch.machine != arch::X86_64.machine {
            return false;
        }
        let key = (mapping.dso.number(), mapping.to_dso(self.frame.pc));
        if self.row_to_return(key, mapping.dso).is_some_and(|row| self.returns_by(row)) {
            return true;
        }
        let mut number = 0;
        while let Some(row) = self.row_from_beginning(key, mapping.dso, number) {
            if self.returns_by(row) {
                return true;
            }
            number += 1;
        }
        false
    }

    /// Steps to the caller by a row, if a call is before the return address. Returns whether it is.
    fn returns_by(&mut self, row: u32) -> bool {
        let old = self.frame;
        let is_caller = self.step(row).is_ok() && self.is_return_address(self.frame.pc);
        if !is_caller {
            self.frame = old;
        }
        is_caller
    }

    /// Returns the row of an address in a DSO, found by following its code to the return.
    fn row_to_return(&mut self, key: (u32, u64), dso: DsoId) -> Option<u32> {
        if let Some(row) = self.cache.followed.get(&key) {
            return *row;
        }
        let loaded = self.unwinder.loaded(self.dsos, dso).as_ref().ok()?;
        let own = loaded.tables.segments().to_address(key.1)?;
        let read = |address: u64, into: &mut [u8]| loaded.read(address, into);
        let row = assembly::row_to_return(own, read, &mut self.cache.context.left);
        let row = row.map(|row| self.cache.insert(row));
        self.cache.followed.insert(key, row);
        row
    }

    /// Returns one of the rows of an address in a DSO, found by following its code from where its
    /// function may begin.
    fn row_from_beginning(&mut self, key: (u32, u64), dso: DsoId, number: usize) -> Option<u32> {
        if let Some(rows) = self.cache.begun.get(&key) {
            return rows.get(number).copied();
        }
        let loaded = self.unwinder.loaded(self.dsos, dso).as_ref().ok()?;
        let own = loaded.tables.segments().to_address(key.1)?;
        let read = |address: u64, into: &mut [u8]| loaded.read(address, into);
        let rows = assembly::rows_from_beginnings(own, read, &mut self.cache.context.left);
        let rows: Box<[u32]> = rows.into_iter().map(|row| self.cache.insert(row)).collect();
        let row = rows.get(number).copied();
        self.cache.begun.insert(key, rows);
        row
    }

    /// Steps out of code without tables by the frame pointer, if the code has set it up: otherwise
    /// its own return address is below the frame that it points to. Returns whether it has.
    fn step_by_own_frame_pointer(&mut self) -> bool {
        /// Words of a frame that are searched.
        const WORDS: u64 = 512;
        let old = self.frame;
        let Some(fp) = old.get(self.arch.frame_pointer) else { return false };
        let Some(sp) = old.get(self.arch.stack_pointer) else { return false };
        let word_bytes = u64::from(self.arch.word_bytes);
        let words = fp.checked_sub(sp).map(|bytes| bytes / word_bytes);
        if fp == 0 || self.arch.has_link_register || words.is_none_or(|words| words > WORDS) {
            return false;
        }
        let has_other = (0..words.unwrap_or(0)).any(|at| {
            let word = self.memory.word(sp.wrapping_add(at * word_bytes));
            word.is_some_and(|word| self.is_return_address(word))
        });
        let stepped =
            !has_other && self.frame.step_by_frame_pointer(&self.memory, self.arch).is_ok();
        let is_caller = stepped && self.is_return_address(self.frame.pc);
        if !is_caller {
            self.frame = old;
        }
        is_caller
    }

    /// Whether code without tables that made a call is a thread's first: its frame pointer is 0, as
    /// System V's psABI for x86-64 suggests (section 3.4.1), and no return address follows.
    fn is_outermost(&mut self) -> bool {
        /// Words of the stack that are searched.
        const WORDS: u64 = 16;
        let sp = self.frame.get(self.arch.stack_pointer);
        let Some(sp) = sp.filter(|_| !self.arch.has_link_register) else { return false };
        let mut words =
            (0..WORDS).map(|at| sp.saturating_add(at * u64::from(self.arch.word_bytes)));
        self.frame.get(self.arch.frame_pointer) == Some(0)
            && !self.frame.is_exact
            && !words
                .any(|at| self.memory.word(at).is_some_and(|word| self.is_return_address(word)))
    }

    /// Whether code returns to an address: a call is before it, or the code there ends a signal
    /// handler. Code of a just-in-time compiler is in no file, so any address there may be one.
    fn is_return_address(&mut self, address: u64) -> bool {
        let space = self.space;
        let mapping = space.find(address.wrapping_sub(1)).filter(|mapping| mapping.is_code);
        let Some(mapping) = mapping else { return false };
        let Ok(loaded) = self.unwinder.loaded(self.dsos, mapping.dso) else { return true };
        let own = loaded.tables.segments().to_address(mapping.to_dso(address));
        self.call_before(mapping, address).is_some()
            || own.is_some_and(|own| loaded.has_code(own, self.arch.signal_return))
    }

    /// Steps out of an interrupted function without tables, if the word at the stack pointer is the
    /// return address of a call of it. Returns whether it is.
    fn step_out_of_leaf(&mut self, is_in_assembly: bool) -> bool {
        if !self.frame.is_exact || self.arch.has_link_register {
            return false;
        }
        let sp = self.frame.get(self.arch.stack_pointer);
        let Some((sp, pc)) = sp.and_then(|sp| Some((sp, self.memory.word(sp)?))) else {
            return false;
        };
        let caller = self.space.find(pc.wrapping_sub(1)).filter(|caller| caller.is_code);
        let Some(call) = caller.and_then(|caller| self.call_before(caller, pc)) else {
            return false;
        };
        // A call of another file goes through a stub. A word of data can look like a return
        // address, so in a file without any tables, an indirect call proves too little.
        let is_caller = match call {
            Call::Indirect => is_in_assembly,
            Call::Direct(_) => {
                call.target(pc).is_some_and(|target| self.is_stub(target))
                    || call.reaches(pc, self.frame.pc)
            }
        };
        if is_caller {
            self.frame.step_out_of_leaf(sp, pc, self.arch);
        }
        is_caller
    }

    /// Steps out of the vDSO's function that makes the system calls of 32-bit programs
    /// (`arch/x86/entry/vdso/vdso32/system_call.S`): it pushes CX, DX and BP. Returns whether the
    /// code is that.
    fn step_out_of_system_call(&mut self, dso: DsoId) -> bool {
        const WORDS_PUSHED: u64 = 3;
        let is_vdso = self.dsos.get(dso).is_some_and(|dso| dso.name == b"[vdso]");
        if self.arch.word_bytes != 4 || !is_vdso || !self.frame.is_exact {
            return false;
        }
        let Some(sp) = self.frame.get(self.arch.stack_pointer) else { return false };
        for pushed in 0..=WORDS_PUSHED {
            let at = sp.saturating_add(pushed * 4);
            let Some(pc) = self.memory.word(at) else { return false };
            let caller = self.space.find(pc.wrapping_sub(1)).filter(|caller| caller.is_code);
            if caller.is_some_and(|caller| self.call_before(caller, pc).is_some()) {
                if pushed == WORDS_PUSHED {
                    self.frame.set(self.arch.frame_pointer, self.memory.word(sp));
                }
                self.frame.step_out_of_leaf(at, pc, self.arch);
                return true;
            }
        }
        false
    }

    /// Steps out of the vDSO's functions to which signal handlers of 32-bit programs return
    /// (`arch/x86/entry/vdso/vdso32/sigreturn.S`). Returns whether the code is that.
    fn step_out_of_signal_in_32_bits(&mut self, dso: DsoId) -> bool {
        let is_vdso = self.dsos.get(dso).is_some_and(|dso| dso.name == b"[vdso]");
        if self.arch.word_bytes != 4 || !is_vdso || self.frame.is_exact {
            return false;
        }
        let old = self.frame;
        let space = self.space;
        let is_code = |at: u64| space.find(at).is_some_and(|mapping| mapping.is_code);
        let stepped = self.frame.step_out_of_signal_in_32_bits(&self.memory, self.arch, is_code);
        if !stepped {
            self.frame = old;
        }
        stepped
    }

    /// Whether an address is in a stub of the procedure linkage table.
    fn is_stub(&self, address: u64) -> bool {
        self.space.find(address).is_some_and(|mapping| {
            let loaded = self.unwinder.loaded(self.dsos, mapping.dso).as_ref().ok();
            let tables = loaded.map(|loaded| &loaded.tables);
            let in_dso = mapping.to_dso(address);
            tables.is_some_and(|tables| {
                tables.segments().to_address(in_dso).is_some_and(|own| tables.is_stub(own))
            })
        })
    }

    /// Returns the call that ends before an address in a mapping.
    fn call_before(&mut self, mapping: &Mapping, address: u64) -> Option<Call> {
        let in_dso = mapping.to_dso(address);
        let key = (mapping.dso.number(), in_dso);
        if let Some(call) = self.cache.calls.get(&key) {
            return *call;
        }
        let read = || {
            let loaded = self.unwinder.loaded(self.dsos, mapping.dso).as_ref().ok()?;
            let own = loaded.tables.segments().to_address(in_dso.checked_sub(1)?)?;
            let mut bytes = [0; call::BYTES];
            let first = own.checked_sub(call::BYTES as u64 - 1)?;
            loaded.read(first, &mut bytes).then(|| Call::before(bytes)).flatten()
        };
        let call = read();
        self.cache.calls.insert(key, call);
        call
    }

    /// Whether the innermost function made a system call, and none of its stack could be read. The
    /// call of this function wrote to the stack, so the memory was there: only execve(2) removes it.
    fn is_replaced(&self) -> bool {
        let instruction = self.arch.system_call;
        let call = self.frame.pc.wrapping_sub(instruction.len() as u64);
        let mapping = self.space.find(call).filter(|_| self.memory.bytes.is_empty());
        mapping.is_some_and(|mapping| {
            let Ok(loaded) = self.unwinder.loaded(self.dsos, mapping.dso) else { return false };
            let own = loaded.tables.segments().to_address(mapping.to_dso(call));
            own.is_some_and(|own| loaded.has_code(own, instruction))
        })
    }

    /// Returns the outcome for an address that isn't in the copy.
    fn unread(&self, address: u64, interrupted: bool) -> UnwindOutcome {
        let copied = self.space.find(self.memory.start);
        match copied {
            _ if self.is_replaced() => UnwindOutcome::Replaced,
            _ if address >= self.memory.start && address < self.memory.end() => {
                UnwindOutcome::CopyEnded
            }
            Some(stack) if stack.start <= address && address < stack.end => {
                UnwindOutcome::CopyEnded
            }
            None if address >= self.memory.end() => UnwindOutcome::CopyEnded,
            _ if interrupted => UnwindOutcome::OtherStack,
            _ => UnwindOutcome::Damaged,
        }
    }

    fn method(&mut self, mapping: &Mapping, address: u64) -> UnwindMethod {
        let in_dso = mapping.to_dso(address);
        let key = (mapping.dso.number(), in_dso);
        if let Some(row) = self.cache.recent.get(key) {
            return UnwindMethod::Row(row);
        }
        let known = self.cache.by_address.get(&key).copied();
        let how = known.unwrap_or_else(|| {
            let how = self.choose_method(mapping.dso, in_dso);
            self.cache.by_address.insert(key, how);
            how
        });
        if let UnwindMethod::Row(row) = how
            && self.cache.by_address.len() >= RecentRows::MIN_ADDRESSES
        {
            self.cache.recent.set(key, row);
        }
        how
    }

    fn choose_method(&mut self, dso: DsoId, in_dso: u64) -> UnwindMethod {
        let loaded = match self.unwinder.loaded(self.dsos, dso) {
            Ok(loaded) => loaded,
            Err(UnwindOutcome::NoTable) => {
                return UnwindMethod::FramePointer(UnwindOutcome::NoTable);
            }
            Err(why) => return UnwindMethod::Not(*why),
        };
        let tables = &loaded.tables;
        let Some(own) = tables.segments().to_address(in_dso) else {
            return UnwindMethod::Not(UnwindOutcome::NoMapping);
        };
        if tables.arch().is_none_or(|arch| arch.machine != self.arch.machine) {
            return UnwindMethod::Not(UnwindOutcome::NoBinary);
        }
        let found = tables.row(dso.number(), own, self.arch, &mut self.cache.context);
        // A signal handler returns to the first byte of a function that didn't call it, so the byte
        // before may belong to another function or to none.
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
            RowLookup::Damaged => UnwindMethod::Not(UnwindOutcome::Damaged),
            RowLookup::NoEntry | RowLookup::NoTable if leaves_signal(own) => {
                UnwindMethod::OutOfSignal
            }
            RowLookup::NoEntry | RowLookup::NoTable if tables.is_entry_point(own) => {
                UnwindMethod::First
            }
            RowLookup::NoTable => UnwindMethod::FramePointer(UnwindOutcome::NoTable),
            RowLookup::NoEntry => UnwindMethod::Not(UnwindOutcome::Assembly),
        }
    }

    /// Whether threads start in the function at an address.
    fn is_first_function(&mut self, address: u64) -> bool {
        let Some(mapping) = self.space.find(address) else { return false };
        match self.method(mapping, address) {
            UnwindMethod::First => true,
            UnwindMethod::Row(row) => {
                self.cache.rows.get(row as usize).is_some_and(|row| row.return_address.is_none())
            }
            _ => false,
        }
    }
}
