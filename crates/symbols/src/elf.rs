//! Reads ELF files: build ids, symbols, segments, unwind tables, Go's tables, and kernel modules.

mod frames;
mod go;
mod module;
mod sections;
mod symbol_files;

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

pub(crate) use frames::FrameTables;
pub(crate) use go::GoFunctions;
pub(crate) use module::{Layout, LoadedModule, ModuleImage};
use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, Rela, SectionHeader, Sym};
use object::{Endianness, FileKind};
use sections::ElfSymbolTable;
pub(crate) use sections::{DebugLink, Sections, Segments};
pub(crate) use symbol_files::SymbolFiles;

use crate::dso::BuildId;
use crate::name_source::NameSource;
use crate::packed::xz;
use crate::table::{Binding, NamePart, NewSymbol, SymbolKind, SymbolTableBuilder};

pub(crate) fn build_id<'d, R: ReadRef<'d>>(data: R) -> object::Result<Option<BuildId>> {
    fn of_class<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
    ) -> object::Result<Option<BuildId>> {
        let header = H::parse(data)?;
        let sections = Sections::<H, R>::read(header, data)?;
        Ok(sections.build_id().or_else(|| sections.build_id_in_segments(header)))
    }
    match FileKind::parse(data)? {
        FileKind::Elf32 => of_class::<elf::FileHeader32<Endianness>, R>(data),
        _ => of_class::<elf::FileHeader64<Endianness>, R>(data),
    }
}

/// Maps the addresses of a linked file's instructions to offsets in the file.
pub(crate) fn code<'d, R: ReadRef<'d>>(data: R) -> object::Result<Segments> {
    fn of_class<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
    ) -> object::Result<Segments> {
        let sections = Sections::<H, R>::read(H::parse(data)?, data)?;
        let endian = sections.endian;
        Ok(Segments::of_code(&sections, |_, section| Some(section.sh_addr(endian).into())))
    }
    match FileKind::parse(data)? {
        FileKind::Elf32 => of_class::<elf::FileHeader32<Endianness>, R>(data),
        _ => of_class::<elf::FileHeader64<Endianness>, R>(data),
    }
}

/// Returns the address of a symbol in an ELF file's full symbol table.
pub(crate) fn address_of<'d, R: ReadRef<'d>>(data: R, name: &[u8]) -> object::Result<Option<u64>> {
    fn of_class<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
        name: &[u8],
    ) -> object::Result<Option<u64>> {
        let sections = Sections::<H, R>::read(H::parse(data)?, data)?;
        let endian = sections.endian;
        let table = sections.symbol_table(elf::SHT_SYMTAB)?;
        Ok(table.and_then(|table| {
            let is_it = |symbol: &&H::Sym| {
                symbol.st_shndx(endian) != elf::SHN_UNDEF
                    && table.name(symbol.st_name(endian)) == name
            };
            table.symbols.iter().find(is_it).map(|symbol| symbol.st_value(endian).into())
        }))
    }
    match FileKind::parse(data)? {
        FileKind::Elf32 => of_class::<elf::FileHeader32<Endianness>, R>(data, name),
        _ => of_class::<elf::FileHeader64<Endianness>, R>(data, name),
    }
}

/// Symbols of an ELF file, and links to files with more.
#[derive(Debug)]
pub(crate) struct Image {
    /// Symbols by DSO address: the offset in the binary, for the kernel's image the recorded
    /// address.
    pub(crate) symbols: SymbolTableBuilder,
    /// Stubs that call functions of other files.
    stubs: Vec<Stub>,
    /// The string table of their names.
    stub_names: Arc<Vec<u8>>,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) debug_link: Option<DebugLink>,
    pub(crate) segments: Segments,
    /// Whether the file has a full symbol table, not only the dynamic linker's.
    pub(crate) has_symtab: bool,
    /// A compressed ELF file with symbols (MiniDebugInfo); empty if the file lacks it or has a full
    /// table.
    mini: Vec<u8>,
    /// Functions in the tables of Go's runtime; `None` if the file lacks them or has a full table.
    go: Option<SymbolTableBuilder>,
}

/// A stub of the procedure linkage table.
#[derive(Clone, Copy, Debug)]
struct Stub {
    /// Offset in the file.
    offset: u64,
    bytes: u64,
    /// Offset of the called function's name in the string table.
    name: u32,
}

impl Image {
    /// Reads the symbols. Pass the binary's segments for a debug file, whose own have no valid
    /// offsets.
    pub(crate) fn read<'d, R: ReadRef<'d>>(
        data: R,
        segments: Option<&Segments>,
    ) -> object::Result<Self> {
        match FileKind::parse(data)? {
            FileKind::Elf32 => Self::read_class::<elf::FileHeader32<Endianness>, R>(data, segments),
            _ => Self::read_class::<elf::FileHeader64<Endianness>, R>(data, segments),
        }
    }

    /// Reads the build id, the debug link and the segments only.
    pub(crate) fn read_outline<'d, R: ReadRef<'d>>(data: R) -> object::Result<Self> {
        match FileKind::parse(data)? {
            FileKind::Elf32 => Self::outline::<elf::FileHeader32<Endianness>, R>(data, None),
            _ => Self::outline::<elf::FileHeader64<Endianness>, R>(data, None),
        }
    }

    fn outline<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
        segments: Option<&Segments>,
    ) -> object::Result<Self> {
        let header = H::parse(data)?;
        let sections = Sections::<H, R>::read(header, data)?;
        Ok(Self {
            build_id: sections.build_id(),
            debug_link: sections.debug_link(),
            segments: match segments {
                Some(segments) => segments.clone(),
                None => Segments::read(header, data).unwrap_or_default(),
            },
            symbols: SymbolTableBuilder::new(NameSource::Symtab),
            stubs: Vec::new(),
            stub_names: Arc::default(),
            has_symtab: false,
            mini: Vec::new(),
            go: None,
        })
    }

    fn read_class<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
        segments: Option<&Segments>,
    ) -> object::Result<Self> {
        let mut image = Self::outline::<H, R>(data, segments)?;
        let sections = Sections::<H, R>::read(H::parse(data)?, data)?;
        let dynamic = sections.symbol_table(elf::SHT_DYNSYM)?;
        if let Some(full) = sections.symbol_table(elf::SHT_SYMTAB)? {
            image.has_symtab = true;
            let names = Arc::new(full.names.to_vec());
            image.symbols = SymbolTableBuilder::with_names(NameSource::Symtab, names);
            image.add_symbols(&sections, &full);
        }
        if let Some(dynamic) = dynamic {
            let names = Arc::new(dynamic.names.to_vec());
            image.stub_names = Arc::clone(&names);
            if !image.has_symtab {
                image.symbols = SymbolTableBuilder::with_names(NameSource::Dynsym, names);
                image.add_symbols(&sections, &dynamic);
            }
            image.add_stubs(&sections, dynamic.symbols);
        }
        if !image.has_symtab {
            image.mini = sections.mini_debug_info().to_vec();
            image.go = GoFunctions::read(&sections).map(|go| go_symbols(&go, &image.segments));
        }
        Ok(image)
    }

    /// Whether the file has neither a full symbol table nor another list of its functions.
    pub(crate) fn lacks_functions(&self) -> bool {
        !self.has_symtab && self.mini.is_empty() && self.go.is_none()
    }

    /// Adds the functions of the unwind tables, sorted, by their addresses.
    pub(crate) fn add_unnamed_functions(&mut self, ranges: &[Range<u64>]) {
        if self.symbols.is_empty() {
            self.symbols = SymbolTableBuilder::new(NameSource::UnwindTable);
        }
        let Self { symbols, segments, .. } = self;
        symbols.add_unnamed_functions(ranges, |address| segments.to_offset(address));
    }

    /// Combines symbols and stubs. The symbols of `debug`, if it has any, replace this file's. A
    /// debug file lacks the stubs' code, so its symbols get the stubs of `self`.
    pub(crate) fn into_symbols(self, debug: Option<Self>) -> SymbolTableBuilder {
        let of_debug = debug.map(|debug| debug.symbols).filter(|symbols| !symbols.is_empty());
        let mut symbols = of_debug.unwrap_or_else(|| {
            let mini = mini_symbols(&self.mini, &self.segments);
            let mut symbols = self.symbols;
            mini.into_iter().for_each(|mini| symbols.take_over(mini, NamePart::Mini));
            self.go.into_iter().for_each(|go| symbols.take_over(go, NamePart::Functions));
            symbols
        });
        if !self.stubs.is_empty() {
            symbols.set_names(NamePart::Stubs, self.stub_names);
        }
        for Stub { offset, bytes, name } in self.stubs {
            if !symbols.add_at(NewSymbol::function(offset, bytes), NamePart::Stubs, name) {
                break;
            }
        }
        symbols
    }

    /// Adds functions, data, and labels in sections of code and data.
    fn add_symbols<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        &mut self,
        sections: &Sections<'d, H, R>,
        table: &ElfSymbolTable<'d, H>,
    ) {
        let endian = sections.endian;
        for symbol in table.symbols {
            let Some(new) = new_symbol(sections, table, symbol) else { continue };
            let Some(start) = self.segments.to_offset(new.start) else { continue };
            let new = NewSymbol { start, ..new };
            if !self.symbols.add_at(new, NamePart::Symbols, symbol.st_name(endian)) {
                break;
            }
        }
    }

    /// Adds the stubs that call functions of other files.
    fn add_stubs<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        &mut self,
        sections: &Sections<'d, H, R>,
        symbols: &[H::Sym],
    ) {
        let endian = sections.endian;
        let Some(relocations) = sections.plt_relocations() else { return };
        for (section, has_header) in [(&b".plt"[..], true), (b".plt.sec", false)] {
            let Some(section) = sections.named(section) else { continue };
            let (header_bytes, bytes) = plt_sizes(sections, section);
            let mut address: u64 = section.sh_addr(endian).into();
            let end = address.saturating_add(section.sh_size(endian).into());
            address = address.saturating_add(if has_header { header_bytes } else { 0 });
            for relocation in relocations {
                let offset = self.segments.to_offset(address);
                let Some(offset) = offset.filter(|_| address < end && bytes > 0) else { break };
                let symbol = usize::try_from(relocation.r_sym(endian, false)).ok();
                let symbol = symbol.and_then(|symbol| symbols.get(symbol));
                let name = symbol.map_or(0, |symbol| symbol.st_name(endian));
                self.stubs.push(Stub { offset, bytes, name });
                address = address.saturating_add(bytes);
            }
        }
    }
}

/// Reads the symbols of MiniDebugInfo, an ELF file without code, compressed with xz (section
/// "Debugging information in a special section" of gdb's manual).
fn mini_symbols(packed: &[u8], segments: &Segments) -> Option<SymbolTableBuilder> {
    const LARGEST: u64 = 1 << 28;
    // Symbol tables compress to a fourth to a sixth of their size.
    const MOST_RATIO: u64 = 64;
    if packed.is_empty() {
        return None;
    }
    let mut bytes = Vec::new();
    let reader = xz(std::io::Cursor::new(packed.to_vec()));
    reader.take(LARGEST.min(packed.len() as u64 * MOST_RATIO)).read_to_end(&mut bytes).ok()?;
    let image = Image::read(bytes.as_slice(), Some(segments)).ok()?;
    image.has_symtab.then_some(image.symbols)
}

/// Converts the functions in the tables of Go's runtime.
fn go_symbols(go: &GoFunctions, segments: &Segments) -> SymbolTableBuilder {
    let mut symbols =
        SymbolTableBuilder::with_names(NameSource::Pclntab, Arc::new(go.names().to_vec()));
    for function in go.iter() {
        let Some(start) = segments.to_offset(function.start) else { continue };
        let size = function.end.saturating_sub(function.start);
        if !symbols.add_at(NewSymbol::function(start, size), NamePart::Symbols, function.name) {
            break;
        }
    }
    symbols
}

/// Reads the functions in the tables of Go's runtime; an error if the file isn't a 64-bit one.
pub(crate) fn go_functions<'d, R: ReadRef<'d>>(data: R) -> object::Result<Option<GoFunctions>> {
    let header = elf::FileHeader64::<Endianness>::parse(data)?;
    Ok(GoFunctions::read(&Sections::read(header, data)?))
}

/// Converts a symbol, without changing its address; `None` unless it is a function, data, or a
/// label in a section of code or data.
fn new_symbol<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    sections: &Sections<'d, H, R>,
    table: &ElfSymbolTable<'d, H>,
    symbol: &H::Sym,
) -> Option<NewSymbol> {
    let endian = sections.endian;
    let first = table.names.get(symbol.st_name(endian) as usize).copied().unwrap_or(0);
    let kind = kind_of(sections, symbol, first).filter(|_| first != 0)?;
    let binding = match symbol.st_bind() {
        elf::STB_GLOBAL => Binding::Global,
        elf::STB_WEAK => Binding::Weak,
        _ => Binding::Local,
    };
    let start = symbol.st_value(endian).into();
    let mut size = symbol.st_size(endian).into();
    if kind == SymbolKind::HiddenLabel && size == 0 {
        size = sections.bytes_behind(symbol.st_shndx(endian), start);
    }
    Some(NewSymbol { start, size, binding, kind })
}

/// Returns a symbol's kind; `None` if it names neither code nor data.
fn kind_of<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    sections: &Sections<'d, H, R>,
    symbol: &H::Sym,
    first_of_name: u8,
) -> Option<SymbolKind> {
    let section = symbol.st_shndx(sections.endian);
    if section == elf::SHN_UNDEF || section == elf::SHN_ABS {
        return None;
    }
    match symbol.st_type() {
        elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_OBJECT => Some(SymbolKind::Object),
        elf::STT_NOTYPE => {
            // Files for ARM and RISC-V mark the starts of code and data with symbols such as `$x`.
            let is_mark = matches!(sections.machine, elf::EM_ARM | elf::EM_AARCH64 | elf::EM_RISCV)
                && first_of_name == b'$';
            let is_hidden = matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
            match is_hidden {
                _ if is_mark => None,
                true => sections.is_code(section).then_some(SymbolKind::HiddenLabel),
                false => sections.is_text_or_data(section).then_some(SymbolKind::Label),
            }
        }
        _ => None,
    }
}

/// Bytes of the header and of an entry of a procedure linkage table.
fn plt_sizes<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
    sections: &Sections<'d, H, R>,
    section: &H::SectionHeader,
) -> (u64, u64) {
    match sections.machine {
        elf::EM_ARM => (20, 12),
        elf::EM_AARCH64 => (32, 16),
        _ => {
            let bytes: u64 = section.sh_entsize(sections.endian).into();
            (bytes, bytes)
        }
    }
}
