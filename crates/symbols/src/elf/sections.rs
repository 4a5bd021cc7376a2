//! Reads the sections and segments of an ELF file within limits: overlapping sections of a damaged
//! file must not multiply memory or time.

use object::elf;
use object::read::ReadRef;
use object::read::elf::{
    CompressionHeader, FileHeader, NoteIterator, ProgramHeader, SectionHeader,
};
use object::{Endian, Endianness};

use crate::dso::BuildId;
use crate::limits;
use crate::packed;

// Limits on the sections or segments with notes that are read, and on the bytes of each. Linkers
// write a few of about a hundred bytes.
const NOTES: usize = 64;
const NOTE_BYTES: u64 = 1 << 16;

/// The sections of a file.
pub(crate) struct Sections<'d, H: FileHeader, R: ReadRef<'d>> {
    pub(crate) endian: H::Endian,
    pub(crate) machine: elf::Machine,
    pub(crate) data: R,
    headers: &'d [H::SectionHeader],
    /// String table of the sections' names.
    names: &'d [u8],
}

/// A symbol table and its string table.
pub(super) struct ElfSymbolTable<'d, H: FileHeader> {
    pub(super) symbols: &'d [H::Sym],
    pub(super) names: &'d [u8],
}

/// Content of the section `.gnu_debuglink`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DebugLink {
    /// File name; a valid one has no folder.
    pub(crate) name: Vec<u8>,
    /// CRC-32 of the file.
    pub(crate) crc: u32,
}

impl<'d, H: FileHeader> ElfSymbolTable<'d, H> {
    /// Returns the name at an offset of the string table, cut at the limit on names.
    pub(super) fn name(&self, at: u32) -> &'d [u8] {
        let rest = self.names.get(at as usize..).unwrap_or_default();
        let rest = &rest[..rest.len().min(limits::NAME_BYTES)];
        &rest[..rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len())]
    }
}

impl<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>> Sections<'d, H, R> {
    /// Reads the section headers and the table of their names.
    pub(crate) fn read(header: &'d H, data: R) -> object::Result<Self> {
        let endian = header.endian()?;
        let headers = header.section_headers(endian, data)?;
        let machine = header.e_machine(endian);
        let mut sections = Self { endian, machine, data, headers, names: &[] };
        if let Ok(index) = header.shstrndx(endian, data) {
            sections.names = sections.linked(index);
        }
        Ok(sections)
    }

    /// Returns a section's bytes; none if it is larger than [`limits::SECTION_BYTES`].
    pub(super) fn bytes(&self, section: &H::SectionHeader) -> object::Result<&'d [u8]> {
        self.bytes_up_to(section, limits::SECTION_BYTES)
    }

    fn bytes_up_to(&self, section: &H::SectionHeader, most: u64) -> object::Result<&'d [u8]> {
        let size: u64 = section.sh_size(self.endian).into();
        if size > most { Ok(&[]) } else { section.data(self.endian, self.data) }
    }

    /// Returns a section's bytes, of any size: for mapped files.
    pub(crate) fn mapped(&self, section: &H::SectionHeader) -> Option<&'d [u8]> {
        section.data(self.endian, self.data).ok()
    }

    /// Copies a section, decompressed if necessary; `None` or empty if it has more than `most`
    /// bytes or is damaged.
    pub(super) fn unpacked(&self, section: &H::SectionHeader, most: u64) -> Option<Vec<u8>> {
        let most = most.min(limits::SECTION_BYTES);
        let bytes = self.bytes_up_to(section, most).ok()?;
        let Ok(Some((header, ..))) = section.compression(self.endian, self.data) else {
            return Some(bytes.to_vec());
        };
        let size: u64 = header.ch_size(self.endian).into();
        let packed = bytes.get(size_of_val(header)..)?;
        // Unwind tables compress to a third to a tenth of their size.
        const MOST_RATIO: u64 = 64;
        let is_believed = size <= most && size <= (packed.len() as u64).saturating_mul(MOST_RATIO);
        let size = usize::try_from(size).ok().filter(|_| is_believed)?;
        match header.ch_type(self.endian) {
            elf::ELFCOMPRESS_ZLIB => packed::zlib_section(packed, size),
            elf::ELFCOMPRESS_ZSTD => packed::zstd_section(packed, size),
            _ => None,
        }
    }

    /// Returns the bytes of a section by its number; empty if it is missing, too large or damaged.
    fn linked(&self, index: u32) -> &'d [u8] {
        let section = usize::try_from(index).ok().and_then(|index| self.headers.get(index));
        section.and_then(|section| self.bytes(section).ok()).unwrap_or_default()
    }

    /// Returns the headers by section number.
    pub(crate) fn headers(&self) -> &'d [H::SectionHeader] {
        self.headers
    }

    /// Returns a section's name, cut after 256 bytes.
    pub(crate) fn name(&self, section: &H::SectionHeader) -> &'d [u8] {
        const LONGEST: usize = 256;
        let name = self.name_from(section);
        let name = &name[..name.len().min(LONGEST)];
        &name[..name.iter().position(|byte| *byte == 0).unwrap_or(name.len())]
    }

    pub(crate) fn named(&self, name: &[u8]) -> Option<&'d H::SectionHeader> {
        self.headers.iter().find(|section| {
            self.name_from(section).strip_prefix(name).is_some_and(|rest| rest.first() == Some(&0))
        })
    }

    /// Returns the string table from a section's name to its end.
    fn name_from(&self, section: &H::SectionHeader) -> &'d [u8] {
        self.names.get(section.sh_name(self.endian) as usize..).unwrap_or_default()
    }

    /// Whether a section has code or data, judged by its name as in perf.
    pub(super) fn is_text_or_data(&self, index: elf::SymbolSection) -> bool {
        let section = self.headers.get(usize::from(index.0));
        let name = section.map(|section| self.name(section)).unwrap_or_default();
        name.windows(4).any(|part| part == b"text" || part == b"data")
    }

    pub(super) fn is_code(&self, index: elf::SymbolSection) -> bool {
        let section = self.headers.get(usize::from(index.0));
        section.is_some_and(|section| section.sh_flags(self.endian).contains(elf::SHF_EXECINSTR))
    }

    /// Returns the number of bytes from an address to the end of its section.
    pub(super) fn bytes_behind(&self, index: elf::SymbolSection, address: u64) -> u64 {
        let Some(section) = self.headers.get(usize::from(index.0)) else { return 0 };
        let start: u64 = section.sh_addr(self.endian).into();
        start.saturating_add(section.sh_size(self.endian).into()).saturating_sub(address)
    }

    /// Returns the entries of a symbol table, and their names.
    pub(super) fn symbol_table(
        &self,
        kind: elf::SectionType,
    ) -> object::Result<Option<ElfSymbolTable<'d, H>>> {
        let section = self.headers.iter().find(|section| section.sh_type(self.endian) == kind);
        let Some(section) = section else { return Ok(None) };
        let symbols = whole_entries(self.bytes(section)?);
        Ok(Some(ElfSymbolTable { symbols, names: self.linked(section.sh_link(self.endian)) }))
    }

    /// Returns the entries of the full symbol table; empty without one.
    pub(crate) fn symbols(&self) -> object::Result<&'d [H::Sym]> {
        Ok(self.symbol_table(elf::SHT_SYMTAB)?.map_or(&[], |table| table.symbols))
    }

    /// Returns the relocations of the procedure linkage table, in the order of its stubs.
    pub(super) fn plt_relocations(&self) -> Option<&'d [H::Rela]> {
        Some(whole_entries(self.bytes(self.named(b".rela.plt")?).ok()?))
    }

    /// Returns the dynamic linker's relocations of data.
    pub(super) fn dynamic_relocations(&self) -> &'d [H::Rela] {
        let section = self.named(b".rela.dyn");
        section.and_then(|section| self.bytes(section).ok()).map_or(&[], whole_entries)
    }

    /// Finds the build id in the note sections.
    pub(crate) fn build_id(&self) -> Option<BuildId> {
        let notes = self.headers.iter().filter(|section| {
            section.sh_type(self.endian) == elf::SHT_NOTE
                && section.sh_size(self.endian).into() <= NOTE_BYTES
        });
        notes
            .take(NOTES)
            .filter_map(|section| section.notes(self.endian, self.data).ok()?)
            .find_map(|notes| self.build_id_among(notes))
    }

    /// Finds the build id in the note segments, for a file without section headers.
    pub(super) fn build_id_in_segments(&self, header: &'d H) -> Option<BuildId> {
        let segments = header.program_headers(self.endian, self.data).ok()?.iter();
        let notes = segments.filter(|segment| {
            segment.p_type(self.endian) == elf::PT_NOTE
                && segment.p_filesz(self.endian).into() <= NOTE_BYTES
        });
        notes
            .take(NOTES)
            .filter_map(|segment| segment.notes(self.endian, self.data).ok()?)
            .find_map(|notes| self.build_id_among(notes))
    }

    fn build_id_among(&self, mut notes: NoteIterator<'d, H>) -> Option<BuildId> {
        while let Ok(Some(note)) = notes.next() {
            if note.name() == elf::ELF_NOTE_GNU && note.n_type(self.endian) == elf::NT_GNU_BUILD_ID
            {
                return BuildId::new(note.desc());
            }
        }
        None
    }

    /// Reads the debug link: a name, NUL bytes up to a multiple of four, and the checksum in the
    /// file's byte order.
    pub(super) fn debug_link(&self) -> Option<DebugLink> {
        const LONGEST: u64 = 4096;
        let bytes = self.bytes_up_to(self.named(b".gnu_debuglink")?, LONGEST).ok()?;
        let name = bytes.split(|byte| *byte == 0).next().filter(|name| !name.is_empty())?;
        let crc = bytes.get((name.len() + 1).next_multiple_of(4)..)?.first_chunk()?;
        let crc = if self.endian.is_little_endian() {
            u32::from_le_bytes(*crc)
        } else {
            u32::from_be_bytes(*crc)
        };
        Some(DebugLink { name: name.to_vec(), crc })
    }
    /// Returns the compressed symbols of a stripped file (MiniDebugInfo); empty without them.
    pub(super) fn mini_debug_info(&self) -> &'d [u8] {
        const LARGEST: u64 = 1 << 26;
        let section = self.named(b".gnu_debugdata");
        section.and_then(|section| self.bytes_up_to(section, LARGEST).ok()).unwrap_or_default()
    }

    /// Reads the path and the build id of the file that debug files share (`dwz(1)`): the path, a
    /// NUL byte, and the build id.
    pub(crate) fn debug_alternative(&self) -> Option<(Vec<u8>, Option<BuildId>)> {
        const LONGEST: u64 = 4096 + 20;
        let bytes = self.bytes_up_to(self.named(b".gnu_debugaltlink")?, LONGEST).ok()?;
        let end = bytes.iter().position(|byte| *byte == 0).filter(|end| *end > 0)?;
        Some((bytes[..end].to_vec(), BuildId::new(&bytes[end + 1..])))
    }
}

/// Returns the whole entries in a slice of bytes.
fn whole_entries<T: object::pod::Pod>(bytes: &[u8]) -> &[T] {
    let bytes = &bytes[..bytes.len() - bytes.len() % size_of::<T>()];
    object::pod::slice_from_all_bytes(bytes).unwrap_or_default()
}

/// Offsets and addresses of a file's segments, or of its sections with code.
#[derive(Clone, Debug, Default)]
pub(crate) struct Segments(Vec<Segment>);

#[derive(Clone, Copy, Debug)]
struct Segment {
    address: u64,
    memory_bytes: u64,
    offset: u64,
    file_bytes: u64,
}

impl Segments {
    /// Returns a single segment of all addresses, each with the offset of the address plus `by`.
    pub(crate) fn moved(by: u64) -> Self {
        let [memory_bytes, file_bytes] = [u64::MAX; 2];
        Self(vec![Segment { address: 0, memory_bytes, offset: by, file_bytes }])
    }

    /// Returns the sections with code, at the given addresses by section number.
    pub(super) fn of_code<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        sections: &Sections<'d, H, R>,
        address: impl Fn(usize, &H::SectionHeader) -> Option<u64>,
    ) -> Self {
        let endian = sections.endian;
        let code = sections.headers.iter().enumerate().filter(|(_, section)| {
            section.sh_flags(endian).contains(elf::SHF_EXECINSTR)
                && section.sh_type(endian) == elf::SHT_PROGBITS
        });
        let segment = |(number, section): (usize, &H::SectionHeader)| {
            let bytes = section.sh_size(endian).into();
            Some(Segment {
                address: address(number, section)?,
                memory_bytes: bytes,
                offset: section.sh_offset(endian).into(),
                file_bytes: bytes,
            })
        };
        Self(code.filter_map(segment).take(limits::SEGMENTS).collect())
    }

    /// Reads the segments that are loaded.
    pub(super) fn read<'d, H: FileHeader<Endian = Endianness>, R: ReadRef<'d>>(
        header: &'d H,
        data: R,
    ) -> object::Result<Self> {
        let endian = header.endian()?;
        let load = header
            .program_headers(endian, data)?
            .iter()
            .filter(|segment| segment.p_type(endian) == elf::PT_LOAD);
        let segment = |segment: &H::ProgramHeader| Segment {
            address: segment.p_vaddr(endian).into(),
            memory_bytes: segment.p_memsz(endian).into(),
            offset: segment.p_offset(endian).into(),
            file_bytes: segment.p_filesz(endian).into(),
        };
        Ok(Self(load.map(segment).take(limits::SEGMENTS).collect()))
    }

    /// Converts an address to an offset in the file.
    pub(crate) fn to_offset(&self, address: u64) -> Option<u64> {
        let lies_in =
            |segment: &&Segment| address.wrapping_sub(segment.address) < segment.memory_bytes;
        let segment = self.0.iter().find(lies_in)?;
        Some(address.wrapping_sub(segment.address).wrapping_add(segment.offset))
    }

    /// Converts an offset in the file to an address.
    pub(crate) fn to_address(&self, offset: u64) -> Option<u64> {
        let lies_in = |segment: &&Segment| offset.wrapping_sub(segment.offset) < segment.file_bytes;
        let segment = self.0.iter().find(lies_in)?;
        Some(offset.wrapping_sub(segment.offset).wrapping_add(segment.address))
    }
}
