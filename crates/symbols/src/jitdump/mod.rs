//! What a just-in-time compiler says of its code as it makes it: a jitdump
//! (`tools/perf/Documentation/jitdump-specification.txt`).
//!
//! ```text
//! header | DEBUG_INFO, UNWINDING_INFO, LOAD | ... | MOVE | ... | CLOSE     each record with a time
//! ```
//! The code of a dump is numbered through in the order of the file, without gaps: that is what the
//! DSO of a dump calls an address. A [`JitChange`] says from when on which part of it lies where in
//! the process. Unwinding information is stepped over, and so is CLOSE: code stays where it is.

mod debug_info;
mod source;

use std::collections::HashMap;
use std::io;

pub use debug_info::JitLine;
pub use source::ReadAt;

use crate::limits;
use crate::table::SymbolMatch;
use source::{Endian, Window};

/// `JiTD` as its writer's machine has it, and as another would.
const MAGIC: u32 = 0x4a69_5444;

/// Bytes of the header, and of what each record begins with.
const HEADER: u64 = 40;
const PREFIX: u64 = 16;

/// Bytes of a LOAD record before the function's name, and of a MOVE record.
const LOAD: usize = 56;
const MOVE: u64 = 64;

/// `JITDUMP_FLAGS_ARCH_TIMESTAMP`: times are of the CPU's own clock.
const ARCH_TIMESTAMP: u64 = 1;

/// What V8 writes into the header's reserved field.
const V8: u32 = 0xdead_beef;

/// Why a file is no jitdump.
#[derive(Debug, thiserror::Error)]
pub enum JitDumpError {
    /// It doesn't begin as one.
    #[error("no jitdump: it begins otherwise")]
    BadMagic,
    /// It can't be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// From a time on, code lies at an address of its process, or nothing does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JitChange {
    /// Nanoseconds of `CLOCK_MONOTONIC`, unless [`JitDump::has_cpu_time`].
    pub time_ns: u64,
    /// The first address in the process.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
    /// What the dump's DSO calls `start`; `None` where nothing lies there any more.
    pub code: Option<u64>,
}

/// A function that was compiled.
#[derive(Clone, Copy, Debug)]
struct JitFunction {
    /// Its first address, as the DSO has it.
    code: u64,
    /// Where it lay in the process when it was made, which is what its lines go by.
    address: u64,
    bytes: u64,
    name: (u32, u32),
    /// Its DEBUG_INFO record: offset and size.
    lines: Option<(u64, u32)>,
}

/// A jitdump: its functions, and when they lay where. It keeps names, and reads lines of the source
/// when they are asked for.
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
    has_cpu_time: bool,
    is_v8: bool,
}

impl<S: ReadAt> JitDump<S> {
    /// Goes through a file once, up to where it is damaged. It takes memory for each function and
    /// its name, at most [`limits::JIT_FUNCTIONS`].
    ///
    /// # Errors
    /// See [`JitDumpError`].
    pub fn read(source: S) -> Result<Self, JitDumpError> {
        let mut window = Window::new(&source);
        let magic = window.bytes(0, 4)?.ok_or(JitDumpError::BadMagic)?;
        let endian = Endian::of_magic(magic, MAGIC).ok_or(JitDumpError::BadMagic)?;
        let bytes = window.bytes(0, HEADER)?.ok_or(JitDumpError::BadMagic)?;
        let header = Header {
            pid: endian.u32(bytes, 20),
            has_cpu_time: endian.u64(bytes, 32) & ARCH_TIMESTAMP != 0,
            is_v8: endian.u32(bytes, 16) == V8,
        };
        let size = u64::from(endian.u32(bytes, 8)).max(HEADER);
        let mut records = Records { endian, ..Records::default() };
        let is_cut = !records.read(&mut window, size)?;
        let Records { functions, names, mut changes, .. } = records;
        // Threads that compile write one after the other, each with a time taken a little before.
        changes.sort_by_key(|change| change.time_ns);
        Ok(Self { source, endian, header, functions, names, changes, is_cut })
    }

    /// The process that wrote it, as that knows itself: in a container another number than outside.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.header.pid
    }

    /// Whether times are of the CPU's own clock, and not of `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn has_cpu_time(&self) -> bool {
        self.header.has_cpu_time
    }

    /// Whether the file ends within a record, or has one that can't be.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What came to lie where, in order of time.
    #[must_use]
    pub fn changes(&self) -> &[JitChange] {
        &self.changes
    }

    /// The number of the function that an address of the DSO lies in.
    fn function(&self, address: u64) -> Option<(usize, &JitFunction)> {
        let behind = self.functions.partition_point(|function| function.code <= address);
        let at = behind.checked_sub(1)?;
        let function = self.functions.get(at)?;
        (address - function.code < function.bytes).then_some((at, function))
    }

    /// The function that an address of the DSO lies in.
    pub(crate) fn find(&self, address: u64) -> Option<SymbolMatch> {
        let (number, function) = self.function(address)?;
        let start = function.code;
        let number = u32::try_from(number).ok()?;
        Some(SymbolMatch { number, start, end: start.saturating_add(function.bytes) })
    }

    /// The name of a function, as the compiler has it. Untrusted.
    #[must_use]
    pub fn name(&self, function: u32) -> Option<&[u8]> {
        let (at, size) = self.functions.get(function as usize)?.name;
        self.names.get(at as usize..)?.get(..size as usize)
    }

    /// The name of the function that an address of the DSO lies in. Untrusted.
    #[must_use]
    pub fn name_at(&self, address: u64) -> Option<&[u8]> {
        self.name(self.find(address)?.number)
    }

    /// The line of the source that an address of the DSO was compiled from; `None` where the dump
    /// doesn't say. It reads the function's lines, at most [`limits::JIT_LINES_BYTES`].
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

    /// Whether there are no functions.
    pub(crate) fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// Memory.
    pub(crate) fn bytes(&self) -> usize {
        self.names.len() + size_of_val(&*self.functions) + size_of_val(&*self.changes)
    }
}

/// What records said so far.
#[derive(Default)]
struct Records {
    endian: Endian,
    functions: Vec<JitFunction>,
    names: Vec<u8>,
    changes: Vec<JitChange>,
    /// The last function with a `code_index`, and where it lies.
    by_index: HashMap<u64, (usize, u64), foldhash::fast::RandomState>,
    /// The DEBUG_INFO of the next function: offset and size.
    lines: Option<(u64, u32)>,
    /// The first address of the DSO that no function has.
    code: u64,
}

impl Records {
    /// Goes through the records from an offset on. `false`: the last one isn't whole.
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
                0 if size > LOAD as u64 => self.load(window, at, size, time_ns)?,
                1 if size >= MOVE => self.moved(window, at, time_ns)?,
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

    fn load<S: ReadAt>(
        &mut self,
        window: &mut Window<'_, S>,
        at: u64,
        size: u64,
        time_ns: u64,
    ) -> io::Result<()> {
        let lines = self.lines.take();
        // What is longer than a name is the code.
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

    fn moved<S: ReadAt>(
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
