//! Source files in a symbol table: a local symbol's file is the `STT_FILE` symbol before it (gABI,
//! "Symbol Table"). Rust's compiler puts the name of the code generation unit there.

use std::ops::Range;

use object::read::elf::{FileHeader, Sym};
use object::{Endianness, FileKind, elf};

use super::sections::Sections;
use crate::limits;

/// Source files of symbols.
#[derive(Debug, Default)]
pub(crate) struct SymbolFiles {
    /// Symbols by address; of several at one address, the smallest first.
    symbols: Vec<Local>,
    /// Range of the string table in the file.
    names: Range<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Local {
    start: u64,
    /// Bytes; 0 for a symbol that extends to the next one.
    bytes: u64,
    /// Offset of the file's name in the string table; 0 if the symbol isn't local or no `STT_FILE`
    /// symbol precedes it.
    file: u32,
}

impl SymbolFiles {
    /// Reads the symbol table of an ELF file; empty if the file lacks one, is damaged, or is an
    /// object file.
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let read = match FileKind::parse(bytes) {
            Ok(FileKind::Elf32) => Self::of_class::<elf::FileHeader32<Endianness>>(bytes),
            Ok(FileKind::Elf64) => Self::of_class::<elf::FileHeader64<Endianness>>(bytes),
            _ => return Self::default(),
        };
        read.unwrap_or_default()
    }

    fn of_class<H: FileHeader<Endian = Endianness>>(bytes: &[u8]) -> object::Result<Self> {
        let header = H::parse(bytes)?;
        let sections = Sections::<H, &[u8]>::read(header, bytes)?;
        let mut found = Self::default();
        // In an object file, such as a kernel module, symbols are relative to their section.
        if header.e_type(sections.endian) == elf::ET_REL {
            return Ok(found);
        }
        let Some(table) = sections.symbol_table(elf::SHT_SYMTAB)? else { return Ok(found) };
        let begin = table.names.as_ptr().addr().saturating_sub(bytes.as_ptr().addr());
        found.names = begin..begin.saturating_add(table.names.len());
        let endian = sections.endian;
        let mut file = 0;
        for symbol in table.symbols.iter().take(limits::SYMBOLS) {
            let name = symbol.st_name(endian);
            let is_named = table.names.get(name as usize).is_some_and(|first| *first != 0);
            match symbol.st_type() {
                // A file symbol without a name precedes the linker's own symbols.
                elf::STT_FILE => file = if is_named { name } else { 0 },
                elf::STT_FUNC | elf::STT_OBJECT | elf::STT_GNU_IFUNC | elf::STT_NOTYPE
                    if is_named && symbol.st_shndx(endian) != elf::SHN_UNDEF =>
                {
                    let is_local = symbol.st_bind() == elf::STB_LOCAL;
                    found.symbols.push(Local {
                        start: symbol.st_value(endian).into(),
                        bytes: symbol.st_size(endian).into(),
                        file: if is_local { file } else { 0 },
                    });
                }
                _ => {}
            }
        }
        found.symbols.sort_by_key(|symbol| (symbol.start, symbol.bytes));
        Ok(found)
    }

    /// Finds the source file of the symbol at one of the file's addresses. Pass the bytes of the
    /// file that was read.
    pub(crate) fn file<'d>(&self, bytes: &'d [u8], address: u64) -> Option<&'d [u8]> {
        let behind = self.symbols.partition_point(|symbol| symbol.start <= address);
        let symbol = self.symbols.get(behind.checked_sub(1)?)?;
        let is_within = symbol.bytes == 0 || address - symbol.start < symbol.bytes;
        if !is_within || symbol.file == 0 {
            return None;
        }
        let name = bytes.get(self.names.clone())?.get(symbol.file as usize..)?;
        name[..name.len().min(limits::NAME_BYTES)].split(|byte| *byte == 0).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbols_file_ends_with_the_symbol() {
        let symbol = |start, bytes, file| Local { start, bytes, file };
        let symbols = vec![symbol(10, 5, 1), symbol(20, 0, 5), symbol(30, 5, 0)];
        let files = SymbolFiles { symbols, names: 2..11 };
        let bytes = b"..\0a.c\0b.S\0";
        let found = [9, 10, 14, 15, 20, 29, 30].map(|address| files.file(bytes, address));
        let a = Some(&b"a.c"[..]);
        let b = Some(&b"b.S"[..]);
        assert_eq!(found, [None, a, a, None, b, b, None]);
    }

    #[test]
    fn a_file_that_is_not_elf_has_no_source_files() {
        for bytes in [&b""[..], &[0x7f, b'E', b'L', b'F', 2, 1, 1]] {
            assert!(SymbolFiles::read(bytes).file(bytes, 0).is_none());
        }
    }
}
