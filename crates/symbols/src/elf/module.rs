//! Kernel modules: relocatable files, whose sections the kernel's loader places.

use std::collections::HashMap;

use object::elf;
use object::read::ReadRef;
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, FileKind};

use super::sections::ElfSymbolTable;
use super::{DebugLink, Sections, Segments, new_symbol};
use crate::name_source::NameSource;
use crate::table::{NamePart, SymbolTableBuilder};

/// Addresses of a loaded module.
#[derive(Clone, Debug, Default)]
pub(crate) struct LoadedModule {
    /// The first address of its code.
    pub(crate) base: u64,
    /// Known addresses of its functions by name. They correct the computed layout, which lacks the
    /// stubs that the loaders of some architectures put between sections.
    pub(crate) known: HashMap<Vec<u8>, u64>,
}

/// Symbols and code of a module's file.
#[derive(Debug)]
pub(crate) struct ModuleImage {
    /// Symbols by their address in the loaded module.
    pub(crate) symbols: SymbolTableBuilder,
    /// Maps these addresses to offsets in the file.
    pub(crate) code: Segments,
    pub(crate) debug_link: Option<DebugLink>,
}

/// Addresses of a relocatable file's sections with code, by section number; `None` for other
/// sections, and for code that is freed after the module's start.
#[derive(Debug)]
pub(crate) struct Layout(Vec<Option<u64>>);

impl Layout {
    /// Lays sections out as the kernel does: aligned sections of code one after the other, without
    /// those that are freed after the module's start (`layout_sections` in `kernel/module/main.c`).
    pub(crate) fn read<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        sections: &Sections<'d, H, R>,
        loaded: &LoadedModule,
    ) -> object::Result<Self> {
        let endian = sections.endian;
        let mut next = loaded.base;
        let mut bases: Vec<Option<u64>> = Vec::new();
        for section in sections.headers() {
            let flags = section.sh_flags(endian);
            let is_code = [elf::SHF_ALLOC, elf::SHF_EXECINSTR].iter().all(|f| flags.contains(*f));
            if !is_code || sections.name(section).starts_with(b".init") {
                bases.push(None);
                continue;
            }
            let align: u64 = section.sh_addralign(endian).into();
            let size: u64 = section.sh_size(endian).into();
            let base = next.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX);
            next = base.saturating_add(size);
            bases.push(Some(base));
        }
        let mut layout = Self(bases);
        if let Some(table) = sections.symbol_table(elf::SHT_SYMTAB)? {
            layout.correct::<H>(endian, &table, loaded);
        }
        Ok(layout)
    }

    /// Moves each section so that the first known function in it is at its known address.
    fn correct<H: FileHeader<Endian = Endianness>>(
        &mut self,
        endian: Endianness,
        table: &ElfSymbolTable<'_, H>,
        loaded: &LoadedModule,
    ) {
        let mut is_right = vec![loaded.known.is_empty(); self.0.len()];
        for symbol in table.symbols.iter().filter(|symbol| symbol.st_type() == elf::STT_FUNC) {
            let section = usize::from(symbol.st_shndx(endian).0);
            let Some(Some(base)) = self.0.get_mut(section) else { continue };
            if is_right[section] {
                continue;
            }
            if let Some(at) = loaded.known.get(table.name(symbol.st_name(endian))) {
                let offset: u64 = symbol.st_value(endian).into();
                *base = at.wrapping_sub(offset);
                is_right[section] = true;
            }
        }
    }

    /// Returns the address of a section with code.
    pub(crate) fn base(&self, section: elf::SymbolSection) -> Option<u64> {
        *self.0.get(usize::from(section.0))?
    }
}

impl ModuleImage {
    /// Reads a relocatable file.
    ///
    /// # Errors
    /// Fails if the file isn't an ELF file, or is damaged.
    pub(crate) fn read<'d, R: ReadRef<'d>>(data: R, loaded: &LoadedModule) -> object::Result<Self> {
        match FileKind::parse(data)? {
            FileKind::Elf32 => Self::of_class::<elf::FileHeader32<Endianness>, R>(data, loaded),
            _ => Self::of_class::<elf::FileHeader64<Endianness>, R>(data, loaded),
        }
    }

    fn of_class<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
        loaded: &LoadedModule,
    ) -> object::Result<Self> {
        let sections = Sections::<H, R>::read(H::parse(data)?, data)?;
        let layout = Layout::read(&sections, loaded)?;
        let mut module = Self {
            symbols: SymbolTableBuilder::new(NameSource::Symtab),
            code: Segments::of_code(&sections, |number, _| *layout.0.get(number)?),
            debug_link: sections.debug_link(),
        };
        if let Some(table) = sections.symbol_table(elf::SHT_SYMTAB)? {
            let names = std::sync::Arc::new(table.names.to_vec());
            module.symbols = SymbolTableBuilder::with_names(NameSource::Symtab, names);
            for symbol in table.symbols {
                let base = layout.base(symbol.st_shndx(sections.endian));
                let Some((base, new)) = base.zip(new_symbol(&sections, &table, symbol)) else {
                    continue;
                };
                let start = base.wrapping_add(new.start);
                let name = symbol.st_name(sections.endian);
                let new = crate::table::NewSymbol { start, ..new };
                if !module.symbols.add_at(new, NamePart::Symbols, name) {
                    break;
                }
            }
        }
        Ok(module)
    }
}
