//! Names, lines and inlined functions in the tables of Go's runtime, which `strip` keeps (section
//! `.gopclntab`; `runtime/symtab.go`, `runtime/symtabinl.go` and `internal/abi/symtab.go` of Go
//! 1.18 to 1.26).
//!
//! ```text
//! header | names | files of units | files | tables by pc | functions: first address, record ...
//! record --offset--> table by pc: steps of (value, addresses) for line, file, inlined call
//! ```

use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, Rela, SectionHeader};
use object::{Endian, Endianness};

use super::sections::Sections;

/// Names of the section; position-independent programs have the second one.
const SECTIONS: [&[u8]; 2] = [b".gopclntab", b".data.rel.ro.gopclntab"];

/// Number of the word of `runtime.moduledata` with the address of the code. Word 0 has the address
/// of the table, word 1 that of the names.
const TEXT: u64 = 22;

/// Limit on the bytes of the inlined calls.
const MAX_INLINE_BYTES: usize = 1 << 28;

/// Layout of a version of Go.
#[derive(Clone, Copy, Debug)]
struct Version {
    magic: u32,
    /// Bytes of a function's record before its lists.
    record: usize,
    /// Bytes of an inlined call.
    call_bytes: usize,
    /// Offset in an inlined call of the function's name.
    call_name: usize,
    /// Offset in an inlined call of the call's position in its caller.
    call_position: usize,
    /// Number of the word of `runtime.moduledata` with the address of the inlined calls.
    inline_word: u64,
    /// Offsets in a record and in an inlined call of the first line of the function.
    first_lines: Option<[usize; 2]>,
}

/// Go 1.18 and 1.19; Go 1.20 and later.
const VERSIONS: [Version; 2] = [
    Version {
        magic: 0xffff_fff0,
        record: 40,
        call_bytes: 20,
        call_name: 12,
        call_position: 16,
        inline_word: 38,
        first_lines: None,
    },
    Version {
        magic: 0xffff_fff1,
        record: 44,
        call_bytes: 16,
        call_name: 4,
        call_position: 8,
        inline_word: 40,
        first_lines: Some([36, 12]),
    },
];

/// `PCDATA_InlTreeIndex` and `FUNCDATA_InlTree`.
const INLINE_INDEX: usize = 2;
const INLINE_TREE: usize = 3;

/// Functions of a Go program, by address.
#[derive(Debug)]
pub(crate) struct GoFunctions {
    endian: Endianness,
    version: Version,
    /// Bytes of the shortest instruction.
    quantum: u64,
    table: Vec<u8>,
    parts: TableParts,
    /// Number of functions.
    count: usize,
    /// Address that the addresses of functions are relative to.
    text: u64,
    inline_trees: Vec<u8>,
}

/// Offsets of the parts of the table. Unchecked: a damaged file can have any.
#[derive(Clone, Copy, Debug)]
struct TableParts {
    names: usize,
    units: usize,
    files: usize,
    steps: usize,
    functions: usize,
}

/// A function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoFunction {
    pub(crate) start: u64,
    /// Address after its last byte and the padding after it.
    pub(crate) end: u64,
    /// Offset of its name among the names.
    pub(crate) name: u32,
    /// Offset of its record in the table.
    record: usize,
}

/// A function at an address, and the line there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GoFrame<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) file: Option<&'a [u8]>,
    pub(crate) line: u32,
    /// Line of the `func` keyword; 0 if unknown.
    pub(crate) first_line: u32,
    pub(crate) is_inlined: bool,
}

/// A call that the compiler inlined.
#[derive(Clone, Copy, Debug)]
struct InlinedCall {
    /// Offset of the function's name.
    name: u32,
    /// Position of the call in its caller.
    position: u32,
    first_line: u32,
}

impl GoFunctions {
    /// Reads the table; `None` if the file lacks it, its version is unknown, its addresses don't
    /// have 8 bytes, or the address of the code isn't found.
    pub(crate) fn read<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        sections: &Sections<'d, H, R>,
    ) -> Option<Self> {
        let section = SECTIONS.iter().find_map(|name| sections.named(name))?;
        let endian = sections.endian;
        let table = sections.bytes(section).ok()?;
        let front: &[u8; 8] = table.first_chunk()?;
        let magic = u32_at(endian, table, 0)?;
        let version = *VERSIONS.iter().find(|version| version.magic == magic)?;
        let [.., 0, 0, quantum, 8] = *front else { return None };
        let word = |at: usize| usize::try_from(u64_at(endian, table, 8 + 8 * at)?).ok();
        let mut go = Self {
            endian,
            version,
            quantum: quantum.into(),
            parts: TableParts {
                names: word(3)?,
                units: word(4)?,
                files: word(5)?,
                steps: word(6)?,
                functions: word(7)?,
            },
            count: word(0)?.min(table.len() / 8),
            text: word(2)? as u64,
            inline_trees: Vec::new(),
            table: Vec::new(),
        };
        let address = section.sh_addr(endian).into();
        let names = address.checked_add(go.parts.names as u64)?;
        let relocated = relocated(sections);
        let module = ModuleData::find(sections, &relocated, address, names);
        if let Some(module) = &module {
            go.text = module.word(TEXT)?;
            let calls = module.word(version.inline_word);
            let calls = calls.and_then(|at| bytes_from(sections, at)).unwrap_or_default();
            go.inline_trees = calls[..calls.len().min(MAX_INLINE_BYTES)].to_vec();
        } else if go.text == 0 {
            // Since Go 1.26 only `runtime.moduledata` has the address.
            return None;
        }
        go.table = table.to_vec();
        Some(go)
    }

    /// All functions, by address.
    pub(crate) fn iter(&self) -> impl Iterator<Item = GoFunction> {
        (0..self.count).map_while(|at| self.function(at))
    }

    /// The names, each followed by a NUL byte.
    pub(crate) fn names(&self) -> &[u8] {
        let TableParts { names, units, .. } = self.parts;
        let end = units.max(names).min(self.table.len());
        self.table.get(names..end).unwrap_or_default()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.table.len() + self.inline_trees.len()
    }

    fn function(&self, at: usize) -> Option<GoFunction> {
        let entry = self.parts.functions.checked_add(at.checked_mul(8)?)?;
        let record = self.parts.functions.checked_add(self.u32(entry.checked_add(4)?)? as usize)?;
        let start = self.text.checked_add(self.u32(entry)?.into())?;
        let end = self.text.checked_add(self.u32(entry.checked_add(8)?)?.into())?;
        Some(GoFunction { start, end, name: self.u32(record.checked_add(4)?)?, record })
    }

    fn find(&self, address: u64) -> Option<GoFunction> {
        let mut low = 0;
        let mut high = self.count;
        while low < high {
            let middle = low.midpoint(high);
            let function = self.function(middle);
            if function.is_some_and(|function| function.start <= address) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        self.function(low.checked_sub(1)?).filter(|function| address < function.end)
    }

    /// Returns the functions at an address, innermost first; none if they are more than
    /// [`crate::limits::INLINED`]. `left` is the number of table steps that may still be read.
    pub(crate) fn frames(&self, address: u64, left: &mut usize) -> Vec<GoFrame<'_>> {
        const MOST: usize = crate::limits::INLINED;
        let mut frames = Vec::new();
        let Some(function) = self.find(address) else { return frames };
        let mut at = address - function.start;
        while frames.len() < MOST {
            let (file, line) = self.line(&function, at, left);
            let call = self.inlined_call(&function, at, left);
            let name = call.map_or(function.name, |call| call.name);
            let name = text_at(self.names(), name as usize).unwrap_or_default();
            let own = || self.u32(function.record.checked_add(self.version.first_lines?[0])?);
            let first_line = call.map_or_else(|| own().unwrap_or(0), |call| call.first_line);
            frames.push(GoFrame { name, file, line, first_line, is_inlined: call.is_some() });
            match call {
                Some(call) => at = call.position.into(),
                None => return frames,
            }
        }
        Vec::new()
    }

    fn line(&self, of: &GoFunction, at: u64, left: &mut usize) -> (Option<&[u8]>, u32) {
        let table = |field: usize| self.u32(of.record.checked_add(4 * field)?);
        let line = table(6).and_then(|table| self.value(table, at, left));
        let line = line.and_then(|line| u32::try_from(line).ok()).unwrap_or(0);
        let number = table(5).and_then(|table| self.value(table, at, left));
        let file = number.and_then(|number| {
            let unit = self.parts.units.checked_add(4 * table(8)? as usize)?;
            let name = self.u32(unit.checked_add(4 * usize::try_from(number).ok()?)?)?;
            text_at(self.table.get(self.parts.files..)?, name as usize)
        });
        (file.filter(|file| !file.is_empty()), line)
    }

    /// Returns the call inlined at a position.
    fn inlined_call(&self, of: &GoFunction, at: u64, left: &mut usize) -> Option<InlinedCall> {
        let list = of.record.checked_add(self.version.record)?;
        let tables = self.u32(of.record.checked_add(28)?)? as usize;
        let lists = *self.table.get(list.checked_sub(1)?)?;
        if tables <= INLINE_INDEX || usize::from(lists) <= INLINE_TREE {
            return None;
        }
        let index = self.u32(list.checked_add(4 * INLINE_INDEX)?)?;
        let index = usize::try_from(self.value(index, at, left)?).ok()?;
        let tree = list.checked_add(4 * tables.checked_add(INLINE_TREE)?)?;
        let tree = self.u32(tree).filter(|tree| *tree != u32::MAX)? as usize;
        let Version { call_bytes, call_name, call_position, first_lines, .. } = self.version;
        let call = self.inline_trees.get(tree.checked_add(index.checked_mul(call_bytes)?)?..)?;
        let field = |at: usize| u32_at(self.endian, call, at);
        let position = field(call_position).filter(|position| i32::try_from(*position).is_ok())?;
        let first_line = first_lines.and_then(|[_, at]| field(at)).unwrap_or(0);
        Some(InlinedCall { name: field(call_name)?, position, first_line })
    }

    /// Returns the value of a table at a distance from its function's first address.
    fn value(&self, table: u32, at: u64, left: &mut usize) -> Option<i64> {
        let mut steps =
            self.table.get(self.parts.steps.checked_add(table as usize)?..)?.iter().copied();
        if table == 0 {
            return None;
        }
        let mut value = -1_i64;
        let mut end = 0_u64;
        let mut is_first = true;
        loop {
            *left = left.checked_sub(1)?;
            let delta = number(&mut steps)?;
            if delta == 0 && !is_first {
                return None;
            }
            is_first = false;
            // The sign is in the lowest bit.
            let delta = (delta >> 1).cast_signed() ^ -(delta & 1).cast_signed();
            value = value.checked_add(delta)?;
            end = end.checked_add(number(&mut steps)?.checked_mul(self.quantum)?)?;
            if at < end {
                return Some(value);
            }
        }
    }

    fn u32(&self, at: usize) -> Option<u32> {
        u32_at(self.endian, &self.table, at)
    }
}

/// Reads a number of at most five groups of seven bits, lowest first.
fn number(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut value = 0;
    for shift in (0..35).step_by(7) {
        let byte = bytes.next()?;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn u32_at(endian: Endianness, bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = *bytes.get(at..)?.first_chunk()?;
    Some(if endian.is_little_endian() {
        u32::from_le_bytes(bytes)
    } else {
        u32::from_be_bytes(bytes)
    })
}

fn u64_at(endian: Endianness, bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = *bytes.get(at..)?.first_chunk()?;
    Some(if endian.is_little_endian() {
        u64::from_le_bytes(bytes)
    } else {
        u64::from_be_bytes(bytes)
    })
}

/// Returns a text up to its NUL byte, or to the limit on names.
fn text_at(texts: &[u8], at: usize) -> Option<&[u8]> {
    let rest = texts.get(at..)?;
    rest[..rest.len().min(crate::limits::NAME_BYTES)].split(|byte| *byte == 0).next()
}

/// Returns the bytes from an address to the end of its section.
fn bytes_from<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    sections: &Sections<'d, H, R>,
    address: u64,
) -> Option<&'d [u8]> {
    let endian = sections.endian;
    let section = sections.headers().iter().find(|section| {
        let start: u64 = section.sh_addr(endian).into();
        start != 0 && address >= start && address - start < section.sh_size(endian).into()
    })?;
    let begin = usize::try_from(address - section.sh_addr(endian).into()).ok()?;
    sections.bytes(section).ok()?.get(begin..)
}

/// `runtime.moduledata`, with the dynamic linker's relocations applied.
struct ModuleData<'m> {
    endian: Endianness,
    /// Bytes from its start to the end of the section.
    bytes: &'m [u8],
    address: u64,
    /// Addresses written by the dynamic linker, by where it writes them.
    relocated: &'m [(u64, u64)],
}

impl<'m> ModuleData<'m> {
    /// Searches the relocated words, or if none has the table's address all writable data, for the
    /// two known first words.
    fn find<'d: 'm, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        sections: &Sections<'d, H, R>,
        relocated: &'m [(u64, u64)],
        table: u64,
        names: u64,
    ) -> Option<Self> {
        let endian = sections.endian;
        let at = |address: u64| -> Option<Self> {
            let bytes = bytes_from(sections, address)?;
            let module = Self { endian, bytes, address, relocated };
            (module.word(0) == Some(table) && module.word(1) == Some(names)).then_some(module)
        };
        if relocated.iter().any(|(_, to)| *to == table) {
            let mut places = relocated.iter().filter(|(_, to)| *to == table);
            return places.find_map(|(place, _)| at(*place));
        }
        let is_data = |section: &&H::SectionHeader| {
            let flags = section.sh_flags(endian);
            section.sh_type(endian) == elf::SHT_PROGBITS && flags.contains(elf::SHF_WRITE)
        };
        sections.headers().iter().filter(is_data).find_map(|section| {
            let start: u64 = section.sh_addr(endian).into();
            let bytes = sections.bytes(section).ok()?;
            let words = bytes.chunks_exact(8).zip((start..).step_by(8));
            let mut places = words.filter(|(word, _)| u64_at(endian, word, 0) == Some(table));
            places.find_map(|(_, place)| at(place))
        })
    }

    fn word(&self, number: u64) -> Option<u64> {
        let at = number * 8;
        let address = self.address.checked_add(at)?;
        moved(self.relocated, address)
            .or_else(|| u64_at(self.endian, self.bytes, usize::try_from(at).ok()?))
    }
}

fn moved(relocated: &[(u64, u64)], address: u64) -> Option<u64> {
    let at = relocated.binary_search_by_key(&address, |(at, _)| *at).ok()?;
    Some(relocated.get(at)?.1)
}

/// Returns the addresses that the dynamic linker writes, sorted by where it writes them.
fn relocated<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    sections: &Sections<'d, H, R>,
) -> Vec<(u64, u64)> {
    let endian = sections.endian;
    let relative = match sections.machine {
        elf::EM_X86_64 => elf::R_X86_64_RELATIVE,
        elf::EM_AARCH64 => elf::R_AARCH64_RELATIVE,
        _ => return Vec::new(),
    };
    let relocation = |rela: &H::Rela| {
        let addend: i64 = rela.r_addend(endian).into();
        let is_relative = rela.r_type(endian, false) == relative;
        is_relative.then(|| (rela.r_offset(endian).into(), addend.cast_unsigned()))
    };
    let mut all: Vec<_> = sections.dynamic_relocations().iter().filter_map(relocation).collect();
    all.sort_unstable();
    all
}
