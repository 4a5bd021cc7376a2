//! Symbols of ELF files.

mod frames;

pub(crate) use frames::{Frames, Places};
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym};
use object::read::{ReadRef, SectionIndex, StringTable};
use object::{Endianness, FileKind};

use crate::files::BuildId;
use crate::limits;
use crate::table::{Builder, Rank};

/// What an ELF file says about its code.
#[derive(Debug, Default)]
pub(crate) struct Image {
    /// At their places in the file.
    pub(crate) symbols: Builder,
    /// Place, size and name of the stubs through which functions of other files are called.
    pub(crate) stubs: Vec<(u64, u64, Vec<u8>)>,
    pub(crate) build_id: Option<BuildId>,
    pub(crate) segments: Segments,
    /// It has a full table, not only what the dynamic linker needs.
    pub(crate) has_symtab: bool,
}

/// Where addresses of the file lie in it: first address, size in memory, place in the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments(Vec<(u64, u64, u64)>);

impl Segments {
    fn to_file(&self, address: u64) -> Option<u64> {
        let segment = self.0.iter().find(|(start, size, _)| address.wrapping_sub(*start) < *size);
        segment.map(|(start, _, offset)| address.wrapping_sub(*start).wrapping_add(*offset))
    }
}

impl Image {
    /// Reads the symbols. A debug file's segments are not where its symbols lie: they come from the
    /// file that it belongs to.
    pub(crate) fn read<'d, R: ReadRef<'d>>(
        data: R,
        segments: Option<&Segments>,
    ) -> object::Result<Self> {
        match FileKind::parse(data)? {
            FileKind::Elf32 => Self::read_class::<elf::FileHeader32<Endianness>, R>(data, segments),
            _ => Self::read_class::<elf::FileHeader64<Endianness>, R>(data, segments),
        }
    }

    fn read_class<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        data: R,
        segments: Option<&Segments>,
    ) -> object::Result<Self> {
        let header = H::parse(data)?;
        let endian = header.endian()?;
        let own_segments = || {
            let load = header
                .program_headers(endian, data)
                .unwrap_or_default()
                .iter()
                .filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
            let place = |segment: &H::ProgramHeader| {
                (
                    segment.p_vaddr(endian).into(),
                    segment.p_memsz(endian).into(),
                    segment.p_offset(endian).into(),
                )
            };
            Segments(load.map(place).collect())
        };
        let sections = header.sections(endian, data)?;
        let reader = Sections { endian, data, sections, machine: header.e_machine(endian) };
        let mut image = Self {
            build_id: reader.build_id(),
            segments: segments.cloned().unwrap_or_else(own_segments),
            ..Self::default()
        };
        image.has_symtab = reader.add_symbols(elf::SHT_SYMTAB, &mut image)?;
        if !image.has_symtab {
            reader.add_symbols(elf::SHT_DYNSYM, &mut image)?;
        }
        reader.add_plt(&mut image);
        Ok(image)
    }
}

struct Sections<'d, H: FileHeader, R: ReadRef<'d>> {
    endian: H::Endian,
    data: R,
    sections: SectionTable<'d, H, R>,
    machine: elf::Machine,
}

/// The entries of a table of symbols, and their names.
type Entries<'d, H> = (&'d [<H as FileHeader>::Sym], StringTable<'d, &'d [u8]>);

impl<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>> Sections<'d, H, R> {
    /// A section's bytes, unless it is larger than any that is needed.
    fn bytes(&self, section: &H::SectionHeader) -> object::Result<&'d [u8]> {
        let size: u64 = section.sh_size(self.endian).into();
        if size > limits::SECTION_BYTES { Ok(&[]) } else { section.data(self.endian, self.data) }
    }

    fn named(&self, name: &[u8]) -> Option<&'d H::SectionHeader> {
        self.sections
            .iter()
            .find(|section| self.sections.section_name(self.endian, section) == Ok(name))
    }

    fn build_id(&self) -> Option<BuildId> {
        self.sections.iter().find_map(|section| {
            let mut notes = section.notes(self.endian, self.data).ok()??;
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU
                    && note.n_type(self.endian) == elf::NT_GNU_BUILD_ID
                {
                    return BuildId::new(note.desc());
                }
            }
            None
        })
    }

    /// The entries of a table of symbols, and their names.
    fn table(&self, kind: elf::SectionType) -> object::Result<Option<Entries<'d, H>>> {
        let Some(section) =
            self.sections.iter().find(|section| section.sh_type(self.endian) == kind)
        else {
            return Ok(None);
        };
        let entries =
            object::pod::slice_from_all_bytes(self.whole_entries(section)?).unwrap_or_default();
        let link = usize::try_from(section.sh_link(self.endian)).unwrap_or(usize::MAX);
        let names = self.bytes(self.sections.section(SectionIndex(link))?)?;
        Ok(Some((entries, StringTable::new(names, 0, names.len() as u64))))
    }

    fn whole_entries(&self, section: &H::SectionHeader) -> object::Result<&'d [u8]> {
        let bytes = self.bytes(section)?;
        Ok(&bytes[..bytes.len() - bytes.len() % size_of::<H::Sym>()])
    }

    /// Adds functions, data, and labels in sections of code and data. `false`: there is no such
    /// table.
    fn add_symbols(&self, kind: elf::SectionType, image: &mut Image) -> object::Result<bool> {
        let Some((entries, names)) = self.table(kind)? else { return Ok(false) };
        for symbol in entries {
            let name = symbol.name(self.endian, names).unwrap_or_default();
            if name.is_empty() || !self.is_wanted(symbol, name) {
                continue;
            }
            let address: u64 = symbol.st_value(self.endian).into();
            let Some(place) = image.segments.to_file(address) else { continue };
            let rank = Rank {
                is_global: symbol.st_bind() == elf::STB_GLOBAL,
                is_weak: symbol.st_bind() == elf::STB_WEAK,
                is_label: symbol.st_type() == elf::STT_NOTYPE,
            };
            if !image.symbols.add(place, symbol.st_size(self.endian).into(), name, rank) {
                break;
            }
        }
        Ok(true)
    }

    fn is_wanted(&self, symbol: &H::Sym, name: &[u8]) -> bool {
        let section = symbol.st_shndx(self.endian);
        if section == elf::SHN_UNDEF || section == elf::SHN_ABS {
            return false;
        }
        match symbol.st_type() {
            elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_OBJECT => true,
            elf::STT_NOTYPE => {
                // ARM marks where code and data begin with names such as `$x`.
                let is_mark = matches!(self.machine, elf::EM_ARM | elf::EM_AARCH64 | elf::EM_RISCV)
                    && name.starts_with(b"$");
                let is_hidden =
                    matches!(symbol.st_visibility(), elf::STV_HIDDEN | elf::STV_INTERNAL);
                !is_mark && !is_hidden && self.is_text_or_data(section)
            }
            _ => false,
        }
    }

    fn is_text_or_data(&self, section: elf::SymbolSection) -> bool {
        let section = self.sections.section(SectionIndex(section.0.into()));
        let name = section
            .ok()
            .and_then(|section| self.sections.section_name(self.endian, section).ok())
            .unwrap_or_default();
        name.windows(4).any(|part| part == b"text" || part == b"data")
    }

    /// Adds `NAME@plt` for the stubs through which functions of other files are called.
    fn add_plt(&self, image: &mut Image) {
        let Some(names) = self.plt_names() else { return };
        for (section, has_header) in [(&b".plt"[..], true), (b".plt.sec", false)] {
            let Some(section) = self.named(section) else { continue };
            let (header_size, entry_size) = self.plt_sizes(section);
            let mut address: u64 = section.sh_addr(self.endian).into();
            let end = address.saturating_add(section.sh_size(self.endian).into());
            address = address.saturating_add(if has_header { header_size } else { 0 });
            for name in &names {
                let Some(place) =
                    image.segments.to_file(address).filter(|_| address < end && entry_size > 0)
                else {
                    break;
                };
                let name = [name, &b"@plt"[..]].concat();
                image.stubs.push((place, entry_size, name));
                address += entry_size;
            }
        }
    }

    fn plt_sizes(&self, section: &H::SectionHeader) -> (u64, u64) {
        match self.machine {
            elf::EM_ARM => (20, 12),
            elf::EM_AARCH64 => (32, 16),
            _ => {
                let size: u64 = section.sh_entsize(self.endian).into();
                (size, size)
            }
        }
    }

    fn plt_names(&self) -> Option<Vec<&'d [u8]>> {
        let section = self.named(b".rela.plt")?;
        let bytes = self.bytes(section).ok()?;
        let entries: &[H::Rela] = object::pod::slice_from_all_bytes(
            &bytes[..bytes.len() - bytes.len() % size_of::<H::Rela>()],
        )
        .ok()?;
        let (symbols, names) = self.table(elf::SHT_DYNSYM).ok()??;
        let name = |entry: &H::Rela| {
            let symbol = symbols.get(usize::try_from(entry.r_sym(self.endian, false)).ok()?)?;
            symbol.name(self.endian, names).ok()
        };
        Some(entries.iter().map(|entry| name(entry).unwrap_or_default()).collect())
    }
}
