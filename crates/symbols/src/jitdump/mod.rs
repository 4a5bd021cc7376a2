//! Reads jitdumps, in which just-in-time compilers describe their code
//! (`tools/perf/Documentation/jitdump-specification.txt`).
//!
//! ```text
//! header | DEBUG_INFO, UNWINDING_INFO, LOAD | ... | MOVE | ... | CLOSE     each record with a time
//! ```
//! The DSO addresses of a dump number the bytes of all code in file order, without gaps. A
//! [`JitChange`] places code at addresses of the process at a time, or removes it. UNWINDING_INFO
//! and CLOSE are skipped: code stays where it is after CLOSE.

mod debug_info;
mod source;

use std::collections::HashMap;
use std::io;

pub use debug_info::JitLine;
pub use source::ReadAt;

use crate::limits;
use crate::table::SymbolMatch;
use source::{Endian, Window};

/// `JiTD`, in the byte order of the writer.
const MAGIC: u32 = 0x4a69_5444;

/// Bytes of the file's header, and of a record's.
const HEADER: u64 = 40;
const PREFIX: u64 = 16;

/// Bytes of a LOAD record before the function's name, and of a MOVE record.
const LOAD: usize = 56;
const MOVE: u64 = 64;

/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`: times are the CPU's time stamps.
const ARCH_TIMESTAMP: u64 = 1;

/// Value of the header's reserved field in dumps of V8.
const V8: u32 = 0xdead_beef;

/// Why a jitdump can't be read.
#[derive(Debug, thiserror::Error)]
pub enum JitDumpError {
    /// The file doesn't start with a jitdump's header.
    #[error("no jitdump: it begins otherwise")]
    BadMagic,
    /// Reading the file failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// A change at a range of the process's addresses: code is placed there or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitChange {
    /// Nanoseconds of `CLOCK_MONOTONIC`, unless [`JitDump::has_cpu_time`].
    pub time_ns: u64,
    /// The first address in the process.
    pub start: u64,
    /// Address after the last byte.
    pub end: u64,
    /// DSO address of `start`; `None` if code was removed.
    pub code: Option<u64>,
}

/// A compiled function.
#[derive(Clone, Copy, Debug)]
struct JitFunction {
    /// Its first DSO address.
    code: u64,
    /// Its first address in the process when it was compiled; line entries use such addresses.
    address: u64,
    bytes: u64,
    name: (u32, u32),
    /// Its DEBUG_INFO record: offset and size.
    lines: Option<(u64, u32)>,
}

/// A jitdump: its functions, and the changes of their addresses. Names are kept in memory; source
/// lines are read at each lookup.
#[derive(Debug)]
pub struct JitDump<S> {
    source: S,
    endian: Endian,
    header: Header,
    functions: Vec<JitFunction>,
    names: Vec<u8>,
    changes: Vec<JitChange>,
    is_cut: bool,
}

#[derive(Clone, Copy, Debug)]
struct Header {
    pid: u32,
    created_ns: u64,
    has_cpu_time: bool,
    is_v8: bool,
}

impl<S: ReadAt> JitDump<S> {
    /// Reads a file once, up to the first damaged record or the first limit, such as
    /// [`limits::JIT_FUNCTIONS`].
    ///
    /// # Errors
    /// Fails if the file is not a jitdump or can't be read.
    pub fn read(source: S) -> Result<Self, JitDumpError> {
        let mut window = Window::new(&source);
        let magic = window.bytes(0, 4)?.ok_or(JitDumpError::BadMagic)?;
        let endian = Endian::of_magic(magic, MAGIC).ok_or(JitDumpError::BadMagic)?;
        let bytes = window.bytes(0, HEADER)?.ok_or(JitDumpError::BadMagic)?;
        let header = Header {
            pid: endian.u32(bytes, 20),
            created_ns: endian.u64(bytes, 24),
            has_cpu_time: endian.u64(bytes, 32) & ARCH_TIMESTAMP != 0,
            is_v8: endian.u32(bytes, 16) == V8,
        };
        let size = u64::from(endian.u32(bytes, 8)).max(HEADER);
        let mut records = Records { endian, ..Records::default() };
        let is_cut = !records.read(&mut window, size)?;
        let Records { functions, names, mut changes, .. } = records;
        // A compiling thread takes the time before it waits to write, so records are nearly sorted.
        changes.sort_by_key(|change| change.time_ns);
        Ok(Self { source, endian, header, functions, names, changes, is_cut })
    }

    /// Id of the process that wrote the dump, in the process's own PID namespace.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// When the dump was begun, in nanoseconds of the clock of its changes.
    #[must_use]
    pub fn created_ns(&self) -> u64 {
        self.header.created_ns
    }

    /// Whether times are the CPU's time stamps instead of nanoseconds of `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn has_cpu_time(&self) -> bool {
        self.header.has_cpu_time
    }

    /// Whether reading stopped early: the file ends within a record, a record is damaged, or a
    /// limit was reached.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The changes, in time order.
    #[must_use]
    pub fn changes(&self) -> &[JitChange] {
        &self.changes
    }

    /// Finds the function at a DSO address, and its number.
    fn function(&self, address: u64) -> Option<(usize, &JitFunction)> {
        let behind = self.functions.partition_point(|function| function.code <= address);
        let at = behind.checked_sub(1)?;
        let function = self.functions.get(at)?;
        (address - function.code < function.bytes).then_some((at, function))
    }

    /// Finds the function at a DSO address. A function with an empty name counts as none.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let (number, function) = self.function(address)?;
        if function.name.1 == 0 {
            return None;
        }
        let start = function.code;
        let number = u32::try_from(number).ok()?;
        Some(SymbolMatch { number, start, end: start.saturating_add(function.bytes) })
    }

    /// Returns a function's name, as written by the compiler. Untrusted.
    #[must_use]
    pub fn name(&self, function: u32) -> Option<&[u8]> {
        let (at, size) = self.functions.get(function as usize)?.name;
        self.names.get(at as usize..)?.get(..size as usize)
    }

    /// Returns the name of the function at a DSO address. Untrusted.
    #[must_use]
    pub fn name_at(&self, address: u64) -> Option<&[u8]> {
        self.name(self.find(address)?.number)
    }

    /// Finds the source line of a DSO address, if the dump has it. Reads the function's lines, at
    /// most [`limits::JIT_LINES_BYTES`].
    #[must_use]
    pub fn line(&self, address: u64) -> Option<JitLine> {
        let (number, function) = self.function(address)?;
        let (at, bytes) = function.lines?;
        let mut record = vec![0; bytes as usize];
        let read = self.source.read_at(&mut record, at).ok()?;
        let wanted = function.address.checked_add(address - function.code)?;
        let name = self.name(u32::try_from(number).ok()?)?;
        let lines = debug_info::LineReader {
            endian: self.endian,
            of: function.address..function.address.saturating_add(function.bytes),
            v8_name: self.header.is_v8.then_some(name),
        };
        lines.find(record.get(..read)?, wanted)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.names.len() + size_of_val(&*self.functions) + size_of_val(&*self.changes)
    }
}

/// The content of the records read so far.
#[derive(Default)]
struct Records {
    endian: Endian,
    functions: Vec<JitFunction>,
    names: Vec<u8>,
    changes: Vec<JitChange>,
    /// For each `code_index`, the number of its last function, and that function's address in the
    /// process.
    by_index: HashMap<u64, (usize, u64), foldhash::fast::RandomState>,
    /// The DEBUG_INFO of the next function: offset and size.
    lines: Option<(u64, u32)>,
    /// DSO address of the next function.
    code: u64,
}

impl Records {
    /// Reads records from an offset to the end. Returns `false` if reading stopped early.
    fn read<S: ReadAt>(&mut self, window: &mut Window<'_, S>, mut at: u64) -> io::Result<bool> {
        loop {
            let Some(prefix) = window.bytes(at, PREFIX)? else { return window.is_end(at) };
            let kind = self.endian.u32(prefix, 0);
            let size = u64::from(self.endian.u32(prefix, 4));
            let time_ns = self.endian.u64(prefix, 8);
            let is_over = self.functions.len() >= limits::JIT_FUNCTIONS
                || self.changes.len() >= 2 * limits::JIT_FUNCTIONS
                || self.names.len() >= limits::JIT_NAME_BYTES
                || at >= limits::JITDUMP_BYTES;
            if size < PREFIX || is_over || !window.has(at + size)? {
                return Ok(false);
            }
            match kind {
                0 if size > LOAD as u64 => self.load_function(window, at, size, time_ns)?,
                1 if size >= MOVE => self.move_function(window, at, time_ns)?,
                2 => {
                    let bytes =
                        u32::try_from(size).ok().filter(|_| size <= limits::JIT_LINES_BYTES);
                    self.lines = bytes.map(|bytes| (at, bytes));
                }
                _ => {}
            }
            at += size;
        }
    }

    fn load_function<S: ReadAt>(
        &mut self,
        window: &mut Window<'_, S>,
        at: u64,
        size: u64,
        time_ns: u64,
    ) -> io::Result<()> {
        let lines = self.lines.take();
        // The code follows the name; read no more than the longest name.
        let most = (size - LOAD as u64).min(limits::NAME_BYTES as u64);
        let Some(record) = window.bytes(at, LOAD as u64 + most)? else { return Ok(()) };
        let start = self.endian.u64(record, 32);
        let bytes = self.endian.u64(record, 40);
        let index = self.endian.u64(record, 48);
        let rest = record.get(LOAD..).unwrap_or_default();
        let name = rest.split(|byte| *byte == 0).next().unwrap_or_default();
        let end =
            start.checked_add(bytes).filter(|_| (1..=limits::JIT_CODE_BYTES).contains(&bytes));
        let Some(end) = end else { return Ok(()) };
        let Ok(name_offset) = u32::try_from(self.names.len()) else { return Ok(()) };
        self.names.extend_from_slice(name);
        let name = (name_offset, u32::try_from(name.len()).unwrap_or(0));
        let code = self.code;
        self.code = code.saturating_add(bytes);
        self.by_index.insert(index, (self.functions.len(), start));
        self.functions.push(JitFunction { code, address: start, bytes, name, lines });
        self.changes.push(JitChange { time_ns, start, end, code: Some(code) });
        Ok(())
    }

    fn move_function<S: ReadAt>(
        &mut self,
        window: &mut Window<'_, S>,
        at: u64,
        time_ns: u64,
    ) -> io::Result<()> {
        let Some(record) = window.bytes(at, MOVE)? else { return Ok(()) };
        let start = self.endian.u64(record, 40);
        let index = self.endian.u64(record, 56);
        let Some((function, lies_at)) = self.by_index.get_mut(&index) else { return Ok(()) };
        let JitFunction { code, bytes, .. } = self.functions[*function];
        let Some(end) = start.checked_add(bytes) else { return Ok(()) };
        let before = std::mem::replace(lies_at, start);
        let gone =
            JitChange { time_ns, start: before, end: before.saturating_add(bytes), code: None };
        self.changes.extend([gone, JitChange { time_ns, start, end, code: Some(code) }]);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
